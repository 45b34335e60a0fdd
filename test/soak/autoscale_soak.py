"""Autoscaling under a day's load in a minute: from 1 to 60 requests at a time and back, servers of capacity 5. No request
may fail; processes follow up and down; none is left when the balancer has ended, or was upgraded and then killed.
DLB_SOAK_SECONDS: how long the 60 go on (20)."""

import collections
import json
import os
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))

from case import Case, main
from lb_autoscale_test import FIXTURE, Instances
from raw import G, RawClient
from waiting import pause, wait_until

SECONDS = float(os.environ.get("DLB_SOAK_SECONDS", "20"))
CLIENTS = 60
COMMAND = FIXTURE.replace("--capacity 2", "--capacity 5") + " --service 'exponential 50ms'"


class Crowd:
    """60 keep-alive clients, of which so many ask as `wanted` says."""

    def __init__(self, port):
        self.port, self.wanted, self.over = port, 1, threading.Event()
        self.ends, self.lock = collections.Counter(), threading.Lock()
        self.threads = [threading.Thread(target=self.run, args=(number,), daemon=True) for number in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def run(self, number):
        client = None
        while not self.over.is_set():
            if number >= self.wanted:
                pause(0.02)
                continue
            try:
                client = client or RawClient(self.port)
                response = client.request(G)
                end = str(response.status) if response.complete else "cut"
                if response.header("connection") == "close":
                    client.close()
                    client = None
            except Exception as error:  # noqa: BLE001 - counted, and told by the test
                end, client = repr(error)[:100], None
            with self.lock:
                self.ends[end] += 1

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join(30)
        return dict(self.ends)


class AutoscaleSoak(Case):
    def scaled(self, policy):
        return Instances(self, COMMAND, ports=14, max=14, up_after="500ms", idle_after="2s", interval="200ms",
                         lb_options={"backend_cap": 5, "policy": policy, "client_idle_timeout": "60s"}).start()

    def test_from_1_to_60_and_back(self):
        for policy in ("score", "first"):
            with self.subTest(policy=policy):
                self.up_and_down(policy)

    def up_and_down(self, policy):
        one = self.scaled(policy)
        crowd = Crowd(one.lb.port)
        began, most, trace = time.monotonic(), 0, []

        def note():
            nonlocal most
            running = len(one.processes())
            most = max(most, running)
            if not trace or trace[-1][1] != running:
                trace.append((round(time.monotonic() - began, 1), running))
            return running

        crowd.wanted = CLIENTS
        wait_until(lambda: note() >= 12, 60, "the processes that 60 requests need")
        until = time.monotonic() + SECONDS
        wait_until(lambda: note() and time.monotonic() >= until, SECONDS + 10, "the busy time", interval=0.2)
        crowd.wanted = 1
        wait_until(lambda: note() == 1, 120, "the processes to go again")
        ends = crowd.stop()
        counters = one.counters()
        print(json.dumps({"policy": policy, "ends": ends, "most": most, "processes": trace, "counters": counters}))
        self.assertEqual(set(ends), {"200"})
        self.assertLessEqual(most, 14)
        self.assertEqual((counters["failed_starts"], counters["replacements"], counters["kills"]), (0, 0, 0))
        self.assertEqual(one.lb.terminate(30), 0)
        self.assertEqual(one.processes(), [])

    def test_none_is_left_after_an_upgrade_and_a_kill(self):
        one = self.scaled("score")
        crowd = Crowd(one.lb.port)
        crowd.wanted = 30
        wait_until(lambda: len(one.serving()) >= 6, 60, "some instances")
        before = set(one.processes())
        one.lb.signal(signal.SIGUSR2)
        self.assertEqual(one.lb.wait(60), 0)
        second = one.lb.status()["pid"]
        self.assertTrue(before & set(one.processes()))
        crowd.wanted = 1
        ends = crowd.stop()
        self.assertEqual(set(ends), {"200"}, ends)
        os.kill(second, signal.SIGKILL)
        wait_until(lambda: not one.processes(), 30, "all processes to be gone")


if __name__ == "__main__":
    main()
