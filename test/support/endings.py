"""What the tests of the access log and of exact counts share: a balancer whose log is read line by line, and a listener
whose queue is full, so that connects to it hang."""

import os
import socket

from lb_case import LbCase
from waiting import wait_until


class Plain:
    """A backend as the balancer's configuration sees it."""

    def __init__(self, name, port):
        self.name, self.url, self.stats = name, f"http://127.0.0.1:{port}", None


def listener_to_fill(case):
    """A listener that accepts nothing: a connect succeeds until fill() has filled its queue."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(1)
    case.addCleanup(listener.close)
    return listener, listener.getsockname()[1]


def fill(case, port):
    """From now on the listener answers no SYN."""
    for _ in range(8):
        filler = socket.socket()
        filler.setblocking(False)
        filler.connect_ex(("127.0.0.1", port))
        case.addCleanup(filler.close)


class LoggedCase(LbCase):
    """A balancer with an access log; /lb/ lines, which the test itself causes, are left out."""

    def setUp(self):
        super().setUp()
        self.path = os.path.join(self.folder, "access.log")
        self.read_before = 0

    def logged_balancer(self, *backends, **options):
        self.logged = self.balancer(*backends, access_log=self.path, **options)
        return self.logged

    def all_lines(self):
        with open(self.path, encoding="utf-8") as file:
            return [line for line in file.read().splitlines() if "/lb/" not in line or "/lb/health HTTP" in line]

    def lines(self, count):
        """Waits for `count` new lines, which must be all."""
        wait_until(lambda: len(self.all_lines()) >= self.read_before + count, 5, f"{count} lines")
        new = self.all_lines()[self.read_before :]
        self.assertEqual(len(new), count, new)
        self.read_before += count
        return new
