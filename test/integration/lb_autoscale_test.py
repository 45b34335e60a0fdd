"""Autoscaling (L25) of real processes: they follow the load, are replaced, outlive an upgrade, end with the balancer."""

import json
import os
import signal
import socket
from types import SimpleNamespace

from case import Case, main
from ports import free_port_base
from programs import PROGRAMS, ROOT
from raw import fetch
from traffic import Traffic
from waiting import wait_until

PORTS = 6
PROGRAM = next(path for path in (os.path.join(folder, "bench", "fixture_server") for folder in (PROGRAMS, ROOT))
               if os.path.exists(path))
FIXTURE = PROGRAM + " --listen 127.0.0.1:{port} --capacity 2"


class Instances:
    """A balancer with [autoscale], and the processes at its ports, as the system shows them."""

    def __init__(self, case, command, ports=PORTS, lb_options=None, **options):
        self.count, self.base, self.command = ports, free_port_base(range(ports)), command
        self.settings = {"up_after": "100ms", "idle_after": "400ms", "interval": "50ms", "stop_timeout": "2s",
                         "replace_after": "500ms", "ports": f"{self.base}-{self.base + ports - 1}", **options}
        lb_options = {"backend_cap": 2, "backend_queue_timeout": "20s", "drain_timeout": "10s", **(lb_options or {})}
        self.lb = case.balancer(start=False, extra=table(command, self.settings), **lb_options)
        case.addCleanup(self.end_strays)

    def reload(self, **options):
        self.lb.configure([], extra=table(self.command, {**self.settings, **options}))
        self.lb.reload()

    def end_strays(self):
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)

    def start(self, healthy=1):
        self.lb.start(healthy)
        return self

    def processes(self):
        """Those that say one of our ports on their command line; not the balancers, which have it in a file."""
        ports = [f"{mark}{self.base + offset}" for offset in range(self.count) for mark in ":."]
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
                    words = file.read().split("\0")
            except OSError:
                continue
            if any(word.endswith(port) for word in words for port in ports):
                found.append(int(pid))
        return found

    def scale(self):
        return self.lb.status()["autoscale"]

    def serving(self):
        return [one for one in self.scale()["instances"] if one["phase"] == "serving"]

    def counters(self):
        return self.lb.metrics()["autoscale"]

    def wait_serving(self, count, timeout=20):
        wait_until(lambda: len(self.serving()) == self.scale()["running"] == count, timeout, f"{count} serving")

    def wait_none(self):
        wait_until(lambda: not self.processes(), 20, "all processes to be gone")


def table(command, settings):
    lines = [f"{key.replace('_', '-')} = {json.dumps(value)}" for key, value in settings.items()]
    return "\n".join(["[autoscale]", f"command = {json.dumps(command)}", *lines]) + "\n"


def parent_of(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return int(file.read().rsplit(") ", 1)[1].split()[1])


def child_of(parent, name):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
                if file.read().strip() == name and parent_of(pid) == parent:
                    return int(pid)
        except OSError:
            continue
    raise AssertionError(f"no {name} of {parent}")


class Autoscale(Case):
    def test_processes_follow_the_load_and_end_with_the_balancer(self):
        one = Instances(self, FIXTURE + " --service 'fixed 10ms'", max=3).start()
        self.assertEqual(len(one.processes()), 1)
        with Traffic(one.lb, clients=8) as traffic:  # more than three can take
            one.wait_serving(3)
            self.assertEqual(len(one.processes()), 3)
            traffic.goes_on(50)

            sick, dead = one.serving()[:2]
            port = int(sick["id"].removeprefix("auto-"))
            self.assertEqual(fetch(port, "/fixture?health=down", "POST").status, 200)
            os.kill(dead["pid"], signal.SIGKILL)
            pids = (sick["pid"], dead["pid"])
            wait_until(lambda: one.counters()["replacements"] == 2, 20, "both to be replaced")
            one.wait_serving(3)
            self.assertFalse({instance["pid"] for instance in one.serving()} & set(pids))
            self.assertLessEqual(len(one.processes()), 3)

            before = {instance["id"]: instance["pid"] for instance in one.serving()}
            requests = {backend["id"]: backend["counters"]["requests"] for backend in one.lb.status()["backends"]}
            one.reload(max=2)
            one.wait_serving(2)
            kept = {instance["id"]: instance["pid"] for instance in one.serving()}
            self.assertLessEqual(kept.items(), before.items())
            for backend in one.lb.status()["backends"]:
                self.assertGreaterEqual(backend["counters"]["requests"], requests[backend["id"]])

            first = one.lb.status()["pid"]
            one.lb.signal(signal.SIGUSR2)
            wait_until(lambda: one.lb.status()["pid"] != first, 20, "the new process to answer")
            one.wait_serving(2)  # it may not have had its first turn yet
            self.assertEqual({instance["id"]: instance["pid"] for instance in one.serving()}, kept)
            traffic.goes_on(50)
        self.assertEqual(one.lb.wait(), 0)  # the first has drained; its instances are the second's
        one.wait_serving(1)
        scale = one.scale()
        self.assertEqual((scale["desired"], scale["last"]["action"]), (1, "stop"))
        self.assertEqual((one.counters()["stops"], one.counters()["starts"]), (1, 0))
        second = one.lb.status()["pid"]
        os.kill(second, signal.SIGTERM)
        wait_until(lambda: not os.path.exists(f"/proc/{second}"), 20, "the second to end")
        self.assertEqual(one.processes(), [])  # already: it has waited for them

    def test_a_killed_balancer_leaves_nobody_behind_nor_does_a_killed_supervisor(self):
        """What a shell in between has started ends too, and who has gone off as a daemon."""
        never = os.path.join(self.folder, "never")  # pipes that nobody writes to: whoever opens one stands there
        daemon = f'(setsid sh -c "trap \\"\\" TERM; exec cat {never}.{{port}}" &)'
        one = Instances(self, f"sh -c '{FIXTURE} & cat {never}.{{port}} & {daemon}; wait'")
        for port in range(one.base, one.base + one.count):
            os.mkfifo(f"{never}.{port}")
        one.start()
        one.wait_serving(1)
        before = set(wait_until(lambda: len(one.processes()) == 3 and one.processes(), 20, "server, reader, daemon"))
        head = one.serving()[0]["pid"]
        supervisor = parent_of(head)
        os.kill(head, signal.SIGKILL)
        wait_until(lambda: not before & set(one.processes()), 20, "all of the killed instance to be gone")
        wait_until(lambda: any(new["pid"] != head for new in one.serving()), 20, "another to serve")
        before = set(wait_until(lambda: len(one.processes()) == 3 and one.processes(), 20, "server, reader, daemon"))
        os.kill(supervisor, signal.SIGKILL)
        wait_until(lambda: not before & set(one.processes()), 20, "the supervisor's instance to be gone")
        one.wait_serving(1)
        one.lb.kill()
        one.wait_none()

    def test_an_upgrade_that_fails_leaves_the_instances_and_what_has_become_of_them_is_noticed(self):
        one = Instances(self, FIXTURE, replace_after="1m").start()
        one.wait_serving(1)
        before = one.serving()[0]
        # Turning autoscaling off takes a restart, so what stands in its place must not be one of its instances.
        one.lb.configure([SimpleNamespace(name=before["id"], url="http://127.0.0.1:1")])
        self.assertIn(before["id"], one.lb.reload(ok=False)["last_error"]["text"])
        self.assertEqual(len(one.lb.status()["backends"]), 1)

        one.lb.configure([], extra=table(one.command, one.settings))
        port = int(before["id"].removeprefix("auto-"))
        self.assertEqual(fetch(port, "/fixture?health=down", "POST").status, 200)
        wait_until(lambda: not one.lb.backend(before["id"])["healthy"], 20, "its checks to fail")
        one.lb.signal(signal.SIGUSR2)  # the new process waits for one that is healthy
        wait_until(lambda: one.lb.log().count("balancer started") == 2, 20, "the new process")
        os.kill(child_of(one.lb.pid, "lb"), signal.SIGTERM)
        wait_until(lambda: one.lb.metrics()["config"]["upgrades_failed"] == 1, 20, "its end")
        self.assertEqual(one.processes(), [before["pid"]])

        os.remove(one.lb.config_path)
        os.mkfifo(one.lb.config_path)
        one.lb.signal(signal.SIGUSR2)
        with open(one.lb.config_path, "w", encoding="utf-8") as config:  # as soon as the new process reads it
            os.kill(parent_of(before["pid"]), signal.SIGKILL)
            wait_until(lambda: before["pid"] not in one.processes(), 20, "the instance to be gone")
            config.write("nonsense = 1\n")
        wait_until(lambda: one.serving() and one.serving()[0]["pid"] not in (0, before["pid"]), 20, "another instance")
        one.wait_serving(1)

    def test_a_start_that_fails_is_tried_again_later_at_a_port_that_is_free(self):
        one = Instances(self, "sh -c 'exit 3' {port}", start_timeout="200ms")
        for port in range(one.base, one.base + PORTS - 1):
            taken = socket.socket()
            self.addCleanup(taken.close)
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(("127.0.0.1", port))
            taken.listen()
        one.start(healthy=0)
        wait_until(lambda: one.counters()["failed_starts"] >= 2, 20, "two starts to fail")
        self.assertEqual(one.scale()["last"]["instance"], f"auto-{one.base + PORTS - 1}")
        counters = one.counters()
        self.assertLessEqual(counters["starts"], counters["failed_starts"] + 1)

    def test_one_that_never_becomes_healthy_is_replaced(self):
        one = Instances(self, FIXTURE + " --start-delay 1h", start_timeout="300ms").start(healthy=0)
        first = set(wait_until(one.processes, 10, "a process"))
        wait_until(lambda: not first & set(one.processes()), 20, "the first to be gone")
        wait_until(lambda: one.counters()["failed_starts"] >= 2, 20, "the second to be given up too")
        self.assertEqual(one.counters()["replacements"], 0)


if __name__ == "__main__":
    main()
