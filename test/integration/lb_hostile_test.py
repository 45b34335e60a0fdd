"""Responses of broken and hostile backends: never a byte to the wrong client, never a cut body that looks complete, never a
pooled connection with unread bytes (L15; LB-08, LB-26)."""

import random
import threading

from lb_case import LbCase, main
from raw import G, Incomplete, wire
from waiting import pause, wait_until

EVIL = "HTTP/1.1 200 OK|Content-Length: 4||evil"

# name, method, what the backend sends, whether it closes then; what the client must see: status, body, complete; whether the
# backend's connection may serve another request
RESPONSES = [
    ("more than its length", "GET", "HTTP/1.1 200 OK|Content-Length: 2||ok" + EVIL, False, (200, b"ok", True), False),
    ("a second answer behind the last chunk", "GET", "HTTP/1.1 200 OK|Transfer-Encoding: chunked||2|ok|0||" + EVIL, False,
     (200, b"ok", True), False),
    ("a body behind HEAD", "HEAD", "HTTP/1.1 200 OK|Content-Length: 4||evil", False, (200, b"", True), False),
    ("chunks behind HEAD", "HEAD", "HTTP/1.1 200 OK|Transfer-Encoding: chunked||4|evil|0||", False, (200, b"", True), False),
    ("a body behind 204", "GET", "HTTP/1.1 204 N|Content-Length: 4||evil", False, (204, b"", True), False),
    ("chunks behind 304", "GET", "HTTP/1.1 304 N|Transfer-Encoding: chunked||4|evil|0||", False, (304, b"", True), False),
    ("an answer behind 304", "GET", "HTTP/1.1 304 N||" + EVIL, False, (304, b"", True), False),
    ("both lengths", "GET", "HTTP/1.1 200 OK|Content-Length: 4|Transfer-Encoding: chunked||2|ok|0||", False,
     (200, b"ok", True), False),
    ("chunked in HTTP/1.0", "GET", "HTTP/1.0 200 OK|Transfer-Encoding: chunked||2|ok|0||", True, None, False),
    ("chunked and kept in HTTP/1.0", "GET", "HTTP/1.0 200 OK|Connection: keep-alive|Transfer-Encoding: chunked||2|ok|0||",
     False, (200, b"ok", True), False),
    ("a chunk that lies", "GET", "HTTP/1.1 200 OK|Transfer-Encoding: chunked||2|okay|0||", False, (200, b"ok", False), False),
    ("a chunk size that is none", "GET", "HTTP/1.1 200 OK|Transfer-Encoding: chunked||2|ok|z|", False, (200, b"ok", False),
     False),
    ("a chunk size that overflows", "GET", "HTTP/1.1 200 OK|Transfer-Encoding: chunked||2|ok|fffffffffffffffff|", False,
     (200, b"ok", False), False),
    ("a bare LF in the chunks", "GET", "HTTP/1.1 200 OK|Transfer-Encoding: chunked||2\nok|0||", False, (200, b"", False), False),
    ("an end within the last chunk's line", "GET", "HTTP/1.1 200 OK|Transfer-Encoding: chunked||2|ok|0|", True,
     (200, b"ok", False), False),
    ("a trailer that is none", "GET", "HTTP/1.1 200 OK|Transfer-Encoding: chunked||2|ok|0|no colon||", False,
     (200, b"ok", False), False),
    ("trailers that would frame", "GET", "HTTP/1.1 200 OK|Transfer-Encoding: chunked||2|ok|0|Content-Length: 9|"
     "Transfer-Encoding: chunked|Set-Cookie: c||", False, (200, b"ok", True), True),
    ("half a body", "GET", "HTTP/1.1 200 OK|Content-Length: 4||ok", True, (200, b"ok", False), False),
    ("no body at all", "GET", "HTTP/1.1 200 OK|Content-Length: 4||", True, (200, b"", False), False),
    ("a control character in the reason", "GET", "HTTP/1.1 200 O\x01K|Content-Length: 2||ok", False, (502, None, True), False),
    ("a bare CR in the reason", "GET", "HTTP/1.1 200 O\rX: 1|Content-Length: 2||ok", False, (502, None, True), False),
    ("a huge interim head", "GET", "HTTP/1.1 103 E|X: " + "x" * 40000 + "||" + EVIL, False, (502, None, True), False),
    ("64 KiB of interim heads", "GET", ("HTTP/1.1 103 E|X: " + "x" * 2000 + "||") * 40 + EVIL, False, (502, None, True), False),
    ("a length in an interim head", "GET", "HTTP/1.1 103 E|Content-Length: 4||HTTP/1.1 200 OK|Content-Length: 2||ok", False,
     (200, b"ok", True), True),
    ("a 101 that nobody asked for", "GET", "HTTP/1.1 101 S|Connection: upgrade|Upgrade: x||" + EVIL, False, (502, None, True),
     False),
    ("an answer twice", "GET", "HTTP/1.1 200 OK|Content-Length: 2||ok" * 2, False, (200, b"ok", True), False),
]


class Hostile(LbCase):
    def test_each_kind(self):
        """After each the next client gets its own answer, over a connection that nothing was left on."""
        dirty, reused = {}, set()

        def handler(connection, request):
            connection.body(request)
            if connection.number in dirty:
                reused.add(dirty.pop(connection.number))
            if not request.target.startswith("/bad/"):
                return connection.reply(200, request.target.encode())
            _, _, text, close, _, _ = RESPONSES[int(request.target[5:])]
            dirty[connection.number] = request.target
            connection.send(text)
            if close:
                connection.close()

        a = self.scripted(handler)
        balancer = self.balancer(a, failure_limit=1000, backend_timeout="1s")
        for index, (name, method, _, _, expected, reusable) in enumerate(RESPONSES):
            with self.subTest(name):
                with balancer.client() as client, balancer.client() as other:
                    self.assertEqual(other.request(f"GET /before{index} HTTP/1.1|Host: a||").body, f"/before{index}".encode())
                    client.send(f"{method} /bad/{index} HTTP/1.1|Host: a||")
                    response = client.read_response(method)
                    got = (response.status, response.body, response.complete)
                    if expected is not None:
                        status, body, complete = expected
                        self.assertEqual(got, (status, got[1] if body is None else body, complete))
                    self.assertNotIn(b"evil", response.body + client.buffer)
                    self.assertLessEqual({name for name, _ in response.trailers}, {"set-cookie"})
                    self.assertEqual(other.request(f"GET /other{index} HTTP/1.1|Host: a||").body, f"/other{index}".encode())
                    if response.complete and response.header("connection") != "close":
                        self.assertEqual(client.request(f"GET /again{index} HTTP/1.1|Host: a||").body,
                                         f"/again{index}".encode())
                if not reusable:
                    self.assertNotIn(f"/bad/{index}", reused)
                self.assertEqual(sum(request.target == f"/bad/{index}" for request in a.requests), 1, "sent twice")

    def test_an_idle_connection_that_speaks(self):
        """What comes on it belongs to no request: it is closed, and no later client sees it."""
        def handler(connection, request):
            connection.reply(200, request.target.encode())
            if request.target == "/first":
                pause(0.02)
                connection.send(EVIL)

        a = self.scripted(handler)
        balancer = self.balancer(a, workers=1)  # all idle connections are in one pool
        for index in range(10):
            with balancer.client() as client:
                self.assertEqual(client.request("GET /first HTTP/1.1|Host: a||").body, b"/first")
                wait_until(lambda: balancer.metrics()["connections"]["upstream"]["idle"] == 0, 3, "it to be closed")
                for method in ("GET", "POST"):
                    client.send(f"{method} /{index} HTTP/1.1|Host: a|Content-Length: 0||")
                    self.assertEqual(client.read_response().body, f"/{index}".encode())

    def test_no_byte_goes_to_the_wrong_client(self):
        """Backends break off at random places of their answers while many clients ask: each client sees a prefix of its own."""
        chance = random.Random(3)

        def handler(connection, request):
            body = request.target.encode() * 400
            text = wire(f"HTTP/1.1 200 OK|Content-Length: {len(body)}||") + body
            if chance.random() < 0.5:
                text = wire("HTTP/1.1 200 OK|Transfer-Encoding: chunked||") + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
            cut = chance.random()
            if cut < 0.3:
                connection.send(text[: chance.randrange(len(text))])
                connection.close() if cut < 0.15 else connection.reset()
            elif cut < 0.4:
                connection.send(text + wire(EVIL))
            else:
                connection.send(text)

        balancer = self.balancer(self.scripted(handler), self.scripted(handler), workers=2, failure_limit=1000)
        seen = {"whole": 0, "part": 0}
        lock = threading.Lock()

        def client(number):
            def work():
                for index in range(20):
                    target = f"/{number}.{index}"
                    with balancer.client() as connection:
                        try:
                            response = connection.request(f"GET {target} HTTP/1.1|Host: a||")
                        except Incomplete:
                            continue
                        if response.status == 502:
                            continue
                        whole = target.encode() * 400
                        self.assertTrue(whole.startswith(response.body), target)
                        if response.complete:
                            self.assertEqual(response.body, whole)
                        with lock:
                            seen["whole" if response.complete else "part"] += 1
            return work

        self.together(*[client(number) for number in range(16)])
        self.assertGreater(min(seen.values()), 20)

    def test_a_break_behind_a_pipelined_request(self):
        """The request behind a broken answer is never answered on that connection: its answer could be taken for the rest."""
        def handler(connection, request):
            if request.target == "/cut":
                connection.send("HTTP/1.1 200 OK|Content-Length: 10||123")
                connection.close()
            else:
                connection.reply(200, b"4567890")

        a = self.scripted(handler)
        balancer = self.balancer(a, failure_limit=1000)
        with balancer.client() as client:
            client.send(wire("GET /cut HTTP/1.1|Host: a||") + G)
            response = client.read_response()
            self.assertEqual((response.body, response.complete), (b"123", False))
        self.assertEqual(a.deliveries(), 1)


if __name__ == "__main__":
    main()
