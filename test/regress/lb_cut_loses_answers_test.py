"""Symptoms: when a backend broke off in the middle of its response, the balancer closed the client's connection with
pipelined requests unread; the kernel made a RST of that, and complete answers that were still on their way were lost. A
response that ends with the connection (to an HTTP/1.0 client) looked complete when the balancer itself had to cut it."""

import signal

from case import Case, main
from raw import G, RawClient, wire
from waiting import wait_until

SIZE = 50_000  # more than the client's window, less than the balancer leaves unsent in its socket
PIPELINED = b"".join(wire(f"GET /more{index} HTTP/1.1|Host: a||") for index in range(2000))


class Cut(Case):
    def check(self, broken, body):
        def handler(connection, request):
            if request.target == "/whole":
                connection.reply(200, b"w" * SIZE)
            else:
                connection.send(broken)
                connection.close()

        a = self.scripted(handler)
        balancer = self.balancer(a, failure_limit=1000)
        client = RawClient(balancer.port, receive_buffer=8192)
        self.addCleanup(client.close)
        client.send(wire("GET /whole HTTP/1.1|Host: a||GET /broken HTTP/1.1|Host: a||") + PIPELINED)
        wait_until(lambda: balancer.metrics()["backend_errors"]["reset"] == 1, 5, "the break")
        whole = client.read_response()
        self.assertTrue(whole.complete)
        self.assertEqual(whole.body, b"w" * SIZE)
        part = client.read_response()
        self.assertEqual((part.status, part.body, part.complete), (200, body, False))
        self.assertFalse(client.was_reset)
        client.close()
        balancer.wait_quiet()
        self.assertEqual([request.target for request in a.requests], ["/whole", "/broken"])

    def test_answers_before_a_cut_one_arrive(self):
        self.check(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello", b"hello")

    def test_answers_before_a_cut_chunked_one_arrive(self):
        self.check(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", b"hello")

    def test_a_late_request_does_not_destroy_the_last_answer(self):
        """The request comes after the balancer has ended the connection, while its answer is still on the way."""
        def handler(connection, request):
            connection.body(request)
            connection.reply(200, b"w" * SIZE)

        a = self.scripted(handler)
        balancer = self.balancer(a, drain_notice="1s", drain_timeout="5s")
        client = RawClient(balancer.port, receive_buffer=8192)
        self.addCleanup(client.close)
        balancer.signal(signal.SIGTERM)
        wait_until(lambda: balancer.fetch("/lb/health").status == 503, 5, "the drain")
        client.send(G)
        wait_until(lambda: balancer.metrics()["requests"]["in_progress"] == 0 and a.requests, 5, "the answer")
        client.send(G)
        whole = client.read_response()
        self.assertEqual(whole.header("connection"), "close")
        self.assertTrue(whole.complete)

    def test_a_close_delimited_answer_cut_by_the_end_of_the_drain_is_reset(self):
        def handler(connection, request):
            connection.send("HTTP/1.1 200 OK|Transfer-Encoding: chunked||5|hello|")
            connection.server.stopped.wait(20)

        balancer = self.balancer(self.scripted(handler), drain_notice="10ms", drain_timeout="100ms")
        with balancer.client() as client:
            client.send("GET / HTTP/1.0|Host: a||")
            head = client.read_head()
            self.assertEqual(head.all("content-length") + head.all("transfer-encoding"), [])
            self.assertEqual(client.read_exactly(5), b"hello")
            balancer.signal(signal.SIGTERM)
            self.assertEqual(client.read_to_end(), b"")
            self.assertTrue(client.was_reset, "a clean end would look complete")


if __name__ == "__main__":
    main()
