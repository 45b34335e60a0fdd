"""The base of tests of WebSocket sessions: the same steps on every way in."""

import json

from case import Case
from ports import free_port
from raw import RawClient
from tls import TlsClient
from waiting import wait_until


class Ways(Case):
    """One backend with all its ports, and a balancer before it. self.ways: a client maker for each way in."""

    def scene(self, **options):
        self.backend = self.chat_backends(1, wss=True, ws_echo=True, ws_plain=True, **options)[0]
        wss = free_port()
        self.lb = self.balancer(self.backend, wss_listen=f"127.0.0.1:{wss}", stats_path="",
                                wss_backends=[f"127.0.0.1:{self.backend.ws_port}"])
        self.ways = {"plain": lambda **o: RawClient(self.backend.port, **o),
                     "tls": lambda **o: TlsClient(self.backend.ws_port, **o),
                     "lb": lambda **o: RawClient(self.lb.port, **o),
                     "lb wss": lambda **o: TlsClient(wss, **o)}
        return self.backend

    def each_way(self):
        for name, connect in self.ways.items():
            with self.subTest(way=name):
                yield connect

    def figures(self):
        return json.loads(self.backend.fetch("/metrics?format=json").body)["ws"]

    def wait_gone(self, sessions=0):
        wait_until(lambda: (self.figures()["sessions"], self.figures()["closing"]) == (sessions, 0), 10, "no session")
