"""The balancer inside its memory (L16, L18): the guard by fixture files, and short forms of the loads in
test/support/memory_load.py, one of them in a real memory cgroup of 64 MiB. The long forms: `make soak`."""

import os
import threading

import memory_load
from case import Case, main
from lb_case import sockets
from memory_cgroup import MIB, FixtureCgroup
from ports import free_port
from raw import G, RawClient
from waiting import wait_until


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
        reader = balancer.client()
        self.addCleanup(reader.close)
        reader.send("GET /lb/events HTTP/1.1|Host: a||")
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
        while b'"memory_guard_reason":"memory"' not in reader.buffer:
            self.assertTrue(reader.fill(), "who reads events is told, and stays")
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

    def test_who_was_promised_keep_alive_before_it_began_has_a_moment(self):
        def handler(connection, request):
            if request.path != "/slow":
                return connection.reply()
            connection.send("HTTP/1.1 200 OK|Content-Length: 4||12")
            self.assertTrue(self.go_on.wait(10))
            connection.send(b"34")

        self.go_on = threading.Event()
        balancer = self.guarded(self.scripted(handler), client_idle_timeout="60s")
        with balancer.client() as client:
            client.send("GET /slow HTTP/1.1|Host: a||")
            wait_until(lambda: client.fill() and client.buffer.endswith(b"\r\n12"), 5, "half the body")
            self.cgroup.set_anon(90 * MIB)
            self.wait_guard(balancer, True)
            self.go_on.set()
            response = client.read_response()
            self.assertEqual((response.body, response.header("connection")), (b"1234", None))
            self.assertTrue(client.closed_within(5), "an idle connection stays while the guard sheds")

    def test_a_large_body_holds_no_pipe_while_socket_memory_is_short(self):
        def handler(connection, request):
            if request.path != "/large":
                return connection.reply()
            connection.send(f"HTTP/1.1 200 OK|Content-Length: {16 * MIB}||")
            for _ in range(16):
                connection.send(b"f" * MIB)

        def pipes():
            return balancer.open_files() - sockets(balancer)

        def begin():
            client = balancer.client(receive_buffer=4096, timeout=30)
            client.send("GET /large HTTP/1.1|Host: a||")
            client.fill()
            return client

        balancer = self.guarded(self.scripted(handler), lb_max_socket_bytes="100MiB")
        before = min(pipes() for _ in range(5))  # the control thread has a file open at times
        with begin() as early:
            wait_until(lambda: pipes() > before, 5, "a pipe")
            self.cgroup.set_anon(10 * MIB, sock=60 * MIB)
            wait_until(lambda: balancer.metrics()["memory_guard"]["small_buffers"] == 1, 2)
            with begin() as late:
                response = late.read_response(sink=lambda data: None)
                self.assertEqual((response.complete, response.body_size), (True, 16 * MIB))
            response = early.read_response(sink=lambda data: None)
            self.assertEqual((response.complete, response.body_size), (True, 16 * MIB))
            wait_until(lambda: pipes() <= before + 2, 5, "no more than the early one's pipe, given back when it was empty")


class RealCgroup(memory_load.ClientsAndFeeds):
    CLIENTS, FEEDS = 300, 12


class SlowOnes(memory_load.SlowOnes):
    READERS, LORIS, BYTES, REQUESTS = 20, 60, 2, 200


if __name__ == "__main__":
    main()
