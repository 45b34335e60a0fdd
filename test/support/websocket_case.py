"""The base of tests of WebSocket sessions and of what people post: the same steps on every way in."""

import json

from case import Case
from ports import free_port
from raw import RawClient
from tls import TlsClient, make_certificate
from waiting import wait_until
from websocket import WebSocket, hexed


def front(case, *backends, **options):
    """A balancer before `backends`, and a client maker for each way in through it: HTTP and upgrades, plain and by its own TLS,
    and the backends' TLS passed on by wss-listen. Its sockets are small, so that who doesn't read is felt behind it."""
    tls, wss = free_port(), free_port()
    certificate, key = make_certificate(case.folder, "front")
    options.setdefault("stats_path", "")
    for name in ("socket_read_buffer_bytes", "socket_write_buffer_bytes"):
        options.setdefault(name, "16KiB")
    balancer = case.balancer(*backends, tls_listen=f"127.0.0.1:{tls}", tls_cert=certificate, tls_key=key,
                             wss_listen=f"127.0.0.1:{wss}",
                             wss_backends=[f"127.0.0.1:{backend.ws_port}" for backend in backends], **options)
    balancer.tls_port, balancer.wss_port, balancer.certificate = tls, wss, certificate
    return balancer, {"lb": lambda **o: RawClient(balancer.port, **o), "lb tls": lambda **o: TlsClient(tls, **o),
                      "lb wss": lambda **o: TlsClient(wss, **o)}


class Ways(Case):
    """One backend with all its ports, and a balancer before it. self.ways: a client maker for each way in."""

    def scene(self, **options):
        self.backend = self.chat_backends(1, wss=True, ws_echo=True, ws_plain=True, **options)[0]
        self.lb, through = front(self, self.backend)
        self.ways = {"plain": lambda **o: RawClient(self.backend.port, **o),
                     "tls": lambda **o: TlsClient(self.backend.ws_port, **o), **through}
        return self.backend

    def each_way(self):
        for name, connect in self.ways.items():
            with self.subTest(way=name):
                yield connect

    def figures(self):
        return json.loads(self.backend.fetch("/metrics?format=json").body)["ws"]

    def wait_gone(self, sessions=0):
        wait_until(lambda: (self.figures()["sessions"], self.figures()["closing"]) == (sessions, 0), 10, "no session")


class Framing(Ways):
    """Bytes to `path`, /echo or the chat, where nobody registers: it answers each message with an error."""

    path = ""

    def setUp(self):
        super().setUp()
        self.scene()

    def story(self, connect, sent):
        """What comes back for some bytes, to the end."""
        with WebSocket(connect(), self.path) as socket:
            socket.client.send(sent)
            return socket.rest()

    def check_answer(self, socket, text):
        """The next message shows that this text came whole, as one."""
        got = socket.read_text()
        if self.path == "/echo":
            self.assertEqual(got, text)
        else:
            self.assertEqual(json.loads(got)["code"], "not_registered" if text.startswith("{") else "bad_json")

    def check_each(self, cases):
        """Each `sent` in hex gets exactly `expected`, then the end, on every way; and a fresh connection works."""
        for connect in self.each_way():
            for sent, expected in cases:
                with self.subTest(sent=sent):
                    self.assertEqual(self.story(connect, hexed(sent)).hex(), hexed(expected).hex())
            with WebSocket(connect(), self.path) as socket:
                socket.send("still there")
                self.check_answer(socket, "still there")
        self.wait_gone()
