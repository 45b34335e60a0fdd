"""accept-proxy-protocol (L20): a trusted peer says in front of TLS and requests whom it speaks for."""

import json
import socket
import ssl
import time

from lb_case import LbCase, main
from ports import free_port
from programs import Balancer
from raw import G, RawClient, fetch, wire
from tls import TlsClient, client_context, make_certificate
from waiting import wait_until

LOCAL = b"PROXY UNKNOWN\r\n"
V1 = b"PROXY TCP4 192.0.2.7 198.51.100.1 40000 443\r\n"
V1_SIX = b"PROXY TCP6 2001:db8::7 2001:db8::1 40000 443\r\n"
SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"


def v2(command=0x21, family=0x11, payload=None):
    if payload is None:
        payload = bytes([192, 0, 2, 9, 198, 51, 100, 1]) + (40000).to_bytes(2, "big") + (443).to_bytes(2, "big")
    return SIGNATURE + bytes([command, family]) + len(payload).to_bytes(2, "big") + payload


class ProxiedBalancer(Balancer):
    """Its own requests begin with a header that says nothing."""

    def client(self, header=LOCAL, **options):
        return RawClient(self.port, before=header, **options)

    def fetch(self, target="/", method="GET", body=b"", headers=(), timeout=15.0):
        return fetch(self.port, target, method, body, headers, timeout=timeout, before=LOCAL)


class ProxyCase(LbCase):
    def proxied(self, *backends, **options):
        options.setdefault("trusted_proxies", ["127.0.0.0/8"])
        balancer = self.keep(ProxiedBalancer(self.folder, list(backends), accept_proxy_protocol=True, **options)).start()
        self.note_files(balancer)
        return balancer

    def counts(self, balancer):
        return balancer.metrics()["proxy_protocol"]

    def wait_refused(self, balancer, reason, count):
        wait_until(lambda: self.counts(balancer)["refused"][reason] == count, 5, f"{count} refused for {reason}")


class Headers(ProxyCase):
    def test_the_client_of_the_header_is_the_client(self):
        """In X-Forwarded-For and in the access log; all requests of the connection have it."""
        a = self.scripted()
        log = f"{self.folder}/access.log"
        balancer = self.proxied(a, access_log=log, access_log_format="json")
        before = self.counts(balancer)
        for header, client_address in ((V1, "192.0.2.7"), (V1_SIX, "2001:db8::7"), (v2(), "192.0.2.9"),
                                       (v2(payload=v2()[16:] + b"\x01\x00\x02h2"), "192.0.2.9"),
                                       (LOCAL, "127.0.0.1"), (v2(0x20, 0, b""), "127.0.0.1"),
                                       (v2(0x21, 0x31, b"u" * 216), "127.0.0.1")):
            with self.subTest(header=header), balancer.client(header) as client:
                a.requests.clear()
                for _ in range(2):
                    self.assertEqual(client.request(G).status, 200)
                seen = [request.header("x-forwarded-for") for request in a.requests]
                self.assertEqual(seen, [client_address] * 2)
                wait_until(lambda: self.last_clients(log, 2) == [client_address] * 2, 5, "the lines")
        after = self.counts(balancer)
        self.assertEqual(after["proxied"] - before["proxied"], 4)
        self.assertGreaterEqual(after["local"] - before["local"], 3)
        self.assertEqual(after["refused"], {"bad_header": 0, "untrusted": 0})

    def last_clients(self, log, count):
        with open(log, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        return [line["client"] for line in lines if line["target"] == "/"][-count:]

    def test_however_the_header_is_cut(self):
        """Byte by byte, and in one segment with the request and a pipelined one."""
        a = self.scripted()
        balancer = self.proxied(a)
        for header in (V1, v2()):
            with balancer.client(b"") as client:
                client.send_slowly(header + G)
                self.assertEqual(client.read_response().status, 200)
            with balancer.client(header + G + G) as client:
                self.assertEqual([client.read_response().status for _ in range(2)], [200, 200])
            for cut in (1, 5, 6, 12, 16, len(header) - 1):
                with balancer.client(header[:cut]) as client:
                    client.send(header[cut:] + G)
                    self.assertEqual(client.read_response().status, 200, cut)

    def test_what_is_no_header_is_closed_without_an_answer(self):
        a = self.scripted()
        balancer = self.proxied(a)
        wrong = (G, b"PROXY TCP4 192.0.2.7\r\n" + G, b"PROXY TCP4 192.0.2.7 198.51.100.1 40000 443\n" + G,
                 V1.replace(b"192", b"292") + G, v2(0x11) + G, v2(payload=b"short") + G, v2(payload=b"x" * 5000) + G,
                 b"PROXY " + b"x" * 200, b"\x16\x03\x01")
        for count, data in enumerate(wrong, 1):
            with self.subTest(data=data), balancer.client(data) as client:
                self.assertTrue(client.closed_within(5))
                self.assertEqual(client.buffer, b"")
                self.wait_refused(balancer, "bad_header", count)
        self.assertEqual(len(a.requests), 0)

    def test_a_second_header_is_a_bad_request(self):
        balancer = self.proxied(self.scripted())
        with balancer.client(V1) as client:
            self.assertEqual(client.request(V1 + G).status, 400)

    def test_a_header_that_does_not_end(self):
        """Its deadline is client-header-timeout. No bytes are answered."""
        balancer = self.proxied(self.scripted(), client_header_timeout="400ms", client_idle_timeout="10s")
        with balancer.client(V1[:20]) as client:
            started = time.monotonic()
            self.assertTrue(client.closed_within(5))
            self.assertGreaterEqual(time.monotonic() - started, 0.3)
            self.assertEqual(client.buffer, b"")
        self.wait_refused(balancer, "bad_header", 1)

    def test_a_client_that_leaves_in_its_header(self):
        """A FIN or a RST ends it at once, long before the deadline. A peer that only looks is no failure."""
        balancer = self.proxied(self.scripted(), client_header_timeout="1m", client_idle_timeout="1m")
        with balancer.client(V1[:20]) as client:
            client.shutdown_write()
            self.assertTrue(client.closed_within(10))
        with balancer.client(V1[:20]) as client:
            client.reset()
        self.wait_refused(balancer, "bad_header", 2)
        with balancer.client(b"") as client:
            client.shutdown_write()
            self.assertTrue(client.closed_within(10))
        self.wait_refused(balancer, "bad_header", 2)

    def test_silence_is_closed_silently_and_counts_as_new(self):
        """Without a byte, and behind the header: client-idle-timeout."""
        balancer = self.proxied(self.scripted(), client_idle_timeout="1s")
        for header in (b"", V1):
            with balancer.client(header) as client:
                wait_until(lambda: balancer.metrics()["connections"]["client"]["new"] == 1, 2, "a new connection")
                self.assertTrue(client.closed_within(5))
                self.assertEqual((client.buffer, client.was_reset), (b"", False))
        self.assertEqual(self.counts(balancer)["refused"], {"bad_header": 0, "untrusted": 0})

    def test_a_half_closed_client_behind_a_header_gets_its_answer(self):
        balancer = self.proxied(self.scripted())
        with balancer.client(V1 + G) as client:
            client.shutdown_write()
            self.assertEqual(client.read_response().status, 200)


class Trust(ProxyCase):
    def test_a_header_of_anybody_else_is_not_believed(self):
        """Not in trusted-proxies: closed at once, whatever it says, and counted."""
        a = self.scripted()
        balancer = self.proxied(a, trusted_proxies=["127.0.0.1"])
        for count, data in enumerate((V1 + G, G, b""), 1):
            with socket.socket() as sock:
                sock.bind(("127.0.0.2", 0))
                sock.settimeout(5)
                sock.connect(("127.0.0.1", balancer.port))
                try:
                    sock.sendall(data)
                    self.assertEqual(sock.recv(100), b"")
                except ConnectionError:
                    pass  # our bytes met a closed socket
            self.wait_refused(balancer, "untrusted", count)
        self.assertEqual(len(a.requests), 0)

    def test_forwarded_fields_are_believed_by_the_header_s_client(self):
        """The front passes bytes on: what a client claims in X-Forwarded-For is the client's word, not the front's."""
        a = self.scripted()
        balancer = self.proxied(a, trusted_proxies=["127.0.0.0/8", "10.0.0.0/8"])
        claim = wire("GET / HTTP/1.1|Host: a|X-Forwarded-For: 203.0.113.5||")
        for header, seen in ((V1, "192.0.2.7"), (b"PROXY TCP4 10.1.2.3 10.0.0.1 1 2\r\n", "203.0.113.5, 10.1.2.3"),
                             (LOCAL, "203.0.113.5, 127.0.0.1")):
            with balancer.client(header) as client:
                self.assertEqual(client.request(claim).status, 200)
                self.assertEqual(a.requests[-1].header("x-forwarded-for"), seen)

    def test_networks_are_trusted_without_the_option_too(self):
        a = self.scripted()
        balancer = self.balancer(a, trusted_proxies=["127.0.0.0/30", "fd00::/8"])
        balancer.fetch("/", headers=[("X-Forwarded-For", "203.0.113.5")])
        self.assertEqual(a.requests[-1].header("x-forwarded-for"), "203.0.113.5, 127.0.0.1")
        # And a PROXY header where none is expected is a bad request.
        with balancer.client() as client:
            self.assertEqual(client.request(V1 + G).status, 400)


class Before(ProxyCase):
    def test_tls_follows_the_header(self):
        """In segments of their own, and the ClientHello in one segment with the header."""
        a = self.scripted()
        certificate, key = make_certificate(self.folder)
        port = free_port()
        self.proxied(a, tls_listen=f"127.0.0.1:{port}", tls_cert=certificate, tls_key=key)

        for joined in (False, True):
            with TlsClient(port, client_context(), before=V1, joined=joined) as client:
                for _ in range(2):
                    self.assertEqual(client.request(G).status, 200)
            self.assertEqual(a.requests[-1].header("x-forwarded-for"), "192.0.2.7")
            self.assertEqual(a.requests[-1].header("x-forwarded-proto"), "https")
        with TlsClient(port, client_context(), before=v2(0x20, 0, b""), joined=True) as client:
            self.assertEqual(client.request(G).status, 200)
        with self.assertRaises((ssl.SSLError, ConnectionError)):
            TlsClient(port, client_context())

    def test_layer_4_does_not_ask_for_one(self):
        """Its bytes are the backend's business."""
        a = self.scripted()
        port = free_port()
        tcp = f"[[tcp]]\nlisten = \"127.0.0.1:{port}\"\nbackends = [\"127.0.0.1:{a.port}\"]\n"
        self.proxied(a, extra="\n" + tcp)
        with RawClient(port) as client:
            self.assertEqual(client.request(G).status, 200)

    def test_one_balancer_in_front_of_another(self):
        """What layer 4 sends by send-proxy-protocol is what accept-proxy-protocol reads."""
        a = self.scripted()
        inner = self.proxied(a)
        port = free_port()
        tcp = f"[[tcp]]\nlisten = \"127.0.0.1:{port}\"\nbackends = [\"127.0.0.1:{inner.port}\"]\nsend-proxy-protocol = true\n"
        self.balancer(a, name="outer", extra="\n" + tcp)
        with socket.socket() as sock:
            sock.bind(("127.0.0.9", 0))
            sock.settimeout(10)
            sock.connect(("127.0.0.1", port))
            sock.sendall(G)
            self.assertTrue(sock.recv(1000).startswith(b"HTTP/1.1 200 "))
        self.assertEqual(a.requests[-1].header("x-forwarded-for"), "127.0.0.9")


if __name__ == "__main__":
    main()
