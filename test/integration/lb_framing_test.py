"""Framing and limits: what is refused, with which status, and that nothing of it reaches a backend (L15; cases LB-26,
LB-31)."""

from lb_case import LbCase, main
from raw import G, wire
from scripted import OK
from waiting import pause

REQUESTS = [
    # name, bytes, accepted statuses
    ("CL and TE", "POST / HTTP/1.1|Host: a|Content-Length: 3|Transfer-Encoding: chunked||3|abc|0||", {400}),
    ("TE and CL", "POST / HTTP/1.1|Host: a|Transfer-Encoding: chunked|Content-Length: 3||3|abc|0||", {400}),
    ("two CL", "POST / HTTP/1.1|Host: a|Content-Length: 3|Content-Length: 4||abc", {400}),
    ("list of CL", "POST / HTTP/1.1|Host: a|Content-Length: 3, 4||abc", {400}),
    ("empty CL", "POST / HTTP/1.1|Host: a|Content-Length: ||abc", {400}),
    ("CL +3", "POST / HTTP/1.1|Host: a|Content-Length: +3||abc", {400}),
    ("CL -1", "POST / HTTP/1.1|Host: a|Content-Length: -1||abc", {400}),
    ("CL 0x3", "POST / HTTP/1.1|Host: a|Content-Length: 0x3||abc", {400}),
    ("CL too large", "POST / HTTP/1.1|Host: a|Content-Length: 99999999999999999999999||abc", {400, 413}),
    ("TE gzip", "POST / HTTP/1.1|Host: a|Transfer-Encoding: gzip||abc", {400, 501}),
    ("TE chunked twice", "POST / HTTP/1.1|Host: a|Transfer-Encoding: chunked, chunked||3|abc|0||", {400, 501}),
    ("TE chunked in two fields", "POST / HTTP/1.1|Host: a|Transfer-Encoding: chunked|Transfer-Encoding: chunked||0||",
     {400, 501}),
    ("TE identity", "POST / HTTP/1.1|Host: a|Transfer-Encoding: identity|Content-Length: 3||abc", {400, 501}),
    ("TE xchunked", "POST / HTTP/1.1|Host: a|Transfer-Encoding: xchunked||3|abc|0||", {400, 501}),
    ("TE of HTTP/1.0", "POST / HTTP/1.0|Host: a|Transfer-Encoding: chunked||3|abc|0||", {400, 501}),
    ("no Host", "GET / HTTP/1.1||", {400}),
    ("two Host", "GET / HTTP/1.1|Host: a|Host: b||", {400}),
    ("space before the colon", "GET / HTTP/1.1|Host: a|X : 1||", {400}),
    ("space before Host's colon", "GET / HTTP/1.1|Host : a||", {400}),
    ("folded line", "GET / HTTP/1.1|Host: a|X: 1| 2||", {400}),
    ("NUL in a value", "GET / HTTP/1.1|Host: a|X: 1\x002||", {400}),
    ("bare CR in a value", "GET / HTTP/1.1|Host: a|X: 1\r2||", {400}),
    ("bare LF ends a line", "GET / HTTP/1.1|Host: a\nX: 1||", {400}),
    ("bare LF ends the head", "GET / HTTP/1.1|Host: a\n\n", {400}),
    ("control character", "GET / HTTP/1.1|Host: a|X: 1\x012||", {400}),
    ("no colon", "GET / HTTP/1.1|Host: a|nonsense||", {400}),
    ("empty name", "GET / HTTP/1.1|Host: a|: x||", {400}),
    ("bracket in a name", "GET / HTTP/1.1|Host: a|X(y): 1||", {400}),
    ("version 2.0", "GET / HTTP/2.0|Host: a||", {400, 505}),
    ("version 1.12", "GET / HTTP/1.12|Host: a||", {400, 505}),
    ("no version", "GET /|Host: a||", {400}),
    ("two spaces", "GET  / HTTP/1.1|Host: a||", {400}),
    ("no target", "GET HTTP/1.1|Host: a||", {400}),
    ("relative target", "GET x HTTP/1.1|Host: a||", {400}),
    ("space in the target", "GET /a b HTTP/1.1|Host: a||", {400}),
    ("control in the target", "GET /a\x01b HTTP/1.1|Host: a||", {400}),
    ("garbage", "\x16\x03\x01\x02||", {400}),
    ("HTTP/2 preface", "PRI * HTTP/2.0||SM||", {400, 505}),
    ("unknown method", "FROB / HTTP/1.1|Host: a||", {501}),
    ("method in small letters", "get / HTTP/1.1|Host: a||", {400, 501}),
]

CHUNKS = [
    ("size ended by bare LF", "3\nabc|0||"),
    ("data ended by bare LF", "3|abc\n0||"),
    ("negative size", "-1|abc|0||"),
    ("overflowing size", "ffffffffffffffff1|abc|0||"),
    ("size 0x3", "0x3|abc|0||"),
    ("no size", "|abc|0||"),
    ("size not hexadecimal", "g|abc|0||"),
    ("data longer than its size", "2|abc|0||"),
    ("white space before the size", " 3|abc|0||"),
    ("bare CR in an extension", "3;a\rb|abc|0||"),
    ("trailer without colon", "3|abc|0|nonsense||"),
    ("folded trailer", "3|abc|0|X: 1| 2||"),
]


class Requests(LbCase):
    def test_lb_26_ambiguous_requests_are_refused(self):
        a = self.scripted()
        balancer = self.balancer(a)
        smuggled = wire("GET /admin HTTP/1.1|Host: a||")
        for name, text, statuses in REQUESTS:
            with self.subTest(name), balancer.client() as client:
                client.send(wire(text) + smuggled)
                response = client.read_response()
                self.assertIn(response.status, statuses)
                self.assertTrue(client.closed_within(3), "stays open")
                self.assertEqual(client.buffer, b"", "answered twice")
        self.assertEqual([request.line for request in a.requests], [])
        self.assertEqual(balancer.fetch("/").status, 200)
        balancer.wait_quiet()

    def test_lb_26_broken_chunks_are_refused(self):
        """The head may have gone out before the breach shows; no complete request may arrive, and never the one behind."""
        got = []

        def handler(connection, request):
            if request.method == "GET":
                got.append(request.target)
                connection.send(OK)
                return
            try:
                connection.body(request)
            except Exception:  # noqa: BLE001 - that is the point
                connection.close()
                return
            got.append("complete")
            connection.send(OK)

        a = self.scripted(handler)
        balancer = self.balancer(a, failure_limit=1000)
        for name, text in CHUNKS:
            with self.subTest(name), balancer.client() as client:
                client.send(wire("POST /c HTTP/1.1|Host: a|Transfer-Encoding: chunked||" + text) +
                            wire("GET /admin HTTP/1.1|Host: a||"))
                response = client.read_response()
                self.assertEqual(response.status, 400)
                self.assertTrue(client.closed_within(3), "stays open")
        self.assertEqual(got, [])
        balancer.wait_quiet()

    def test_lb_26_equal_lengths_may_be_merged(self):
        a = self.scripted()
        balancer = self.balancer(a)
        for field in ("Content-Length: 3, 3", "Content-Length: 3|Content-Length: 3"):
            with balancer.client() as client:
                response = client.request(f"POST / HTTP/1.1|Host: a|{field}||abc")
                self.assertIn(response.status, (200, 400))
        for request in a.requests:
            self.assertEqual((request.all("content-length"), request.body), (["3"], b"abc"))

    def test_connect_is_refused(self):
        a = self.scripted()
        balancer = self.balancer(a)
        with balancer.client() as client:
            self.assertIn(client.request("CONNECT a:443 HTTP/1.1|Host: a:443||").status, (400, 405, 501))
        self.assertEqual(a.deliveries(), 0)

    def test_lb_26_version_1_2(self):
        balancer = self.balancer(self.scripted())
        with balancer.client() as client:
            self.assertIn(client.request("GET / HTTP/1.2|Host: a||").status, (200, 400, 505))


class Responses(LbCase):
    def answers(self, text, **options):
        """What a client gets when the backend answers with `text`, and the backend."""
        backend = self.scripted(lambda connection, request: connection.send(
            OK if request.target == "/next" else wire(text)), "x")
        balancer = self.balancer(backend, name=f"lb{len(self.programs)}", failure_limit=1000, backend_timeout="2s",
                                 **options)
        with balancer.client() as client:
            response = client.request("POST / HTTP/1.1|Host: a|Content-Length: 0||")
        with balancer.client() as client:
            self.assertEqual(client.request("GET /next HTTP/1.1|Host: a||").status, 200)
        balancer.wait_quiet()
        return response, backend

    def test_lb_26_broken_response_heads_are_502(self):
        for name, text in [
            ("two CL", "HTTP/1.1 200 OK|Content-Length: 2|Content-Length: 3||ok"),
            ("CL +2", "HTTP/1.1 200 OK|Content-Length: +2||ok"),
            ("TE unknown", "HTTP/1.1 200 OK|Transfer-Encoding: gzip||ok"),
            ("garbage", "garbage||"),
            ("no status", "HTTP/1.1 OK||"),
            ("status 99", "HTTP/1.1 99 X|Content-Length: 0||"),
            ("folded line", "HTTP/1.1 200 OK|X: 1| 2|Content-Length: 0||"),
            ("NUL in a value", "HTTP/1.1 200 OK|X: 1\x002|Content-Length: 0||"),
            ("bare CR in a value", "HTTP/1.1 200 OK|X: 1\r2|Content-Length: 0||"),
            ("space before the colon", "HTTP/1.1 200 OK|X : 1|Content-Length: 0||"),
            ("CL 2, 3", "HTTP/1.1 200 OK|Content-Length: 2, 3||ok"),
            ("empty CL", "HTTP/1.1 200 OK|Content-Length: ||ok"),
            ("CL and TE gzip", "HTTP/1.1 200 OK|Content-Length: 2|Transfer-Encoding: gzip||ok"),
            ("chunked twice", "HTTP/1.1 200 OK|Transfer-Encoding: chunked, chunked||0||"),
            ("HTTP/2.0", "HTTP/2.0 200 OK|Content-Length: 2||ok"),
            ("an HTTP/0.9 body", "<html>|hello||</html>"),
            ("bare LF", "HTTP/1.1 200 OK\nContent-Length: 2\n\nok"),
            ("no colon", "HTTP/1.1 200 OK|nonsense|Content-Length: 2||ok"),
            ("101 that nobody asked for", "HTTP/1.1 101 Switching|Connection: upgrade|Upgrade: x||"),
        ]:
            with self.subTest(name):
                response, _ = self.answers(text)
                self.assertEqual(response.status, 502)
                self.assertTrue(response.complete)

    def test_lb_26_response_with_both_lengths(self):
        response, backend = self.answers("HTTP/1.1 200 OK|Content-Length: 3|Transfer-Encoding: chunked||5|hello|0||")
        self.assertEqual((response.status, response.body, response.framing), (200, b"hello", "chunked"))
        self.assertEqual(backend.connections, 2, "not pooled")

    def test_bytes_behind_a_response_are_dropped_with_the_connection(self):
        response, backend = self.answers("HTTP/1.1 200 OK|Content-Length: 2||okHTTP/1.1 200 OK|Content-Length: 4||evil")
        self.assertEqual((response.status, response.body), (200, b"ok"))
        self.assertEqual(backend.connections, 2, "not pooled")

    def test_too_many_interim_responses_are_502(self):
        response, _ = self.answers("HTTP/1.1 103 Early||" * 65 + "HTTP/1.1 200 OK|Content-Length: 2||ok")
        self.assertEqual(response.status, 502)

    def test_some_interim_responses_pass(self):
        response, _ = self.answers("HTTP/1.1 103 Early|Link: x||" * 3 + "HTTP/1.1 200 OK|Content-Length: 2||ok")
        self.assertEqual((response.status, response.body), (200, b"ok"))


class Limits(LbCase):
    def head_of(self, size):
        """A request head of exactly `size` bytes."""
        start, end = wire("GET / HTTP/1.1|Host: a|X: "), wire("||")
        return start + b"x" * (size - len(start) - len(end)) + end

    def test_lb_31_head_size_is_exact(self):
        """LB-31: at the limit, one below, one above; whole and one byte at a time."""
        a = self.scripted()
        balancer = self.balancer(a, max_header_bytes=2048)
        for size, status in ((2047, 200), (2048, 200), (2049, 431), (8000, 431)):
            for slowly in (False, True):
                with self.subTest(size=size, slowly=slowly), balancer.client() as client:
                    try:
                        (client.send_slowly if slowly else client.send)(self.head_of(size))
                    except OSError:
                        pass  # refused before its end
                    response = client.read_response()
                    self.assertEqual(response.status, status)
                    if status == 431:
                        self.assertTrue(client.closed_within(3))
        self.assertEqual(a.deliveries(), 4)

    def test_lb_31_default_limits(self):
        a = self.scripted()
        balancer = self.balancer(a)
        many = "".join(f"X-{index}: value|" for index in range(120))
        for name, head, status in [
            ("a 20 kB field", f"GET / HTTP/1.1|Host: a|X: {'x' * 20000}||", 431),
            ("120 small fields", f"GET / HTTP/1.1|Host: a|{many}|", 200),
            ("a 9 kB target", f"GET /{'x' * 9000} HTTP/1.1|Host: a||", 414),
            ("a 20 kB target", f"GET /{'x' * 20000} HTTP/1.1|Host: a||", 414),
            ("a target at 8 KiB", f"GET /{'x' * 8191} HTTP/1.1|Host: a||", 200),
            ("a target over 8 KiB", f"GET /{'x' * 8192} HTTP/1.1|Host: a||", 414),
            ("an endless first line", "G" * 40000, (400, 414, 431, 501)),
        ]:
            with self.subTest(name), balancer.client() as client:
                client.send(head)
                response = client.read_response()
                self.assertIn(response.status, status if isinstance(status, tuple) else (status,))
        self.assertEqual(a.deliveries(), 2)

    def test_declared_body_over_the_limit_is_413(self):
        a = self.scripted()
        balancer = self.balancer(a, max_body_bytes=1000)
        for size, status in ((999, 200), (1000, 200), (1001, 413), (10**15, 413)):
            with self.subTest(size=size), balancer.client() as client:
                client.send(wire(f"POST / HTTP/1.1|Host: a|Content-Length: {size}||") + b"x" * min(size, 1001))
                response = client.read_response()
                self.assertEqual(response.status, status)
        with self.subTest("413 instead of 100"), balancer.client() as client:
            client.send("POST / HTTP/1.1|Host: a|Expect: 100-continue|Content-Length: 1001||")
            response = client.read_response()
            self.assertEqual((response.status, response.interim), (413, []))
        self.assertEqual(a.deliveries(), 2)

    def test_chunked_body_over_the_limit_never_arrives_whole(self):
        complete = []

        def handler(connection, request):
            connection.body(request)
            complete.append(request)
            connection.send(OK)

        balancer = self.balancer(self.scripted(handler), max_body_bytes=1000, failure_limit=1000)
        with balancer.client() as client:
            client.send(wire("POST / HTTP/1.1|Host: a|Transfer-Encoding: chunked||") + b"400\r\n" + b"x" * 1024 +
                        b"\r\n0\r\n\r\n")
            self.assertEqual(client.read_response().status, 413)
            self.assertTrue(client.closed_within(3))
        self.assertEqual(complete, [])

    def test_lb_31_response_heads_over_the_limit_are_502(self):
        def handler(connection, request):
            size = int(request.target[1:])
            start, end = wire("HTTP/1.1 200 OK|Content-Length: 0|X: "), wire("||")
            connection.send(start + b"x" * (size - len(start) - len(end)) + end)

        a = self.scripted(handler)
        balancer = self.balancer(a, max_header_bytes=2048, failure_limit=1000)
        for size, status in ((4095, 200), (4096, 200), (4097, 502), (20000, 502)):
            with self.subTest(size=size):
                self.assertEqual(balancer.fetch(f"/{size}").status, status)
        self.assertTrue(balancer.backend("a")["healthy"])

    def test_lb_31_response_heads_byte_by_byte(self):
        def handler(connection, request):
            size = int(request.target[1:])
            start, end = wire("HTTP/1.1 200 OK|Content-Length: 0|X: "), wire("||")
            head = start + b"x" * (size - len(start) - len(end)) + end
            for at in range(size):
                connection.send(head[at : at + 1])

        balancer = self.balancer(self.scripted(handler), max_header_bytes=1024, failure_limit=1000)
        for size, status in ((2047, 200), (2048, 200), (2049, 502)):
            with self.subTest(size=size):
                self.assertEqual(balancer.fetch(f"/{size}").status, status)

    def test_lb_31_targets_and_fields_at_their_limits(self):
        """8 KiB of target, byte by byte; 256 fields are kept."""
        a = self.scripted()
        balancer = self.balancer(a)
        for size, status in ((8191, 200), (8192, 200), (8193, 414)):
            with self.subTest(target=size), balancer.client() as client:
                client.send(b"GET ")
                target = b"/" + b"x" * (size - 1)
                try:
                    for at in range(0, size, 61):
                        client.send(target[at : at + 61])
                    client.send(wire(" HTTP/1.1|Host: a||"))
                except OSError:
                    pass  # refused before its end
                self.assertEqual(client.read_response().status, status)
        for count, status in ((255, 200), (256, 200), (257, 431)):
            with self.subTest(fields=count), balancer.client() as client:
                client.send("GET / HTTP/1.1|Host: a|" + "".join(f"X-{index}: v|" for index in range(count - 1)) + "|")
                self.assertEqual(client.read_response().status, status)
        self.assertEqual(a.deliveries(), 4)

    def test_lb_03_e_unknown_expectation(self):
        balancer = self.balancer(self.scripted())
        with balancer.client() as client:
            client.send("POST / HTTP/1.1|Host: a|Expect: something-else|Content-Length: 3||abc")
            self.assertIn(client.read_response().status, (200, 417))


class Errors(LbCase):
    def test_error_bodies_are_json(self):
        import json

        balancer = self.balancer(self.scripted(), max_body_bytes=10)
        for data, status in ((b"garbage\r\n\r\n", 400), (wire("GET /internal/x HTTP/1.1|Host: a||"), 404),
                             (wire("POST / HTTP/1.1|Host: a|Content-Length: 11||"), 413),
                             (wire("FROB / HTTP/1.1|Host: a||"), 501)):
            with balancer.client() as client:
                client.send(data)
                response = client.read_response()
                self.assertEqual(response.status, status)
                self.assertTrue(response.header("content-type", "").startswith("application/json"))
                error = json.loads(response.body)
                self.assertTrue(error["error"] and error["detail"])

    def test_own_connection_after_a_local_answer_is_kept(self):
        """A 404 of ours is no framing trouble: the next request on the connection is served."""
        balancer = self.balancer(self.scripted())
        with balancer.client() as client:
            client.send(wire("GET /internal/x HTTP/1.1|Host: a||") + G)
            self.assertEqual(client.read_response().status, 404)
            self.assertEqual(client.read_response().status, 200)
            pause(0)


if __name__ == "__main__":
    main()
