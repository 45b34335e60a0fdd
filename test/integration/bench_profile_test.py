"""bench/profile.sh's pure parts: what strace and perf print, folded and drawn; and that a tool never stays on a program."""

import os
import signal
import subprocess
import sys
import xml.etree.ElementTree

from case import Case, main
from programs import PROGRAMS, ROOT, clean_environment
from waiting import TIME_FACTOR, wait_until

sys.path.insert(0, os.path.join(ROOT, "bench"))
import profile_parts as parts  # noqa: E402

PERF = """lb
\t    55d0c1 dlb::lb::Router::pick(dlb::lb::PickInput const&, std::vector<int, std::allocator<int> >&)+0x1f (/srv/lb/lb)
\t    55d0aa dlb::EventLoop::run()+0x40 (/srv/lb/lb)
\t    55d000 main+0x1 (/srv/lb/lb)

lb
\tffffffff815eb7a6 tcp_sendmsg+0x36 ([kernel.kallsyms])
\t    7f27d0 __libc_send+0x10 (/usr/lib/x86_64-linux-gnu/libc.so.6)
\t    55d0aa dlb::EventLoop::run()+0x50 (/srv/lb/lb)
\t    55d000 main+0x1 (/srv/lb/lb)

lb
\t    7f0000 [unknown] (/usr/lib/x86_64-linux-gnu/libssl.so.3)
\t    55d000 main+0x9 (/srv/lb/lb (deleted))

"""

TOOL = """#!{python}
import os, signal, sys
if "stat" in sys.argv:
    sys.exit("no counters")
def detach(*_):
    open("{folder}/detached", "w").close()
    os._exit(0)
signal.signal(signal.SIGINT, detach)
open("{folder}/attached", "w").close()
while True:
    signal.pause()
"""

STRACE = """% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 70.00    0.700000           7       {reads}           read
 20.00    0.200000           2       {writes}        12 write
 10.00    0.100000           1        40           epoll_wait
------ ----------- ----------- --------- --------- ----------------
100.00    1.000000           5      9999        12 total
"""


class Profile(Case):
    def test_stacks_are_folded_by_who_calls_whom(self):
        stacks = parts.stacks_of(PERF, "lb")
        self.assertEqual(sum(stacks.values()), 3)
        run = ("dlb::EventLoop::run()", "program")
        sending = (("lb", "program"), ("main", "program"), run, ("__libc_send", "library"), ("tcp_sendmsg", "kernel"))
        self.assertEqual(stacks[sending], 1)
        unnamed = (("lb", "program"), ("main", "program"), ("[libssl.so.3]", "library"))
        self.assertEqual(stacks[unnamed], 1)
        self.assertEqual({(name, kind): n for name, kind, n in parts.self_samples(stacks)}[("tcp_sendmsg", "kernel")], 1)
        self.assertEqual(parts.stacks_of("", "lb"), {})

    def test_names_are_short(self):
        for long, short in (("dlb::lb::Router::pick(dlb::lb::PickInput const&, std::vector<int>&)", "dlb::lb::Router::pick"),
                            ("void dlb::Slab<dlb::lb::Exchange, 4>::reap(int)", "dlb::Slab::reap"),
                            ("dlb::(anonymous namespace)::read_all(int)", "dlb::read_all"),
                            ("tcp_sendmsg", "tcp_sendmsg"), ("[libssl.so.3]", "[libssl.so.3]")):
            self.assertEqual(parts.short_name(long), short)

    def test_calls_a_request_are_the_difference_of_two_counts(self):
        few = parts.strace_calls(STRACE.format(reads=1300, writes=1050))
        self.assertEqual(few, {"read": 1300, "write": 1050, "epoll_wait": 40})
        many = parts.strace_calls(STRACE.format(reads=4300, writes=3050))
        self.assertEqual(parts.calls_per_request((few, 500), (many, 1500)), [("read", 3.0), ("write", 2.0)])
        self.assertIsNone(parts.calls_per_request((few, 500), (many, 500)))

    def test_the_flame_graph_is_one_file_with_every_frame_in_its_place(self):
        stacks = parts.stacks_of(PERF, "lb")
        stacks[(("lb", "program"), ("a<b>&c()", "program"))] = 1
        boxes = {node.name: (x, width, depth) for node, x, width, depth in parts.boxes_of(parts.tree_of(stacks))}
        full = parts.WIDTH - 2 * parts.MARGIN
        self.assertEqual(boxes["all"], (parts.MARGIN, full, 0))
        self.assertAlmostEqual(boxes["main"][1], full * 3 / 4)
        self.assertAlmostEqual(boxes["dlb::EventLoop::run()"][1], full / 2)
        self.assertEqual(boxes["tcp_sendmsg"][2], 5)
        self.assertGreaterEqual(boxes["main"][0], boxes["a<b>&c()"][0] + boxes["a<b>&c()"][1] - 0.01)
        svg = parts.flame_svg(stacks, "lb & load <1>")
        root = xml.etree.ElementTree.fromstring(svg)
        titles = [title.text for title in root.iter("{http://www.w3.org/2000/svg}title")]
        self.assertIn("tcp_sendmsg: 1 samples, 25.0 %", titles)
        self.assertIn("a<b>&c(): 1 samples, 25.0 %", titles)
        self.assertNotIn("<script", svg)
        self.assertIn("</svg>", parts.flame_svg({}, "nothing"))


class Stopped(Case):
    """In the middle of a load: whoever stops the profile, and be it by SIGKILL, the tool lets the program go."""

    def profiled(self, backend, name):
        folder = os.path.join(self.folder, name)
        os.mkdir(folder)
        with open(os.path.join(folder, "perf"), "w", encoding="utf-8") as file:
            file.write(TOOL.format(python=sys.executable, folder=folder))
        os.chmod(file.name, 0o755)
        command = [sys.executable, os.path.join(ROOT, "bench", "profile_run.py"), str(backend.pid), "--url", backend.url,
                   "--load", "-users 2", "--seconds", "600", "--skip", "strace", "--out", os.path.join(folder, "out")]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   env=clean_environment(DLB_PROGRAMS=PROGRAMS, PATH=folder + ":" + os.environ["PATH"]))
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return folder, process

    def test_nothing_stays_attached(self):
        (backend,) = self.chat_backends(1)
        signals = (signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
        running = [(number, *self.profiled(backend, number.name)) for number in signals]
        for number, folder, process in running:
            wait_until(lambda: os.path.exists(os.path.join(folder, "attached")), 60, "the tool")
            process.send_signal(number)
        for number, folder, process in running:
            out, _ = process.communicate(timeout=60 * TIME_FACTOR)
            self.assertEqual(process.returncode, -number if number == signal.SIGKILL else 130, out)
            wait_until(lambda: os.path.exists(os.path.join(folder, "detached")), 60, "the tool to let go")


if __name__ == "__main__":
    main()
