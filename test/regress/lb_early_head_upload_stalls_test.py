"""Symptom: an upload hangs for good when the backend sends its response head first and reads the body afterwards: once the
balancer's socket to the backend was full, nothing made it write again."""

import hashlib
import os

from case import Case, main
from raw import wire
from waiting import wait_until

SIZE = 32_000_000  # more than the sockets on the way hold


class EarlyHead(Case):
    def setUp(self):
        super().setUp()
        self.sent = 0

    def handler(self, connection, request):
        connection.send("HTTP/1.1 200 OK|Transfer-Encoding: chunked||")
        self.wait_for_standstill()
        connection.send("20|" + hashlib.md5(connection.body(request)).hexdigest() + "|0||")

    def wait_for_standstill(self):
        """Until the buffers on the whole way are full."""
        before = -1

        def still():
            nonlocal before
            same = self.sent == before and self.sent > 0
            before = self.sent
            return same

        wait_until(still, 10, "the upload to stand still", interval=0.2)

    def upload(self, client, data):
        for start in range(0, len(data), 65536):
            client.send(data[start : start + 65536])
            self.sent += 65536

    def check(self, head, encode, **options):
        balancer = self.balancer(self.scripted(self.handler), max_body_bytes=SIZE, **options)
        body = os.urandom(SIZE)
        with balancer.client(timeout=8.0) as client:
            client.send(wire(head))
            _, response = self.together(lambda: self.upload(client, encode(body)), client.read_response)
        self.assertTrue(response.complete)
        self.assertEqual(response.body, hashlib.md5(body).hexdigest().encode())
        balancer.wait_quiet()

    def test_by_length(self):
        self.check(f"POST /u HTTP/1.1|Host: a|Content-Length: {SIZE}||", lambda body: body)

    def test_in_chunks_through_small_buffers(self):
        self.check("POST /u HTTP/1.1|Host: a|Transfer-Encoding: chunked||",
                   lambda body: f"{SIZE:x}\r\n".encode() + body + b"\r\n0\r\n\r\n",
                   socket_read_buffer_bytes=16384, socket_write_buffer_bytes=16384)


if __name__ == "__main__":
    main()
