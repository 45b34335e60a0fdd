"""Clients in a loop before a balancer, for tests of what happens to it meanwhile: every answer has to be a whole 200."""

import os
import threading

from raw import G
from waiting import wait_until


class Traffic:
    """Clients in a loop until the end of the block: keep-alive ones, and one that connects for each request."""

    def __init__(self, balancer, clients=4):
        self.balancer, self.stopping = balancer, threading.Event()
        self.answers, self.faults, self.lock = {}, [], threading.Lock()
        self.threads = [threading.Thread(target=self.run, args=(number > 0,), daemon=True) for number in range(clients)]

    def run(self, keep_alive):
        client = None
        try:
            while not self.stopping.is_set():
                client = client or self.balancer.client()
                response = client.request(G)
                if response.status != 200 or not response.complete:
                    raise AssertionError(repr(response))
                with self.lock:
                    backend = response.header("x-load-balancer-backend")
                    self.answers[backend] = self.answers.get(backend, 0) + 1
                if not keep_alive or response.header("connection") == "close":
                    client.close()
                    client = None
        except Exception as error:  # noqa: BLE001 - told by the test
            with self.lock:
                self.faults.append(error)
        finally:
            if client is not None:
                client.close()

    def total(self, backend=None):
        with self.lock:
            return sum(self.answers.values()) if backend is None else self.answers.get(backend, 0)

    def goes_on(self, count=20):
        """Waits until so many more have been answered."""
        target = self.total() + count
        wait_until(lambda: self.faults or self.total() >= target, 20, "the traffic to go on")

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        self.goes_on()
        return self

    def __exit__(self, *unused):
        self.stopping.set()
        for thread in self.threads:
            thread.join(20)
        assert not self.faults, self.faults


def threads(balancer):
    return len(os.listdir(f"/proc/{balancer.pid}/task"))
