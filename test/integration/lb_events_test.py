"""/lb/events (L21): one snapshot a second, on the public listener, by TLS and on the admin listener; bounds and ends."""

import json
import signal

from lb_case import main
from ports import free_port
from raw import RawClient
from tls_case import TlsCase
from waiting import wait_until

EVENTS = "GET /lb/events HTTP/1.1|Host: localhost||"
READERS = 32


class Reader:
    """One reader of events over any client of the tests."""

    def __init__(self, client, request=EVENTS):
        self.client = client
        client.send(request)
        self.head = client.read_head()

    def next(self):
        """The next snapshot with its id."""
        while True:
            while b"\n\n" not in self.client.buffer:
                if not self.client.fill():
                    return None
            event, self.client.buffer = self.client.buffer.split(b"\n\n", 1)
            fields = dict(line.split(": ", 1) for line in event.decode().split("\n"))
            if "data" in fields:
                return int(fields["id"]), json.loads(fields["data"])
            assert fields == {"retry": "1000"}, fields


class Events(TlsCase):
    def reader(self, port, **options):
        client = RawClient(port, **options)
        self.addCleanup(client.close)
        return Reader(client)

    def refusal(self, client):
        """Head and body of an answer with a length: not a stream, which would not end."""
        client.send(EVENTS)
        head = client.read_head()
        return head, client.read_exactly(int(head.header("content-length")))

    def figures(self, balancer):
        return balancer.metrics()["events"]

    def test_snapshots(self):
        """The same on every listener; a reader is no request to a backend."""
        backend = self.scripted(name="a")
        balancer = self.tls_balancer(backend, admin_port=free_port(), workers=2)
        readers = [self.reader(balancer.port), Reader(self.client()), self.reader(balancer.admin_port)]
        for reader in readers:
            self.addCleanup(reader.client.close)
            self.assertEqual((reader.head.status, reader.head.version), (200, "HTTP/1.1"))
            self.assertEqual(reader.head.header("content-type"), "text/event-stream")
            self.assertEqual(reader.head.header("cache-control"), "no-store")
            self.assertEqual(reader.head.header("connection"), "close")
            one, snapshot = reader.next()
            self.assertEqual((snapshot["status"], snapshot["backends"][0]["id"]), ("ok", "a"))
            for key in ("throughput_rps", "latency_ms", "requests", "memory_guard", "sys1", "ejections", "threshold"):
                self.assertIn(key, snapshot)
            self.assertIn("score_parts", snapshot["backends"][0])
            self.assertNotIn("config", snapshot)
            self.assertGreater(reader.next()[0], one)
        metrics = balancer.metrics()
        self.assertEqual(metrics["events"]["readers"], 3)
        self.assertGreaterEqual(metrics["events"]["sent"], 6)
        self.assertEqual((metrics["requests"]["in_progress"], metrics["backends"][0]["in_flight"]), (0, 0))
        readers[0].client.shutdown_write()  # a FIN is enough to be gone
        readers[1].client.close()
        readers[2].client.reset()
        wait_until(lambda: self.figures(balancer)["readers"] == 0, 10, "all to be gone")
        self.assertEqual(readers[0].client.read_to_end().count(b"HTTP/1.1"), 0)

        with RawClient(balancer.port) as client:
            client.send("GET /lb/events HTTP/1.0||")
            old = Reader(client, "")
            self.assertEqual(old.head.status, 200)
            self.assertIsNotNone(old.next())
        for port in (balancer.port, balancer.admin_port):
            with RawClient(port) as client:
                head = client.request("HEAD /lb/events HTTP/1.1|Host: localhost||", "HEAD")
                self.assertEqual((head.status, head.header("content-type")), (200, "text/event-stream"))
                self.assertEqual(client.read_to_end(), b"")
            with RawClient(port) as client:
                response = client.request("POST /lb/events HTTP/1.1|Host: localhost|Content-Length: 0||")
                self.assertEqual((response.status, response.header("allow")), (405, "GET, HEAD"))
            with RawClient(port) as client:
                body = "" if port == balancer.port else "xx"  # the admin listener reads it first
                client.send("GET /lb/events HTTP/1.1|Host: localhost|Content-Length: 2||" + body)
                self.assertEqual(client.read_response().status, 400)
        wait_until(lambda: self.figures(balancer)["readers"] == 0, 10, "all to be gone")

    def test_the_33rd_is_refused(self):
        """The places are those of the process, whatever the listener."""
        balancer = self.balancer(self.scripted(name="a"), admin_port=free_port(), workers=2)
        readers = [self.reader(port) for port in [balancer.port, balancer.admin_port] * (READERS // 2)]
        for port in (balancer.port, balancer.admin_port):
            with RawClient(port) as client:
                head, body = self.refusal(client)
                self.assertEqual((head.status, head.header("retry-after")), (503, "5"))
                self.assertIn(b'"too_many_readers"', body)
                self.assertEqual(client.request("GET /lb/health HTTP/1.1|Host: localhost||").status, 200)
        figures = self.figures(balancer)
        self.assertEqual((figures["readers"], figures["refused"]), (READERS, 2))
        readers.pop().client.close()
        wait_until(lambda: self.figures(balancer)["readers"] == READERS - 1, 10, "a place")
        last = self.reader(balancer.port)
        self.assertEqual(last.head.status, 200)
        self.assertIsNotNone(last.next())
        for reader in (*readers, last):
            reader.client.close()

    def test_a_reader_that_does_not_read(self):
        """Is left out, not queued for, and cut in the end; others get theirs meanwhile."""
        many = "".join(f'\n[[backend]]\nid = "down{number}"\nurl = "http://127.0.0.1:9"\n' for number in range(60))
        balancer = self.balancer(self.scripted(name="a"), extra=many, client_write_timeout="3s", health_interval="1s")
        stuck, good = self.reader(balancer.port, receive_buffer=4096), self.reader(balancer.port)
        ids = [good.next()[0] for _ in range(3)]
        self.assertEqual(ids, sorted(set(ids)))
        wait_until(lambda: self.figures(balancer)["skipped"] >= 1, 10, "a snapshot to be left out")
        wait_until(lambda: self.figures(balancer)["cut"] == 1, 20, "the stuck one to be cut")
        self.assertEqual(self.figures(balancer)["readers"], 1)
        self.assertIsNotNone(good.next())
        self.assertTrue(stuck.client.closed_within(5))
        good.client.close()

    def test_a_drain_ends_them(self):
        balancer = self.balancer(self.scripted(name="a"), admin_port=free_port(), drain_timeout="60s")
        readers = [self.reader(balancer.port) for _ in range(3)]
        for reader in readers:
            self.assertIsNotNone(reader.next())
        balancer.signal(signal.SIGTERM)
        self.assertEqual(balancer.wait(20), 0)
        for reader in readers:
            seen = None
            while (event := reader.next()) is not None:
                seen = event[1]
            self.assertTrue(seen["draining"], "a last word")
            self.assertFalse(reader.client.was_reset)

    def test_a_body_is_refused_wherever_it_is(self):
        balancer = self.balancer(self.scripted(name="a"))
        for body in ("Content-Length: 3||abc", "Transfer-Encoding: chunked||0||"):
            with balancer.client() as client:
                self.assertEqual(client.request(f"GET /lb/events HTTP/1.1|Host: a|{body}").status, 400, body)
        self.assertEqual(balancer.metrics()["events"]["readers"], 0)

    def test_not_in_public(self):
        """public-status = false: nothing is there; who reads when a reload says so is closed."""
        balancer = self.balancer(self.scripted(name="a"), admin_port=free_port())
        reader = self.reader(balancer.port)
        self.assertIsNotNone(reader.next())
        balancer.configure(balancer.backends, public_status=False)
        balancer.signal(signal.SIGHUP)
        while reader.next() is not None:
            continue
        with RawClient(balancer.port) as client:
            self.assertEqual(self.refusal(client)[0].status, 404)
        private = self.reader(balancer.admin_port)
        self.assertEqual(private.next()[1]["generation"], 2)
        private.client.close()
        balancer.configure(balancer.backends)
        self.assertEqual(balancer.admin("/lb/reload").status, 200)


if __name__ == "__main__":
    main()
