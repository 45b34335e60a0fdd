#!/usr/bin/env python3
"""CPU that a request costs the generator, beside wrk, in one run: rounds are interleaved (ours, wrk, wrk, ours, …), medians
with their spread, ratios taken round by round. The server, nginx with 256 bytes out of memory, has core 0; the clients,
one after the other, have core 1."""

import argparse
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile

from servers import NGINX, Server, free_port, spread

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BODY = "x" * 256
# As ours: the same fields, a body of the same length. It is made once, so wrk pays nothing for it.
WRK_POST = """wrk.method = "POST"
wrk.body = string.rep("x", {bytes})
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Idempotency-Key"] = "00000000-0000-4000-8000-000000000000"
"""


def start_server(folder):
    port = free_port()
    inner = f"server {{ listen 127.0.0.1:{port} backlog=8192; location / {{ return 200 '{BODY}'; }} }}"
    path = os.path.join(folder, "server.conf")
    with open(path, "w", encoding="ascii") as file:
        file.write(NGINX.format(folder=folder, name="server", inner=inner))
    os.chmod(folder, 0o755)
    return Server("server", port, ["nginx", "-c", path], 0, folder)


def run(command):
    """Output, and CPU seconds (user, system) of the process from its start to its end."""
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(["taskset", "-c", "1"] + command, stdout=out, stderr=subprocess.STDOUT,
                                   preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_DFL))
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        return process.returncode, out.read(), usage.ru_utime, usage.ru_stime


def ours(program, port, users, seconds, kind):
    """µs a request: user, system."""
    feed = "100" if kind == "get" else "0"
    code, out, user, system = run([program, "-url", f"http://127.0.0.1:{port}", "-users", str(users), "-duration",
                                   f"{seconds}s", "-connection-mode", "fresh-user", "-feed-percent", feed, "-message-min",
                                   "200", "-message-max", "200", "-seed", "1", "-out-dir", "", "-metrics-interval", "1h"])
    done = re.search(r"buckets: ok (\d+) \[", out)
    if code not in (0, 4) or not done:  # 4: it was the bottleneck, which is what is wanted here
        raise SystemExit(f"generator_cost: loadgen ended with {code}:\n{out}")
    return int(done[1]), user * 1e6 / int(done[1]), system * 1e6 / int(done[1])


def wrk(port, users, seconds, kind, folder):
    command = ["wrk", "-t1", f"-c{users}", f"-d{seconds}s"]
    if kind == "post":
        script = os.path.join(folder, "post.lua")
        with open(script, "w", encoding="ascii") as file:
            file.write(WRK_POST.format(bytes=292))
        command += ["-s", script]
    code, out, user, system = run(command + [f"http://127.0.0.1:{port}/{'feed' if kind == 'get' else 'message'}"])
    done = re.search(r"(\d+) requests in", out)
    if code != 0 or not done or "Non-2xx" in out or "Socket errors" in out:
        raise SystemExit(f"generator_cost: wrk ended with {code}:\n{out}")
    return int(done[1]), user * 1e6 / int(done[1]), system * 1e6 / int(done[1])


def measure(server, programs, kind, options, folder):
    names = [name for name, _ in programs] + ["wrk"]
    figures = {name: [] for name in names}
    for turn in range(options.rounds):
        order = names if turn % 2 == 0 else names[::-1]
        for name in order:
            figures[name].append(wrk(server.port, options.users, options.seconds, kind, folder) if name == "wrk" else
                                 ours(dict(programs)[name], server.port, options.users, options.seconds, kind))
    print(f"\n{kind.upper()}, {options.users} connections (µs of CPU a request)")
    print(f"  {'':<10} {'all':>28} {'user':>28} {'requests/s':>10} {'ratio':>8}")
    for name in names:
        rows = figures[name]
        ratio = statistics.median((mine[1] + mine[2]) / (theirs[1] + theirs[2])
                                  for mine, theirs in zip(rows, figures["wrk"]))
        rate = statistics.median(row[0] for row in rows) / options.seconds
        print(f"  {name:<10} {spread([row[1] + row[2] for row in rows])} {spread([row[1] for row in rows])} "
              f"{rate:10.0f} {ratio:7.2f}×", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--users", type=int, default=2500)
    parser.add_argument("--only", default="get,post")
    parser.add_argument("--also", action="append", default=[], metavar="LABEL=PROGRAM",
                        help="a further generator, to compare two builds")
    options = parser.parse_args()
    os.environ["PATH"] += ":/usr/sbin"
    programs = [("loadgen", os.path.join(ROOT, "loadgen/loadgen"))] + [tuple(one.split("=", 1)) for one in options.also]
    with tempfile.TemporaryDirectory(prefix="dlb-generator-") as folder:
        server = start_server(folder)
        try:
            for kind in options.only.split(","):
                measure(server, programs, kind, options, folder)
        finally:
            server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
