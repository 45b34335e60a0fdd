"""A day's operations in a minute, while clients go on: deploy/rolling.sh over all backends again and again, SIGHUP every
second, SIGUSR2 every few. Not a request may fail, not a connection be refused or reset. DLB_SOAK_SECONDS: how long (60)."""

import collections
import json
import os
import signal
import threading
import time

from case import Case, main
from ports import free_port
from raw import RawClient, wire
from restartable import RestartableBackends, rolling
from waiting import wait_until

SECONDS = float(os.environ.get("DLB_SOAK_SECONDS", "60"))
UPGRADE_EVERY = 7.0
KEEP_ALIVE, FRESH = 8, 4  # clients
POST = b'{"client-name":"soak","msg":"hello"}'


def request_of(number):
    """Pages, and messages without a key: a POST that may have reached a backend is never sent twice."""
    if number % 3:
        return wire("GET /info HTTP/1.1|Host: a||")
    head = f"POST /message HTTP/1.1|Host: a|Content-Type: application/json|Content-Length: {len(POST)}||"
    return wire(head) + POST


class Client(threading.Thread):
    """Asks until told to stop; each request ends in one bucket: its status, or what went wrong."""

    def __init__(self, port, keep_alive, over):
        super().__init__(daemon=True)
        self.port, self.keep_alive, self.over = port, keep_alive, over
        self.ends, self.examples, self.connections = collections.Counter(), [], 0

    def run(self):
        connection = None
        while not self.over.is_set():
            try:
                if connection is None:
                    connection = RawClient(self.port)
                    self.connections += 1
                response = connection.request(request_of(self.ends.total()))
                good = response.status in (200, 201) and response.complete
                self.ends[str(response.status) if good else f"failed {response.status}"] += 1
                if not good:
                    self.examples.append(repr(response)[:300])
                if not self.keep_alive or response.header("connection") == "close" or not good:
                    connection.close()
                    connection = None
            except Exception as error:  # noqa: BLE001 - counted, and told by the test
                self.ends[type(error).__name__] += 1
                self.examples.append(repr(error)[:300])
                connection = None
        if connection is not None:
            connection.close()


class Rolling(Case):
    def test_a_minute_of_operations_loses_nothing(self):
        pid_file = os.path.join(self.folder, "lb.pid")
        backends = RestartableBackends(self, 3)
        balancer = self.balancer(*backends.backends, admin_port=free_port(), workers=2, pid_file=pid_file,
                                 drain_timeout="3s", client_idle_timeout="30s")

        def main_pid():
            with open(pid_file, encoding="ascii") as file:
                return int(file.read())

        def end_last():
            os.kill(main_pid(), signal.SIGTERM)
            wait_until(lambda: not os.path.exists(pid_file), 30, "the last balancer to end")

        self.addCleanup(lambda: os.path.exists(pid_file) and end_last())
        over, done = threading.Event(), collections.Counter()
        clients = [Client(balancer.port, number < KEEP_ALIVE, over) for number in range(KEEP_ALIVE + FRESH)]
        began = time.monotonic()
        faults = []

        def every(seconds, number, name):
            while not over.wait(seconds):
                os.kill(main_pid(), number)
                done[name] += 1

        def roll():
            while not over.is_set() and time.monotonic() - began < SECONDS:
                code, out, err = rolling(balancer, backends.command, timeout=300)
                done["rolling"] += 1
                if code != 0:
                    faults.append((code, out, err))
                    return

        operators = [threading.Thread(target=every, args=(1.0, signal.SIGHUP, "SIGHUP"), daemon=True),
                     threading.Thread(target=every, args=(UPGRADE_EVERY, signal.SIGUSR2, "SIGUSR2"), daemon=True)]
        for thread in clients + operators:
            thread.start()
        roller = threading.Thread(target=roll, daemon=True)
        roller.start()
        roller.join(SECONDS + 300)
        over.set()
        for thread in clients + operators:
            thread.join(60)
        ends = sum((client.ends for client in clients), collections.Counter())
        log = balancer.log()
        print(json.dumps({"seconds": round(time.monotonic() - began, 1), **done,
                          "upgrades": log.count("this one drains"), "reloads": log.count("configuration reloaded"),
                          "requests": ends.total(), "ends": ends,
                          "connections": sum(client.connections for client in clients)}))
        self.assertEqual(faults, [])
        self.assertEqual(set(ends) - {"200", "201"}, set(), [client.examples for client in clients if client.examples])
        self.assertGreater(log.count("this one drains"), SECONDS / UPGRADE_EVERY / 2)


if __name__ == "__main__":
    main()
