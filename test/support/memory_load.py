"""Loads that try the balancer's memory, as test cases whose numbers a subclass sets: many clients beside large feeds
in a cgroup, and many slow ones. test/integration runs them in short, test/soak in full; REPORT prints the figures."""

import re
import socket
import threading
import time

import lb_case
from memory_cgroup import MIB, Ballast, FixtureCgroup, MemoryCgroup
from programs import SANITIZED
from raw import G, Incomplete, wire
from waiting import TIME_FACTOR, pause, wait_until

FEED_BYTES = 16 * MIB


def send_large(connection, request):
    """16 MiB, by length, or in chunks when the query asks for them."""
    chunked = request.target.endswith("?chunked")
    framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {FEED_BYTES}"
    connection.send(f"HTTP/1.1 200 OK|{framing}||")
    piece = b"100000\r\n" + b"f" * MIB + b"\r\n" if chunked else b"f" * MIB
    for _ in range(FEED_BYTES // MIB):
        connection.send(piece)
    if chunked:
        connection.send("0||")


def serve(connection, request):
    if request.path in ("/feed", "/large"):
        send_large(connection, request)
    else:
        connection.reply()


class Watcher:
    """Asks for /lb/ pages until it is told to end; keeps what went wrong and how long the slowest took."""

    def __init__(self, balancer):
        self.balancer, self.failures, self.asked, self.worst = balancer, [], 0, 0.0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.ended.is_set():
            page = ("/lb/health", "/lb/status", "/lb/metrics")[self.asked % 3]
            started = time.monotonic()
            try:
                status = self.balancer.fetch(page, timeout=5).status
                if status != 200:
                    self.failures.append(f"{page}: {status}")
            except (OSError, Incomplete) as error:
                self.failures.append(f"{page}: {error!r}")
            self.asked += 1
            self.worst = max(self.worst, time.monotonic() - started)
            pause(0.02)

    def end(self):
        self.ended.set()
        self.thread.join(20 * TIME_FACTOR)


class ClientsAndFeeds(lb_case.LbCase):
    """CLIENTS that connect, ask once and stay, beside FEEDS bodies of 16 MiB that nobody reads at first, in a cgroup of
    64 MiB that another process then fills until the guard is on. No OOM kill; /lb/* answers throughout; what was under
    way is delivered whole; all recovers. Where no cgroup can be made, fixture files stand in for the filling."""

    CLIENTS, FEEDS, REPORT = 400, 16, False
    LIMIT = (256 if SANITIZED else 64) * MIB

    def setUp(self):
        self.cgroup = MemoryCgroup.make(self.LIMIT)
        if self.cgroup:
            self.addCleanup(self.cgroup.remove)  # after the balancer has ended
        super().setUp()

    def guard(self, balancer):
        return balancer.metrics()["memory_guard"]

    def wait_guard(self, balancer, on):
        wait_until(lambda: self.guard(balancer)["on"] == int(on), 10, f"the guard to be {'on' if on else 'off'}")

    def fill_memory(self, balancer):
        """Turns the guard on; returns what turns it off."""
        if not self.cgroup:
            self.fixture.set_anon(85 * MIB)
            self.wait_guard(balancer, True)
            return lambda: self.fixture.set_anon(10 * MIB)

        ballast, held, steady = Ballast(self.cgroup), 0, 0
        self.addCleanup(ballast.process.stdout.close)
        self.addCleanup(ballast.process.kill)  # if the test fails meanwhile
        while steady < 4:  # what the workers give back when it begins may end it at once
            pause(0.15)  # a sample after each step: quickly up to near the limit, then by single MiB
            guard = self.guard(balancer)
            below = int((76 - guard["unreclaimable_percent"]) * self.LIMIT / 100 / MIB)
            steady = steady + 1 if guard["on"] and guard["unreclaimable_percent"] >= 77 else 0
            if steady == 0:
                held += max(1, below)
                self.assertLess(held, self.LIMIT // MIB, "the guard does not stay on")
                self.assertTrue(ballast.hold(held))
        return ballast.close

    def check_hysteresis(self, balancer):
        """What the log says of each change: on at 80 % or more, off under 75 %, in turn. Returns it as text."""
        turns = re.findall(r'memory guard (on|off).*unreclaimable_percent=([\d.]+)', balancer.log())
        self.assertEqual([word for word, _ in turns], ["on", "off"] * (len(turns) // 2))
        right = [float(figure) >= 80 if word == "on" else float(figure) < 75 for word, figure in turns]
        self.assertTrue(turns and all(right), turns)
        return ", ".join(f"{word} at {float(figure):.1f} %" for word, figure in turns)

    def connect_clients(self, balancer):
        """All connect, then all ask; returns the open sockets and how often each status came."""
        clients, statuses = [], {}
        for _ in range(self.CLIENTS):
            clients.append(socket.create_connection(("127.0.0.1", balancer.port)))
        for client in clients:
            client.sendall(G)
        for client in clients:
            client.settimeout(20 * TIME_FACTOR)
            try:
                word = client.recv(65536)[9:12].decode() or "closed"
            except ConnectionError:
                word = "closed"
            statuses[word] = statuses.get(word, 0) + 1
        return clients, statuses

    def test_clients_and_feeds_in_64_mib(self):
        options = dict(proxy_max_feed_conns_per_host=self.FEEDS, proxy_max_conns_per_host=200, client_idle_timeout="120s",
                       client_write_timeout="120s", backend_queue_max=self.CLIENTS, backend_queue_timeout="60s",
                       monitor_timeout="10s")  # the scripted backend is slow
        if not self.cgroup:
            self.fixture = FixtureCgroup(self.folder + "/cgroup")
            options["cgroup_root"] = self.fixture.folder
        balancer = self.balancer(self.scripted(serve), start=False, **options)
        balancer.start(within=self.cgroup.procs if self.cgroup else "")
        self.note_files(balancer)
        watcher = Watcher(balancer)
        self.addCleanup(watcher.end)

        feeds = [balancer.client(timeout=120) for _ in range(self.FEEDS)]
        for number, client in enumerate(feeds):
            client.send(f"GET /feed{'?chunked' if number % 2 else ''} HTTP/1.1|Host: a||")
        wait_until(lambda: balancer.metrics()["connections"]["upstream"]["feed_busy"] == self.FEEDS, 20, "all feeds")
        clients, statuses = self.connect_clients(balancer)
        self.assertEqual(statuses, {"200": self.CLIENTS})
        loaded = balancer.rss()

        release = self.fill_memory(balancer)
        with balancer.client() as client:
            response = client.request(G)
            self.assertEqual((response.status, response.header("connection")), (503, "close"))
        for client in clients:
            self.assertEqual(client.recv(1), b"", "an idle client is closed while the guard sheds")
            client.close()
        for client in feeds:
            response = client.read_response(sink=lambda data: None)
            self.assertEqual((response.status, response.complete, response.body_size), (200, True, FEED_BYTES))
            client.close()
        release()
        self.wait_guard(balancer, False)
        self.assertEqual(balancer.fetch("/").status, 200)
        watcher.end()
        self.assertEqual(watcher.failures, [])
        self.check_hysteresis(balancer)
        if self.cgroup:
            self.assertEqual(self.cgroup.oom_kills(), 0)
        if self.REPORT:
            where = "fixture"
            if self.cgroup:
                where = f"cgroup v{1 if self.cgroup.v1 else 2}, peak {self.cgroup.peak() // MIB} MiB"
            print(f"{self.CLIENTS} clients {statuses}, {self.FEEDS} feeds of 16 MiB; {where}; "
                  f"RSS {loaded // MIB} MiB loaded, {balancer.rss() // MIB} MiB after; guard {self.check_hysteresis(balancer)}; "
                  f"/lb/*: {watcher.asked} answers, slowest {watcher.worst * 1e3:.0f} ms")


class SlowOnes(lb_case.LbCase):
    """READERS of 16 MiB that stop reading, and LORIS clients whose heads come byte by byte (BYTES of them): they hold two
    blocks a connection at most, cost nothing while they stall, and others wait no longer."""

    READERS, LORIS, BYTES, REQUESTS, REPORT = 20, 60, 3, 200, False
    BLOCK = 17 * 1024

    def p99(self, balancer):
        took = []
        with balancer.client() as client:
            for _ in range(self.REQUESTS):
                started = time.monotonic()
                self.assertEqual(client.request(G).status, 200)
                took.append(time.monotonic() - started)
        return sorted(took)[self.REQUESTS * 99 // 100 - 1]

    def busy_in(self, balancer, seconds):
        used, started = balancer.cpu_seconds(), time.monotonic()
        while time.monotonic() - started < seconds:
            pause(0.05)
        return balancer.cpu_seconds() - used

    def drip(self, balancer, loris):
        """A byte a second from each, BYTES times; returns the CPU seconds that took of each second."""
        head = wire("GET / HTTP/1.1|Host: a|X-Slow: " + "s" * self.BYTES)
        used, started = balancer.cpu_seconds(), time.monotonic()
        for number in range(self.BYTES):
            for client in loris:
                client.sendall(head[number : number + 1])
            while time.monotonic() - started < number + 1:
                pause(0.05)
        return (balancer.cpu_seconds() - used) / self.BYTES

    def test_slow_readers_and_slow_heads_hold_little_and_cost_nothing(self):
        balancer = self.balancer(self.scripted(serve), client_header_timeout="120s", client_write_timeout="120s",
                                 proxy_max_conns_per_host=self.READERS + 20, socket_read_buffer_bytes="16KiB",
                                 socket_write_buffer_bytes="16KiB", client_min_rate=0, monitor_timeout="10s")
        quiet, before = self.p99(balancer), balancer.rss()
        readers = [balancer.client(receive_buffer=4096, timeout=60) for _ in range(self.READERS)]
        for client in readers:
            client.send("GET /large HTTP/1.1|Host: a||")
        loris = [socket.create_connection(("127.0.0.1", balancer.port)) for _ in range(self.LORIS)]
        dripping = self.drip(balancer, loris)
        wait_until(lambda: balancer.in_flight() >= self.READERS, 20)
        wait_until(lambda: self.busy_in(balancer, 0.5) <= 0.05, 20, "CPU near zero while all stall")
        stalled = self.busy_in(balancer, 1)
        grown, loaded = balancer.rss() - before, self.p99(balancer)
        connections = balancer.metrics()["connections"]["client"]
        self.assertEqual(connections["reading"], self.LORIS)
        if self.REPORT:
            print(f"{self.READERS} slow readers, {self.LORIS} slow heads: RSS grew by {grown // 1024} KiB, bound "
                  f"{(self.READERS + self.LORIS) * 2 * self.BLOCK // 1024} KiB; CPU {stalled * 100:.0f} % stalled, "
                  f"{dripping * 100:.0f} % at a byte a second each; p99 of others {quiet * 1e3:.2f} ms before, "
                  f"{loaded * 1e3:.2f} ms beside them")
        if not SANITIZED:
            self.assertLess(grown, (self.READERS + self.LORIS) * 2 * self.BLOCK)
            self.assertLess(loaded, 3 * quiet + 0.05, "others wait")
        for client in readers + loris:
            client.close()
        balancer.wait_quiet(10)
