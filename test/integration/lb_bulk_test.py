"""Big bodies pass byte-exact while the balancer's memory stays flat; many idle clients cost little."""

import hashlib

from case import Case, main
from programs import SANITIZED
from raw import RawClient, wire
from waiting import wait_until

MIB = 1 << 20


def block(seed):
    return hashlib.sha256(str(seed).encode()).digest() * 2048  # 64 KiB


class Bulk(Case):
    def setUp(self):
        super().setUp()
        self.blocks = [block(seed) for seed in range(16)]

    def handler(self, connection, request):
        if request.method in ("POST", "PUT"):
            digest = hashlib.sha256()
            length = request.header("content-length")
            if length is None:
                digest.update(connection.body(request))
            else:
                left = int(length)
                while left:
                    data = connection.exactly(min(left, 65536))
                    digest.update(data)
                    left -= len(data)
            connection.reply(200, digest.hexdigest().encode())
            return
        _, kind, size = request.target.split("/")
        size = int(size)
        if kind == "chunked":
            connection.send("HTTP/1.1 200 OK|Transfer-Encoding: chunked||")
            for index in range(size // 65536):
                connection.send(b"10000\r\n" + self.blocks[index % 16] + b"\r\n")
            connection.send("0||")
        else:
            connection.send(f"HTTP/1.1 200 OK|Content-Length: {size}||")
            for index in range(size // 65536):
                connection.send(self.blocks[index % 16])

    def expected(self, size):
        digest = hashlib.sha256()
        for index in range(size // 65536):
            digest.update(self.blocks[index % 16])
        return digest.hexdigest()

    def download(self, balancer, kind, size):
        digest = hashlib.sha256()
        with balancer.client(timeout=60) as client:
            client.send(f"GET /{kind}/{size} HTTP/1.1|Host: a||")
            response = client.read_response(sink=digest.update)
        self.assertTrue(response.complete)
        self.assertEqual((response.body_size, digest.hexdigest()), (size, self.expected(size)))

    def test_downloads(self):
        balancer = self.balancer(self.scripted(self.handler))
        self.download(balancer, "length", MIB)
        before = balancer.rss()
        for kind in ("length", "chunked"):
            self.download(balancer, kind, MIB)
            self.download(balancer, kind, 100 * MIB)
        grown = balancer.rss() - before
        if not SANITIZED:
            self.assertLess(grown, 2 * MIB)

    def test_many_sizes_around_the_buffers(self):
        def handler(connection, request):
            size = int(request.target[1:])
            connection.reply(200, (b"%d|" % size * (size // 2 + 1))[:size])

        balancer = self.balancer(self.scripted(handler))
        with balancer.client(timeout=30) as client:
            for edge in (17408, 32768, 49152, 65536, 262144, 3 * 262144):
                for size in (edge - 1, edge, edge + 1, edge + 4097):
                    client.send(f"GET /{size} HTTP/1.1|Host: a||")
                    self.assertEqual(client.read_response().body, (b"%d|" % size * (size // 2 + 1))[:size])

    def test_a_large_body_that_breaks_off_leaves_nothing_for_the_next_client(self):
        def handler(connection, request):
            kind = request.target[1:]
            if kind == "whole":
                return connection.reply(200, b"w" * MIB)
            connection.send(f"HTTP/1.1 200 OK|Content-Length: {MIB}||")
            connection.send(b"b" * (MIB // 2))
            connection.reset() if kind == "reset" else connection.close()

        balancer = self.balancer(self.scripted(handler))
        balancer.fetch("/whole")
        descriptors = balancer.open_files()
        for kind in ("closed", "reset", "left") * 5:
            with balancer.client(timeout=30) as client:
                if kind == "left":  # the client goes in the middle of a body that it has not taken
                    client.send("GET /whole HTTP/1.1|Host: a||")
                    client.read_exactly(100_000)
                    client.reset()
                else:
                    client.send(f"GET /{kind} HTTP/1.1|Host: a||")
                    response = client.read_response()
                    self.assertFalse(response.complete)
                    self.assertEqual(response.body.strip(b"b"), b"")
            self.assertEqual(balancer.fetch("/whole").body, b"w" * MIB)
        balancer.wait_quiet()
        # Up to 16 pipes stay for the next bodies.
        wait_until(lambda: balancer.open_files() <= descriptors + 32)

    def test_uploads(self):
        balancer = self.balancer(self.scripted(self.handler))
        balancer.fetch("/length/65536")
        before = balancer.rss()
        size = 5 * MIB
        with balancer.client(timeout=60) as client:
            for _ in range(3):
                client.send(f"POST /u HTTP/1.1|Host: a|Content-Length: {size}||")
                for index in range(size // 65536):
                    client.send(self.blocks[index % 16])
                self.assertEqual(client.read_response().body.decode(), self.expected(size))
            client.send("POST /u HTTP/1.1|Host: a|Transfer-Encoding: chunked||")
            for index in range(size // 65536):
                client.send(b"10000\r\n" + self.blocks[index % 16] + b"\r\n")
            client.send("0||")
            self.assertEqual(client.read_response().body.decode(), self.expected(size))
        if not SANITIZED:
            self.assertLess(balancer.rss() - before, 2 * MIB)

    def test_a_slow_reader_holds_little(self):
        """Back-pressure is by not reading: 20 stalled downloads of 100 MiB."""
        a = self.scripted(self.handler)
        balancer = self.balancer(a)
        balancer.fetch("/length/65536")
        before = balancer.rss()
        readers = []
        for _ in range(20):
            reader = RawClient(balancer.port, receive_buffer=8192)
            self.addCleanup(reader.close)
            reader.send("GET /length/104857600 HTTP/1.1|Host: a||")
            reader.read_head()
            readers.append(reader)
        self.assertEqual(balancer.fetch("/length/65536").status, 200)
        if not SANITIZED:
            self.assertLess(balancer.rss() - before, 20 * 100 * 1024 + 2 * MIB)
        for reader in readers:
            reader.reset()
        balancer.wait_quiet()
        wait_until(lambda: a.active == 0, 5, "the downloads to end")
        a.errors.clear()

    def test_both_directions_at_once(self):
        balancer = self.balancer(self.scripted(self.handler), self.scripted(self.handler))

        def up():
            with balancer.client(timeout=60) as client:
                client.send(f"POST /u HTTP/1.1|Host: a|Content-Length: {5 * MIB}||")
                for index in range(80):
                    client.send(self.blocks[index % 16])
                self.assertEqual(client.read_response().body.decode(), self.expected(5 * MIB))

        self.together(*[up] * 4, *[lambda: self.download(balancer, "length", 5 * MIB)] * 2,
                      *[lambda: self.download(balancer, "chunked", 5 * MIB)] * 2)

    def test_idle_clients_hold_little_memory(self):
        count = 1000
        balancer = self.balancer(self.scripted(self.handler), client_idle_timeout="1m", client_max_connections=0)
        with balancer.client() as warm:
            warm.request("GET /length/65536 HTTP/1.1|Host: a||")
        before = balancer.rss()
        clients = []
        for _ in range(count):
            client = RawClient(balancer.port)
            clients.append(client)
            client.send("GET /length/0 HTTP/1.1|Host: a||")
            client.read_response()
        grown = balancer.rss() - before
        for client in clients:
            client.close()
        print(f"{grown / count:.0f} bytes of resident memory an idle client")
        if not SANITIZED:
            self.assertLess(grown / count, 2048)
        with balancer.client() as client:
            client.send(wire("GET /length/0 HTTP/1.1|Host: a||"))
            self.assertEqual(client.read_response().status, 200)


if __name__ == "__main__":
    main()
