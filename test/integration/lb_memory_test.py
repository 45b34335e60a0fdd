"""The balancer inside its memory (L16, L18): the guard by fixture files, and in a real memory cgroup of 64 MiB. `make soak`
(DLB_SOAK=1) runs the large numbers."""

import os
import socket
import threading
import time

from case import Case, main
from programs import SANITIZED, program
from ports import free_port
from raw import G, RawClient, wire
from waiting import pause, wait_until

MIB = 1 << 20
SOAK = os.environ.get("DLB_SOAK") == "1"
CLIENTS, FEEDS, SLOW, LORIS = (2500, 64, 200, 1000) if SOAK else (400, 16, 20, 60)


class FixtureCgroup:
    """Files of a v2 memory cgroup that say what a test wants. Written in place: the balancer keeps them open."""

    def __init__(self, folder, limit=100 * MIB):
        self.folder = folder
        os.mkdir(folder)
        self._write("memory.max", f"{limit}\n")
        self._write("memory.current", f"{limit // 2}\n")
        self.set_anon(10 * MIB)

    def _write(self, name, text):
        descriptor = os.open(os.path.join(self.folder, name), os.O_WRONLY | os.O_CREAT, 0o644)
        os.pwrite(descriptor, text.encode(), 0)
        os.close(descriptor)

    def set_anon(self, anon, sock=0):
        self._write("memory.stat", f"anon {anon:012d}\nkernel 000000000000\nsock {sock:012d}\nshmem 000000000000\n")


class Guard(Case):
    def guarded(self, *backends, **options):
        self.cgroup = FixtureCgroup(os.path.join(self.folder, "cgroup"))
        return self.balancer(*backends, cgroup_root=self.cgroup.folder, **options)

    def wait_guard(self, balancer, on):
        wait_until(lambda: balancer.metrics()["memory_guard"]["on"] == int(on), 3, f"guard {on}")

    def test_it_sheds_at_the_limit_and_ends_5_points_below(self):
        backend = self.scripted()
        balancer = self.guarded(backend, client_idle_timeout="30s")
        idle = balancer.client()
        self.assertEqual(idle.request(G).status, 200)
        deliveries = backend.deliveries("GET")
        self.cgroup.set_anon(81 * MIB)
        self.wait_guard(balancer, True)
        self.assertTrue(idle.closed_within(2), "an idle client is closed")
        wait_until(lambda: balancer.metrics()["connections"]["upstream"]["idle"] == 0, 2)
        with balancer.client() as client:
            response = client.request(G)
            self.assertEqual((response.status, response.header("connection")), (503, "close"))
            self.assertEqual(response.header("retry-after"), "1")
            self.assertTrue(client.closed_within(2))
        self.assertEqual(backend.deliveries("GET"), deliveries)
        self.assertEqual(balancer.fetch("/lb/health").status, 200)
        self.assertEqual(balancer.status()["memory_guard"], "memory")
        self.assertGreaterEqual(balancer.metrics()["rejections"]["memory_guard"], 1)
        self.cgroup.set_anon(76 * MIB)
        seen = balancer.metrics()["memory_guard"]["unreclaimable_percent"]
        wait_until(lambda: balancer.metrics()["memory_guard"]["unreclaimable_percent"] < 77, 2)
        self.assertEqual(balancer.fetch("/").status, 503, f"still within the hysteresis ({seen})")
        self.cgroup.set_anon(74 * MIB)
        self.wait_guard(balancer, False)
        self.assertEqual(balancer.fetch("/").status, 200)
        self.assertEqual(balancer.metrics()["memory_guard"]["events"], 1)

    def test_layer_4_is_refused_while_it_sheds(self):
        backend = self.scripted()
        port = free_port()
        extra = f'[[tcp]]\nlisten = "127.0.0.1:{port}"\nbackends = {["127.0.0.1:%d" % backend.port]}\n'
        balancer = self.guarded(backend, extra=extra)
        wait_until(lambda: balancer.status()["tunnel_pools"][0]["backends"][0]["usable"], 5, "the check")
        self.cgroup.set_anon(81 * MIB)
        self.wait_guard(balancer, True)
        with RawClient(port) as client:
            client.send(G)
            self.assertEqual(client.read_to_end(), b"")
            self.assertFalse(client.was_reset)
        self.assertEqual(balancer.metrics()["tunnels"]["opened"]["tcp"], 0)
        self.cgroup.set_anon(70 * MIB)
        self.wait_guard(balancer, False)
        with RawClient(port) as client:
            self.assertEqual(client.request(G).status, 200)

    def test_socket_bytes_have_a_limit_of_their_own(self):
        balancer = self.guarded(self.scripted(), lb_max_socket_bytes="10MiB")
        self.cgroup.set_anon(10 * MIB, sock=6 * MIB)
        wait_until(lambda: balancer.metrics()["memory_guard"]["small_buffers"] == 1, 2)
        self.assertEqual(balancer.fetch("/").status, 200)
        self.cgroup.set_anon(10 * MIB, sock=10 * MIB)
        self.wait_guard(balancer, True)
        self.assertEqual(balancer.status()["memory_guard"], "sockets")
        self.assertEqual(balancer.fetch("/").status, 503)
        self.cgroup.set_anon(10 * MIB, sock=MIB)
        self.wait_guard(balancer, False)
        self.assertEqual(balancer.fetch("/").status, 200)

    def test_a_request_in_progress_goes_on_and_its_connection_ends(self):
        def handler(connection, request):
            if request.path == "/slow":
                self.waiting.set()
                self.assertTrue(self.go_on.wait(10))
            connection.reply()

        self.waiting, self.go_on = threading.Event(), threading.Event()
        balancer = self.guarded(self.scripted(handler))
        with balancer.client() as client:
            client.send("GET /slow HTTP/1.1|Host: a||")
            self.assertTrue(self.waiting.wait(5))
            self.cgroup.set_anon(90 * MIB)
            self.wait_guard(balancer, True)
            self.go_on.set()
            response = client.read_response()
            self.assertEqual((response.status, response.header("connection")), (200, "close"))


def own_memory_cgroup():
    """The folder of this process's memory cgroup when a child can be made in it, by v1 or v2; else None."""
    with open("/proc/self/cgroup", encoding="ascii") as file:
        rows = [line.strip().split(":", 2) for line in file]
    for _, controllers, path in rows:
        root = "/sys/fs/cgroup/memory" if "memory" in controllers.split(",") else "/sys/fs/cgroup" if not controllers else None
        if root is None:
            continue
        for folder in (root + path, root):
            child = os.path.join(folder, f"dlb-test-{os.getpid()}")
            try:
                os.mkdir(child)
            except OSError:
                continue
            for name in ("memory.limit_in_bytes", "memory.max"):
                if os.path.exists(os.path.join(child, name)):
                    return child, name
            os.rmdir(child)
    return None


class RealCgroup(Case):
    def handler(self, connection, request):
        if request.path == "/feed":
            connection.send(f"HTTP/1.1 200 OK|Content-Length: {16 * MIB}||")
            for _ in range(16):
                connection.send(b"f" * MIB)
        else:
            connection.reply()

    def test_clients_and_feeds_in_64_mib(self):
        """Many connecting clients and concurrent feeds of 16 MiB, read slowly at first: no OOM kill, /lb/* answers
        throughout, full recovery."""
        made = own_memory_cgroup()
        # Where no cgroup can be made the same load runs against the socket limit alone.
        balancer = self.balancer(self.scripted(self.handler), start=False, proxy_max_feed_conns_per_host=FEEDS,
                                 proxy_max_conns_per_host=200, lb_max_socket_bytes="24MiB", client_idle_timeout="30s")
        if made:
            folder, limit = made
            self.addCleanup(self.remove_cgroup, folder, balancer)
            with open(os.path.join(folder, limit), "w", encoding="ascii") as file:
                file.write(str((256 if SANITIZED else 64) * MIB))
            balancer.start(within=os.path.join(folder, "cgroup.procs"))
        else:
            balancer.start()
        files = balancer.open_files()
        feeds, clients, statuses = [], [], {}
        for _ in range(FEEDS):
            client = balancer.client(timeout=60)
            client.send("GET /feed HTTP/1.1|Host: a||")
            feeds.append(client)
        for _ in range(CLIENTS):
            clients.append(socket.create_connection(("127.0.0.1", balancer.port)))
            if len(clients) % 50 == 0:
                self.assertIn(balancer.fetch("/lb/health", timeout=5).status, (200, 503))
        for client in clients:
            client.sendall(G)
        for client in clients:
            client.settimeout(20)
            try:
                word = client.recv(65536)[9:12] or b"closed"
            except ConnectionError:
                word = b"closed"
            statuses[word] = statuses.get(word, 0) + 1
        self.assertTrue(set(statuses) <= {b"200", b"503", b"closed"}, statuses)
        self.assertEqual(balancer.fetch("/lb/status", timeout=5).status, 200)
        for client in clients:
            client.close()

        complete = [0]
        def drain(client):
            response = client.read_response(sink=lambda data: None)
            complete[0] += response.status == 503 or (response.complete and response.body_size == 16 * MIB)

        for client in feeds:
            drain(client)
            client.close()
        self.assertEqual(complete[0], FEEDS)
        self.assertTrue(balancer.alive())
        if made and os.path.exists(os.path.join(made[0], "memory.oom_control")):
            with open(os.path.join(made[0], "memory.oom_control"), encoding="ascii") as file:
                self.assertNotRegex(file.read(), r"(?m)^oom_kill [1-9]")
        wait_until(lambda: balancer.fetch("/").status == 200, 10, "recovery")
        balancer.wait_quiet()
        wait_until(lambda: balancer.open_files() <= files + 80, 10)  # pooled connections and pipes stay
        if SOAK:
            print(statuses, balancer.metrics()["memory_guard"], balancer.rss() // MIB, "MiB")

    @staticmethod
    def remove_cgroup(folder, balancer):
        if balancer.alive():
            balancer.terminate()
        wait_until(lambda: os.rmdir(folder) is None, 5, "the cgroup is empty")


class SlowOnes(Case):
    def test_slow_readers_and_slow_writers_hold_little_and_cost_nothing(self):
        def handler(connection, request):
            if request.path != "/large":
                return connection.reply()
            connection.send(f"HTTP/1.1 200 OK|Content-Length: {16 * MIB}||")
            for _ in range(16):
                connection.send(b"s" * MIB)

        balancer = self.balancer(self.scripted(handler), client_header_timeout="60s", client_write_timeout="60s",
                                 proxy_max_conns_per_host=SLOW + 20, socket_read_buffer_bytes="16KiB",
                                 socket_write_buffer_bytes="16KiB", lb_max_socket_bytes="400MiB")
        balancer.fetch("/")
        before = balancer.rss()
        readers = []
        for _ in range(SLOW):
            client = balancer.client(receive_buffer=4096, timeout=60)
            client.send("GET /large HTTP/1.1|Host: a||")
            readers.append(client)
        loris = [socket.create_connection(("127.0.0.1", balancer.port)) for _ in range(LORIS)]
        for number, client in enumerate(loris):
            client.sendall(wire("GET / HTTP/1.1|Host: a|X-Slow: ")[: 10 + number % 15])
        wait_until(lambda: balancer.in_flight() >= SLOW, 20)

        def busy_in_half_a_second():
            used, started = balancer.cpu_seconds(), time.monotonic()
            while time.monotonic() - started < 0.5:
                pause(0.05)
            return balancer.cpu_seconds() - used

        wait_until(lambda: busy_in_half_a_second() <= 0.05, 20, "CPU near zero while all stall")
        grown = balancer.rss() - before
        if not SANITIZED:
            self.assertLess(grown, (SLOW + LORIS) * 2 * 17 * 1024)
        took = []
        with balancer.client() as client:
            for _ in range(200):
                started = time.monotonic()
                self.assertEqual(client.request(G).status, 200)
                took.append(time.monotonic() - started)
        p99 = sorted(took)[197]
        if SOAK:
            print(f"RSS grew by {grown // 1024} KiB for {SLOW} slow readers and {LORIS} half heads; p99 {p99 * 1e3:.2f} ms; "
                  f"all sockets, the test's too: {balancer.metrics()['memory_guard']['socket_bytes'] // MIB} MiB")
        if not SANITIZED:
            self.assertLess(p99, 0.1)
        for client in readers + loris:
            client.close()
        balancer.wait_quiet(10)


if __name__ == "__main__":
    main()
