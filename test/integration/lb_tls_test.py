#!/usr/bin/env python3
"""TLS in front: the same HTTP path behind tls-listen, its handshakes, its ends, its certificates."""

import os
import socket
import ssl
import threading

from lb_case import main
from raw import G, wire
from tls import TLS12, TLS13, TlsClient, client_context
from tls_case import TlsCase
from waiting import wait_until


def echo(connection, request):
    connection.reply(200, connection.body(request))


class Exchanges(TlsCase):
    def test_both_versions_serve_and_are_told_apart(self):
        backend = self.scripted()
        balancer = self.tls_balancer(backend)
        for version, name in ((TLS12, "1_2"), (TLS13, "1_3")):
            with self.client(version) as client:
                for _ in range(3):
                    response = client.request(G)
                    self.assertEqual((response.status, response.body), (200, b"ok"))
            wait_until(lambda name=name: self.tls(balancer)["handshakes"][name] == 1, what=f"a handshake of {name}")
        self.assertEqual(self.tls(balancer)["handshaking"], 0)
        self.assertEqual({request.header("x-forwarded-proto") for request in backend.requests}, {"https"})
        balancer.fetch("/")
        self.assertEqual(backend.requests[-1].header("x-forwarded-proto"), "http")

    def test_version_1_1_and_h2_alone_are_refused(self):
        balancer = self.tls_balancer(self.scripted())
        with self.assertRaises(ssl.SSLError):
            self.client(ssl.TLSVersion.TLSv1_1)
        with self.assertRaises(ssl.SSLError) as refused:
            TlsClient(self.tls_port, client_context(protocols=["h2"]))
        self.assertIn("NO_APPLICATION_PROTOCOL", str(refused.exception).upper().replace(" ", "_"))
        wait_until(lambda: self.tls(balancer)["failures"]["protocol"] == 2, what="both refusals to be counted")
        with TlsClient(self.tls_port, client_context(protocols=["h2", "http/1.1"])) as client:
            self.assertEqual(client.sock.selected_alpn_protocol(), "http/1.1")
            self.assertEqual(client.request(G).status, 200)

    def test_pipelined_requests_are_answered_in_order(self):
        backend = self.scripted(lambda connection, request: connection.reply(200, request.target.encode()))
        self.tls_balancer(backend)
        with self.client() as client:
            client.send(b"".join(wire(f"GET /{number} HTTP/1.1|Host: a||") for number in range(60)))
            bodies = [client.read_response().body for _ in range(60)]
        self.assertEqual(bodies, [f"/{number}".encode() for number in range(60)])

    def test_a_request_in_single_bytes_each_a_record_of_its_own(self):
        self.tls_balancer(self.scripted(echo))
        with self.client() as client:
            client.send_slowly(wire("POST / HTTP/1.1|Host: a|Content-Length: 5||hello"))
            self.assertEqual(client.read_response().body, b"hello")

    def test_a_mebibyte_up_and_down_for_a_slow_reader_is_exact(self):
        self.tls_balancer(self.scripted(echo))
        body = os.urandom(1 << 20)
        for version in (TLS12, TLS13):
            for head, framed in ((f"Content-Length: {len(body)}", body),
                                 ("Transfer-Encoding: chunked", b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))):
                with self.client(version, receive_buffer=8192) as client:
                    sender = threading.Thread(target=client.send,
                                              args=(wire(f"POST / HTTP/1.1|Host: a|{head}||") + framed,), daemon=True)
                    sender.start()
                    sender.join(60)
                    received = bytearray()
                    response = client.read_response(sink=received.extend)
                    self.assertTrue(response.complete)
                    self.assertEqual(bytes(received), body)
                    self.assertEqual(client.request(wire("POST / HTTP/1.1|Host: a|Content-Length: 1||x")).body, b"x")

    def test_large_responses_chunked_and_by_length_are_exact(self):
        body = os.urandom(1_300_000)

        def answer(connection, request):
            if request.path == "/chunked":
                connection.send("HTTP/1.1 200 OK|Transfer-Encoding: chunked||")
                for start in range(0, len(body), 50_001):
                    piece = body[start : start + 50_001]
                    connection.send(b"%x\r\n%s\r\n" % (len(piece), piece))
                connection.send(b"0\r\n\r\n")
            else:
                connection.reply(200, body)

        self.tls_balancer(self.scripted(answer))
        with self.client(receive_buffer=16384) as client:
            for target in ("/chunked", "/length"):
                response = client.request(wire(f"GET {target} HTTP/1.1|Host: a||"))
                self.assertTrue(response.complete)
                self.assertTrue(response.body == body, target)


class Ends(TlsCase):
    def test_a_connection_that_is_to_end_ends_cleanly(self):
        self.tls_balancer(self.scripted())
        for version in (TLS12, TLS13):
            with self.client(version) as client:
                response = client.request(wire("GET / HTTP/1.1|Host: a|Connection: close||"))
                self.assertEqual(response.status, 200)
                self.assertTrue(client.closed_within(1))
                self.assertTrue(client.clean)

    def test_a_body_that_ends_with_the_connection_is_clean_only_when_it_is_complete(self):
        def answer(connection, request):
            connection.send("HTTP/1.0 200 OK||part of a body")
            (connection.close if request.path == "/whole" else connection.reset)()

        self.tls_balancer(self.scripted(answer))
        for target, complete in (("/whole", True), ("/cut", False)):
            with self.client() as client:
                # HTTP/1.0: the body's end is the connection's.
                response = client.request(wire(f"GET {target} HTTP/1.0|Host: a||"))
                self.assertEqual(response.framing, "close")
                self.assertTrue(client.eof)
                self.assertEqual(client.clean, complete, target)

    def test_a_counted_body_that_breaks_off_does_not_end_cleanly(self):
        def answer(connection, request):
            connection.send("HTTP/1.1 200 OK|Content-Length: 100||part of it")
            connection.close()

        self.tls_balancer(self.scripted(answer))
        with self.client() as client:
            response = client.request(G)
            self.assertFalse(response.complete)
            self.assertEqual(response.body, b"part of it")
            self.assertFalse(client.clean)

    def test_an_early_answer_reaches_a_client_that_still_sends(self):
        self.tls_balancer(self.scripted(), max_body_bytes=1000)
        with self.client() as client:
            client.send(wire("POST / HTTP/1.1|Host: a|Content-Length: 600000||") + b"x" * 300_000)
            response = client.read_response()
            self.assertEqual(response.status, 413)
            client.send(b"x" * 300_000)
            self.assertTrue(client.closed_within(5))
            self.assertTrue(client.clean)

    def test_a_client_may_end_with_close_notify_or_with_a_fin(self):
        balancer = self.tls_balancer(self.scripted(echo))
        with self.client() as client:
            self.assertEqual(client.request(wire("POST / HTTP/1.1|Host: a|Content-Length: 1||x")).status, 200)
            client.close_notify()  # returns when the balancer has ended its side too
        client = self.client()
        client.send(G)
        socket.socket.shutdown(client.sock, socket.SHUT_WR)  # the FIN alone
        self.assertEqual(client.read_response().status, 200)
        self.assertTrue(client.closed_within(5))
        client.close()
        self.no_client_left(balancer)

    def no_client_left(self, balancer):
        def quiet():
            metrics = balancer.metrics()
            gauges = metrics["connections"]["client"]
            # The one that asks is reading or active.
            return metrics["tls"]["handshaking"] == 0 and gauges["new"] + gauges["idle"] == 0
        wait_until(quiet, what="no client to be left")


if __name__ == "__main__":
    main()
