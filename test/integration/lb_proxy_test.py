"""What the balancer relays, byte for byte: bodies, connections, heads (L8, L15; cases LB-02, LB-03, LB-05, LB-06, LB-25,
LB-27)."""

import hashlib
import statistics
import threading
import time

from lb_case import LbCase, main
from raw import G, RawClient, wire
from scripted import OK
from waiting import TIME_FACTOR, pause, wait_until

SIZES = (0, 1, 100, 16383, 16384, 16385, 32768, 65537, 1 << 20)


def pattern(size):
    """Bytes in which a lost, doubled or swapped piece shows."""
    block = b"".join(index.to_bytes(4, "big") for index in range(4096))
    return (block * (size // len(block) + 1))[:size]


def chunked(data, piece):
    parts = [b"%x\r\n%s\r\n" % (len(data[at : at + piece]), data[at : at + piece]) for at in range(0, len(data), piece)]
    return b"".join(parts) + b"0\r\n\r\n"


class Bodies(LbCase):
    def test_response_bodies_by_length_are_exact(self):
        def handler(connection, request):
            connection.body(request)
            connection.reply(200, pattern(int(request.target.split("/")[1])))

        balancer = self.balancer(self.scripted(handler))
        with balancer.client() as client:
            for size in SIZES:
                response = client.request(f"GET /{size} HTTP/1.1|Host: a||")
                self.assertTrue(response.complete)
                self.assertEqual((response.framing, response.body_size), ("length", size))
                self.assertEqual(response.body, pattern(size))

    def test_response_bodies_in_chunks_are_exact_with_trailers(self):
        def handler(connection, request):
            connection.body(request)
            _, size, piece = request.target.split("/")
            body = chunked(pattern(int(size)), int(piece))[:-2]
            connection.send(wire("HTTP/1.1 200 OK|Transfer-Encoding: chunked|Trailer: X-Sum||") + body +
                            b"X-Sum: 12\r\n\r\n")

        balancer = self.balancer(self.scripted(handler))
        with balancer.client() as client:
            for size in SIZES:
                for piece in (7, 1000, 16384, 70000):
                    if size > 70000 and piece == 7:
                        continue
                    response = client.request(f"GET /{size}/{piece} HTTP/1.1|Host: a||")
                    self.assertTrue(response.complete, (size, piece))
                    self.assertEqual(response.framing, "chunked")
                    self.assertEqual(response.body, pattern(size), (size, piece))
                    self.assertEqual(response.trailers, [("x-sum", "12")])

    def test_chunked_response_to_an_http_1_0_client_ends_with_the_connection(self):
        def handler(connection, request):
            connection.send(wire("HTTP/1.1 200 OK|Transfer-Encoding: chunked||5|hello|1|!|0||"))

        balancer = self.balancer(self.scripted(handler))
        with balancer.client() as client:
            response = client.request("GET / HTTP/1.0|Host: a||")
            self.assertEqual((response.framing, response.body, response.complete), ("close", b"hello!", True))

    def test_request_bodies_are_exact(self):
        a = self.scripted(lambda connection, request: connection.reply(200, hashlib.sha256(connection.body(request))
                                                                       .hexdigest().encode()))
        balancer = self.balancer(a)
        with balancer.client() as client:
            for size in SIZES:
                body = pattern(size)
                digest = hashlib.sha256(body).hexdigest().encode()
                client.send(wire(f"POST /u HTTP/1.1|Host: a|Content-Length: {size}||") + body)
                self.assertEqual(client.read_response().body, digest, size)
                for piece in (1000, 16384):
                    client.send(wire("POST /u HTTP/1.1|Host: a|Transfer-Encoding: chunked||") + chunked(body, piece))
                    self.assertEqual(client.read_response().body, digest, (size, piece))
        self.assertEqual(a.connections, 1, "one client, one backend connection")

    def test_a_request_may_come_one_byte_at_a_time(self):
        a = self.scripted()
        balancer = self.balancer(a)
        with balancer.client() as client:
            client.send_slowly(wire("POST /x HTTP/1.1|Host: a|Transfer-Encoding: chunked||3|abc|2;x=y|de|0|T: 1||"))
            self.assertEqual(client.read_response().body, b"ok")
        self.assertEqual(a.requests[-1].body, b"abcde")

    def test_a_response_may_come_one_byte_at_a_time(self):
        def handler(connection, request):
            for byte in wire("HTTP/1.1 200 OK|Transfer-Encoding: chunked||3|abc|0||"):
                connection.send(bytes([byte]))

        balancer = self.balancer(self.scripted(handler))
        with balancer.client() as client:
            for _ in range(3):
                self.assertEqual(client.request(G).body, b"abc")


class Connections(LbCase):
    def test_both_sides_are_kept_alive(self):
        a = self.scripted()
        balancer = self.balancer(a)
        with balancer.client() as client:
            for _ in range(50):
                self.assertEqual(client.request(G).body, b"ok")
        self.assertEqual(a.deliveries(), 50)
        self.assertEqual(a.connections, 1)

    def test_the_backend_connection_outlives_its_clients(self):
        a = self.scripted()
        balancer = self.balancer(a)
        for _ in range(10):
            with balancer.client() as client:
                response = client.request("GET / HTTP/1.1|Host: a|Connection: close||")
                self.assertEqual(response.header("connection"), "close")
                self.assertTrue(client.closed_within(2))
        self.assertEqual((a.deliveries(), a.connections), (10, 1))

    def test_http_1_0_closes_unless_asked_to_keep(self):
        balancer = self.balancer(self.scripted())
        with balancer.client() as client:
            self.assertEqual(client.request("GET / HTTP/1.0||").body, b"ok")
            self.assertTrue(client.closed_within(2))
        with balancer.client() as client:
            for _ in range(3):
                response = client.request("GET / HTTP/1.0|Connection: keep-alive||")
                self.assertEqual(response.body, b"ok")
                self.assertEqual(response.header("connection", "").lower(), "keep-alive")

    def test_a_half_closed_client_gets_its_answer(self):
        def handler(connection, request):
            pause(0.1)
            connection.send(OK)

        balancer = self.balancer(self.scripted(handler))
        with balancer.client() as client:
            client.send(G)
            client.shutdown_write()
            self.assertEqual(client.read_response().body, b"ok")
            self.assertTrue(client.closed_within(2))

    def test_a_backend_that_says_close_is_not_reused(self):
        def handler(connection, request):
            connection.send("HTTP/1.1 200 OK|Connection: close|Content-Length: 2||ok")
            connection.wait_for_end()

        a = self.scripted(handler)
        balancer = self.balancer(a)
        with balancer.client() as client:
            for _ in range(5):
                response = client.request(G)
                self.assertEqual(response.body, b"ok")
                self.assertNotEqual(response.header("connection", ""), "close")
        self.assertEqual(a.connections, 5)


class Pipelining(LbCase):
    def test_lb_27_answers_come_in_order(self):
        """LB-27: the first is slow, the rest fast."""
        def handler(connection, request):
            connection.body(request)
            if request.target == "/0":
                pause(0.2)
            connection.reply(200, request.target.encode())

        balancer = self.balancer(self.scripted(handler, "a"), self.scripted(handler, "b"))
        for count in (2, 1000):
            with balancer.client() as client:
                burst = b"".join(wire(f"GET /{index} HTTP/1.1|Host: a||") for index in range(count))
                writer = threading.Thread(target=client.send, args=(burst,), daemon=True)
                writer.start()
                answers = [client.read_response().body for _ in range(count)]
                writer.join(10)
            self.assertEqual(answers, [f"/{index}".encode() for index in range(count)])

    def test_lb_27_read_ahead_is_bounded(self):
        """While one request is in progress the balancer does not read the next ones: they stay in the sockets."""
        gate = threading.Event()
        self.addCleanup(gate.set)

        def handler(connection, request):
            gate.wait(20)
            connection.send(OK)

        a = self.scripted(handler)
        balancer = self.balancer(a, socket_read_buffer_bytes="16KiB")
        before = balancer.rss()
        request = wire(f"GET / HTTP/1.1|Host: a|X: {'x' * 900}||")
        clients = [balancer.client() for _ in range(20)]
        for client in clients:
            client.sock.setblocking(False)
            try:
                while True:
                    client.sock.send(request * 20)
            except BlockingIOError:
                pass
        wait_until(lambda: a.active == 20, 5, "the first request of each")
        self.assertLess(balancer.rss() - before, 20 * 32768 + (2 << 20))
        for client in clients:
            client.reset()

    def test_lb_27_a_request_may_follow_a_body(self):
        a = self.scripted()
        balancer = self.balancer(a)
        with balancer.client() as client:
            client.send(wire("POST /p HTTP/1.1|Host: a|Content-Length: 3||abc") + G +
                        wire("POST /q HTTP/1.1|Host: a|Transfer-Encoding: chunked||1|x|0||") + G)
            self.assertEqual([client.read_response().body for _ in range(4)], [b"ok"] * 4)
        self.assertEqual([(r.method, r.body) for r in a.requests],
                         [("POST", b"abc"), ("GET", b""), ("POST", b"x"), ("GET", b"")])


class BodilessResponses(LbCase):
    def bodiless(self, method, responses, statuses):
        """Each scripted response on a fresh backend; the next request on the client connection gets its own answer."""
        for text, status in zip(responses, statuses):
            with self.subTest(response=text):
                def handler(connection, request, text=text):
                    connection.send(OK if request.target == "/next" else wire(text))

                backend = self.scripted(handler, "x")
                balancer = self.balancer(backend, name=f"lb{len(self.programs)}")
                with balancer.client() as client:
                    client.send(f"{method} / HTTP/1.1|Host: a||")
                    response = client.read_response(method)
                    self.assertEqual(response.status, status)
                    if status in (204, 304):
                        self.assertIsNone(response.header("transfer-encoding"))
                    again = client.request("GET /next HTTP/1.1|Host: a||")
                    self.assertEqual((again.status, again.body), (200, b"ok"))
                    if "1234" in text:
                        self.assertEqual(response.header("content-length"), "1234")
                balancer.wait_quiet()

    def test_lb_05_head(self):
        """LB-05"""
        self.bodiless("HEAD", ["HTTP/1.1 200 OK|Transfer-Encoding: chunked||", "HTTP/1.1 200 OK|Content-Length: 1234||",
                               "HTTP/1.1 200 OK|Content-Length: 5||hello",
                               "HTTP/1.1 103 E||HTTP/1.1 200 OK|Content-Length: 1234||"], [200] * 4)

    def test_lb_05_head_of_our_own_errors_has_no_body(self):
        balancer = self.balancer(healthy=0, backends_file=self.empty_backends())
        with balancer.client() as client:
            client.send("HEAD / HTTP/1.1|Host: a||")
            self.assertEqual(client.read_response("HEAD").status, 503)
            client.send("HEAD /lb/health HTTP/1.1|Host: a||")
            self.assertEqual(client.read_response("HEAD").status, 503)
            self.assertEqual(client.buffer, b"")

    def empty_backends(self):
        import json
        import os

        path = os.path.join(self.folder, "backends.json")
        gone = self.scripted()
        gone.refuse()
        with open(path, "w", encoding="ascii") as file:
            json.dump([{"name": "gone", "url": gone.url}], file)
        return path

    def test_lb_06_204_and_304(self):
        """LB-06"""
        self.bodiless("GET", ['HTTP/1.1 304 NM|Content-Length: 1234|ETag: "x"||', "HTTP/1.1 204 NC||",
                              "HTTP/1.1 204 NC|Transfer-Encoding: chunked||0||",
                              "HTTP/1.1 204 NC|Content-Length: 5||hello"], [304, 204, 204, 204])


class EarlyAndInterim(LbCase):
    def test_lb_02_b_early_response_before_a_reset(self):
        """LB-02 (b): the backend answers 413 and closes with unread data, so the kernel sends RST behind the answer."""
        def handler(connection, request):
            if request.method == "GET":
                connection.send(OK)
                return
            connection.send("HTTP/1.1 413 Too Large|Content-Length: 3||big")
            connection.close()

        a = self.scripted(handler)
        balancer = self.balancer(a, failure_limit=1000)
        waits = []
        for _ in range(40):
            with balancer.client() as client:
                client.send(wire("POST /u HTTP/1.1|Host: a|Content-Length: 8000000||") + b"x" * 200000)
                sent = time.monotonic()
                response = client.read_response()
                waits.append(time.monotonic() - sent)
                self.assertEqual((response.status, response.body), (413, b"big"))
                try:
                    client.send(b"x" * 7800000 + G)
                except OSError:
                    continue  # closed: fine
                rest = client.read_to_end()
                self.assertTrue(rest == b"" or rest.startswith(b"HTTP/1.1 200 "), rest[:200])
        self.assertLess(statistics.median(waits), 0.1 * TIME_FACTOR)  # at once, not behind the upload
        self.assertTrue(all(request.method in ("POST", "GET") for request in a.requests))
        balancer.wait_quiet()

    def test_lb_02_c_early_response_of_a_backend_that_closes_later(self):
        def handler(connection, request):
            if request.method == "POST":
                connection.send("HTTP/1.1 413 Too Large|Content-Length: 3||big")
                pause(0.05)
                connection.close()
            else:
                connection.send(OK)

        a = self.scripted(handler)
        balancer = self.balancer(a, failure_limit=1000)
        for _ in range(5):
            with balancer.client() as client:
                client.send(wire("POST /u HTTP/1.1|Host: a|Content-Length: 8000000||") + b"x" * 200000)
                response = client.read_response()
                self.assertEqual((response.status, response.body), (413, b"big"))
                try:
                    client.send(b"x" * 7800000 + G)
                except OSError:
                    continue  # closed: fine
                rest = client.read_to_end()
                self.assertTrue(rest == b"" or rest.startswith(b"HTTP/1.1 200 "), rest[:200])

    def test_lb_02_a_early_response_of_a_backend_that_stays_open(self):
        """LB-02 (a): that connection is never used again, since the rest of the body is still owed on it."""
        def handler(connection, request):
            if request.method == "GET":
                connection.send(OK)
                return
            connection.send("HTTP/1.1 413 Too Large|Content-Length: 3||big")
            connection.server.stopped.wait(0.5)

        a = self.scripted(handler)
        balancer = self.balancer(a)
        with balancer.client() as client:
            client.send(wire("POST /u HTTP/1.1|Host: a|Content-Length: 8000000||") + b"x" * 200000)
            response = client.read_response()
            self.assertEqual((response.status, response.body), (413, b"big"))
        with balancer.client() as client:
            self.assertEqual(client.request(G).body, b"ok")
        self.assertEqual([request.method for request in a.requests], ["POST", "GET"])
        self.assertEqual(a.connections, 2)

    def expect(self, handler, body_first=False):
        backend = self.scripted(handler, "x")
        balancer = self.balancer(backend, name=f"lb{len(self.programs)}", backend_timeout="500ms")
        client = balancer.client()
        self.addCleanup(client.close)
        client.send("POST / HTTP/1.1|Host: a|Expect: 100-continue|Content-Length: 3||" + ("abc" if body_first else ""))
        return client

    def test_lb_03_a_100_continue(self):
        """LB-03 (a): one 100 at most, then the answer."""
        def handler(connection, request):
            if request.header("expect"):
                connection.send("HTTP/1.1 100 Continue||")
            connection.body(request)
            connection.send(OK)

        client = self.expect(handler)
        self.assertEqual(client.read_head().status, 100)
        client.send("abc")
        response = client.read_response()
        self.assertEqual((response.status, response.interim), (200, []))

    def test_lb_03_b_a_silent_backend(self):
        client = self.expect(lambda connection, request: connection.wait_for_end())
        response = client.read_response()
        self.assertEqual(response.status, 504)
        self.assertLessEqual(len(response.interim), 1)

    def test_lb_03_a_client_that_takes_its_time_after_100(self):
        """From then on it is the client that is waited for, not the backend."""
        def handler(connection, request):
            connection.send("HTTP/1.1 100 Continue||")
            connection.body(request)
            connection.send(OK)

        client = self.expect(handler)
        self.assertEqual(client.read_head().status, 100)
        pause(0.7)  # longer than backend-timeout
        client.send("abc")
        self.assertEqual(client.read_response().status, 200)

    def test_lb_03_c_a_final_answer_instead_of_100(self):
        """LB-03 (c): at once, without waiting for the body."""
        client = self.expect(lambda connection, request: connection.send("HTTP/1.1 401 No|Content-Length: 0||"))
        response = client.read_response()
        self.assertEqual(response.status, 401)
        self.assertLessEqual(len(response.interim), 1)

    def test_lb_03_d_a_backend_that_hangs_after_100(self):
        """LB-03 (d): 504, not an empty close."""
        def handler(connection, request):
            connection.send("HTTP/1.1 100 Continue||")
            connection.server.stopped.wait(20)

        client = self.expect(handler, body_first=True)
        response = client.read_response()
        self.assertEqual(response.status, 504)
        self.assertLessEqual(len(response.interim), 1)

    def test_lb_03_http_1_0_never_sees_100(self):
        def handler(connection, request):
            connection.send("HTTP/1.1 100 Continue||")
            connection.body(request)
            connection.send(OK)

        balancer = self.balancer(self.scripted(handler))
        with balancer.client() as client:
            client.send("POST / HTTP/1.0|Host: a|Expect: 100-continue|Content-Length: 3||abc")
            response = client.read_response()
            self.assertEqual((response.status, response.interim), (200, []))


class Heads(LbCase):
    def test_response_headers(self):
        """L8"""
        balancer = self.balancer(self.scripted(name="sys2"))
        response = balancer.fetch("/")
        self.assertEqual(response.header("x-load-balancer-backend"), "sys2")
        self.assertRegex(response.header("x-load-balancer-score"), r"^\d+\.\d$")
        self.assertIsNone(response.header("x-load-balancer-fallback"))

    def test_a_backend_cannot_forge_ours(self):
        a = self.scripted(respond=wire("HTTP/1.1 200 OK|X-Load-Balancer-Backend: forged|X-Load-Balancer-Fallback: threshold|"
                                       "Content-Length: 2||ok"), name="sys2")
        response = self.balancer(a).fetch("/")
        self.assertEqual(response.all("x-load-balancer-backend"), ["sys2"])
        self.assertEqual(response.all("x-load-balancer-fallback"), [])

    def test_request_headers(self):
        a = self.scripted()
        balancer = self.balancer(a)
        with balancer.client() as client:
            client.request("GET /p?q=1 HTTP/1.1|Host: chat.example:81|X-Forwarded-For: 6.6.6.6|X-Forwarded-Proto: https|"
                           "X-Request-Id: abc-123|X-Other: kept|Cookie: c=1||")
            client.request("GET / HTTP/1.1|Host: b|X-Request-Id: bad id \x01||".replace("\x01", "(){}<>"))
            client.request("GET / HTTP/1.1|Host: b||")
        first = a.requests[0]
        self.assertEqual(first.line, "GET /p?q=1 HTTP/1.1")
        self.assertEqual(first.all("host"), ["chat.example:81"])
        self.assertEqual(first.all("x-forwarded-for"), ["127.0.0.1"], "set, since the peer is no trusted proxy")
        self.assertEqual(first.all("x-forwarded-proto"), ["http"])
        self.assertEqual(first.all("x-forwarded-host"), ["chat.example:81"])
        self.assertEqual(first.all("x-request-id"), ["abc-123"])
        self.assertEqual((first.all("x-other"), first.all("cookie")), (["kept"], ["c=1"]))
        made = [request.header("x-request-id") for request in a.requests[1:]]
        self.assertTrue(all(made) and len(set(made)) == 2, made)
        self.assertNotIn("bad id", made[0])

    def test_a_trusted_proxy_is_appended_to(self):
        a = self.scripted()
        balancer = self.balancer(a, trusted_proxies=["127.0.0.1"])
        with balancer.client() as client:
            client.request("GET / HTTP/1.1|Host: b|X-Forwarded-For: 6.6.6.6|X-Forwarded-Proto: https|X-Forwarded-Host: h||")
        self.assertEqual(", ".join(a.requests[0].all("x-forwarded-for")), "6.6.6.6, 127.0.0.1")
        self.assertEqual(a.requests[0].all("x-forwarded-proto"), ["https"])
        self.assertEqual(a.requests[0].all("x-forwarded-host"), ["h"])

    def test_lb_25_hop_by_hop_fields_stay_behind(self):
        a = self.scripted(respond=wire("HTTP/1.1 200 OK|Connection: X-Resp|X-Resp: 1|Keep-Alive: timeout=5|Proxy-Connection: x|"
                                       "Content-Length: 2||ok"))
        balancer = self.balancer(a, workers=1)
        with balancer.client() as client:
            response = client.request("GET / HTTP/1.1|Host: a|Connection: close, X-Secret|X-Secret: 1|Keep-Alive: 5|"
                                      "Proxy-Connection: x|TE: trailers, gzip|Upgrade: h2c||")
        for name in ("x-resp", "keep-alive", "proxy-connection"):
            self.assertIsNone(response.header(name), name)
        self.assertEqual(response.header("connection"), "close", "the client's own wish")
        seen = a.requests[0]
        for name in ("x-secret", "keep-alive", "proxy-connection", "upgrade", "connection"):
            self.assertIsNone(seen.header(name), name)
        self.assertIn(seen.header("te", ""), ("", "trailers"))
        self.assertEqual(seen.all("x-forwarded-for"), ["127.0.0.1"])
        with balancer.client() as client:
            client.request("GET / HTTP/1.1|Host: a|Connection: X-Forwarded-For, hOsT, Authorization, Content-Length, Cookie|"
                           "Connection: forwarded|Connection: x-forwarded-proto|Authorization: t|Content-Length: 3|Cookie: c|"
                           "Forwarded: for=x||abc")
        seen = a.requests[1]
        self.assertEqual(seen.all("host"), ["a"])
        self.assertEqual(seen.all("x-forwarded-for"), ["127.0.0.1"])
        self.assertEqual(seen.all("x-forwarded-proto"), ["http"])
        self.assertEqual((seen.all("authorization"), seen.all("cookie")), (["t"], ["c"]))
        self.assertEqual((seen.all("content-length"), seen.body), (["3"], b"abc"))
        self.assertEqual(a.connections, 1, "a client's close does not close the backend connection")

    def test_lb_25_a_response_that_closes_and_names_fields(self):
        a = self.scripted(respond=wire("HTTP/1.1 200 OK|Connection: X-Resp, close|X-Resp: 1|Content-Length: 2||ok"))
        balancer = self.balancer(a)
        with balancer.client() as client:
            for _ in range(2):
                response = client.request(G)
                self.assertEqual((response.header("x-resp"), response.header("connection")), (None, None))
        self.assertEqual(a.connections, 2)

    def test_lb_26_absolute_form_decides_the_host(self):
        a = self.scripted()
        balancer = self.balancer(a)
        with balancer.client() as client:
            client.request("GET http://target.example/x HTTP/1.1|Host: other||")
        self.assertEqual(a.requests[0].all("host"), ["target.example"])
        self.assertEqual(a.requests[0].line, "GET /x HTTP/1.1")

    def test_denied_paths_are_never_forwarded(self):
        a = self.scripted()
        balancer = self.balancer(a)
        for target in ("/internal/stats", "/internal/", "//internal/stats", "/x/../internal/stats", "/%69nternal/stats",
                       "/./internal/x", "/internal%2fstats"):
            self.assertEqual(balancer.fetch(target).status, 404, target)
        self.assertEqual(a.deliveries(), 0)
        self.assertEqual(balancer.fetch("/internals").status, 200)


class Together(LbCase):
    def test_many_clients_get_their_own_bytes(self):
        """No byte of one client's response on another's connection."""
        def handler(connection, request):
            body = connection.body(request)
            connection.reply(200, request.target.encode() + body)

        balancer = self.balancer(self.scripted(handler, "a"), self.scripted(handler, "b"), self.scripted(handler, "d"))

        def client(number):
            def work():
                with balancer.client() as connection:
                    for index in range(30):
                        body = pattern((number * 37 + index * 1009) % 40000)
                        connection.send(wire(f"POST /{number}.{index} HTTP/1.1|Host: a|Content-Length: {len(body)}||") + body)
                        got = connection.read_response()
                        self.assertEqual((got.status, got.body), (200, f"/{number}.{index}".encode() + body))
            return work

        self.together(*[client(number) for number in range(32)])
        balancer.wait_quiet()
        metrics = balancer.metrics()
        self.assertEqual(metrics["requests"]["total"], 960)
        self.assertEqual(metrics["requests"]["success"], 960)

    def test_descriptors_come_back(self):
        balancer = self.balancer(self.scripted())
        balancer.fetch("/")
        before = balancer.open_files()
        clients = [RawClient(balancer.port) for _ in range(200)]
        for client in clients:
            self.assertEqual(client.request(G).status, 200)
        self.assertGreaterEqual(balancer.open_files(), before + 190)  # probes come and go
        for client in clients:
            client.close()
        wait_until(lambda: balancer.open_files() <= before + 10, 5, "the descriptors of closed clients")


if __name__ == "__main__":
    main()
