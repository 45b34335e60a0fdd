"""SIGHUP reads the configuration again (L24, LB-19): backends, weights and options change under load without a lost
request; a bad file changes nothing."""

import os
import queue
import re
import signal
import threading
import time

from lb_case import LbCase, main
from ports import free_port
from programs import SANITIZED
from raw import G, RawClient, wire
from scripted import answer_ok
from traffic import Traffic, threads
from tunnel_peers import RawServer, take_over
from waiting import wait_until


class ReloadCase(LbCase):
    OPTIONS = {}

    def running(self, *backends, **options):
        return self.balancer(*backends, **{"workers": 2, **self.OPTIONS, **options})


class Backends(ReloadCase):
    def test_lb_19_a_backend_is_added_and_another_removed_under_load(self):
        a, b, c = self.scripted(), self.scripted(), self.scripted()
        balancer = self.running(a, b)
        with Traffic(balancer) as traffic:
            balancer.configure([b, c])
            balancer.reload()
            wait_until(lambda: traffic.total(c.name) > 20, 10, "requests at the new one")
            wait_until(lambda: a.active == 0, 5, "the last request at the old one")
            before = a.deliveries()
            traffic.goes_on()
            self.assertEqual(a.deliveries(), before, "the removed one gets nothing more")
        status = balancer.status()
        self.assertEqual([backend["id"] for backend in status["backends"]], [b.name, c.name])
        self.assertEqual(status["backends_leaving"], [])

    def test_lb_19_all_backends_exchanged_at_once_leave_no_gap(self):
        a, b = self.scripted(), self.scripted()
        held = threading.Event()
        self.addCleanup(held.set)

        def slow_check(connection, request):
            held.wait(20)
            connection.reply(200, b'{"status":"ok"}')

        b.on_probe = slow_check
        balancer = self.running(a, monitor_timeout="20s")
        with Traffic(balancer) as traffic:
            balancer.configure([b])
            before = balancer.status()["configuration"]["generation"]
            balancer.signal(signal.SIGHUP)
            wait_until(lambda: balancer.status()["configuration"]["generation"] == before + 1, 10, "the reload")
            traffic.goes_on()
            self.assertEqual(b.deliveries(), 0, "nobody has checked it yet")
            self.assertEqual(balancer.status()["backends_leaving"][0]["id"], a.name)
            self.assertEqual(balancer.fetch("/lb/health").status, 200)
            held.set()
            wait_until(lambda: traffic.total(b.name) > 20 and not balancer.status()["configuration"]["settling"], 10, "b")
            wait_until(lambda: a.active == 0, 5, "the last request at the old one")
            before = a.deliveries()
            traffic.goes_on()
            self.assertEqual(a.deliveries(), before)

    def test_lb_19_what_runs_on_a_removed_backend_ends_in_its_own_time(self):
        ending, release = threading.Event(), threading.Event()
        self.addCleanup(release.set)

        def handler(connection, request):
            connection.body(request)
            connection.send("HTTP/1.1 200 OK|Content-Length: 4||ab")
            ending.set()
            release.wait(20)
            connection.send(b"cd")

        a, b = self.scripted(handler), self.scripted()
        balancer = self.running(a, b, policy="round_robin")
        clients = [balancer.client() for _ in range(2)]
        for client in clients:
            self.addCleanup(client.close)
            client.send(G)
        self.assertTrue(ending.wait(10))
        self.assertEqual(wait_until(lambda: a.active, 5), 1)
        balancer.configure([b], policy="round_robin")
        balancer.reload()
        leaving = balancer.status()["backends_leaving"]
        self.assertEqual([(backend["id"], backend["state"], backend["in_flight"]) for backend in leaving], [(a.name, "gone", 1)])
        release.set()
        for client in clients:
            response = client.read_response()
            self.assertEqual((response.status, response.complete), (200, True))
        wait_until(lambda: not balancer.status()["backends_leaving"], 5, "the removed one to be idle")

    def test_lb_19_idle_connections_of_a_removed_backend_close(self):
        a, b = self.scripted(), self.scripted()
        balancer = self.running(a, b, policy="round_robin", workers=1)
        for _ in range(4):
            self.assertEqual(balancer.fetch("/").status, 200)
        self.assertEqual(balancer.metrics()["connections"]["upstream"]["idle"], 2)
        balancer.configure([b], policy="round_robin")
        balancer.reload()
        wait_until(lambda: balancer.metrics()["connections"]["upstream"]["idle"] == 1, 5, "the idle one to close")

    def test_lb_19_weights_change_without_a_new_backend(self):
        a, b = self.scripted(), self.scripted()
        balancer = self.running(a, b)
        balancer.configure([a, b], weights=[0, 1])
        with Traffic(balancer) as traffic:
            balancer.reload()
            self.assertEqual([backend["weight"] for backend in balancer.status()["backends"]], [0, 1])
            wait_until(lambda: a.active == 0, 5, "the last request at weight 0")
            before = a.deliveries()
            traffic.goes_on()
            self.assertEqual(a.deliveries(), before)
            balancer.configure([a, b], weights=[1, 0])
            balancer.reload()
            wait_until(lambda: a.deliveries() > before + 20, 10, "requests at weight 1")

    def test_lb_19_another_address_under_the_same_id(self):
        a, moved, b = self.scripted(name="a"), self.scripted(name="a"), self.scripted(name="b")
        balancer = self.running(a, b)
        with Traffic(balancer) as traffic:
            before = balancer.backend("a")["counters"]["requests"]
            self.assertGreater(before, 0)
            balancer.configure([moved, b])
            balancer.reload()
            wait_until(lambda: moved.deliveries() > 20, 10, "requests at the new address")
            wait_until(lambda: a.active == 0, 5, "the last request at the old address")
            old = a.deliveries()
            traffic.goes_on()
            self.assertEqual(a.deliveries(), old)
            backend = balancer.backend("a")
            self.assertEqual(backend["url"], moved.url)
            self.assertGreater(backend["counters"]["requests"], before, "the counters are the id's")
        text = balancer.fetch("/lb/metrics?format=prometheus").body.decode()
        self.assertEqual(len(re.findall(r'(?m)^dlb_backend_healthy\{backend="a"\}', text)), 1)

    def test_lb_19_health_and_counters_outlive_reloads(self):
        a, b = self.scripted(), self.scripted()
        balancer = self.running(a, b, failure_limit=3)
        self.assertEqual(balancer.fetch("/").status, 200)
        b.refuse(cut=True)
        wait_until(lambda: not balancer.backend(b.name)["healthy"], 10, "b to be down")
        before = [backend["counters"]["requests"] for backend in balancer.status()["backends"]]
        for _ in range(3):
            balancer.reload()
            status = balancer.status()["backends"]
            self.assertEqual([backend["healthy"] for backend in status], [True, False])
            self.assertEqual([backend["counters"]["requests"] for backend in status], before)
        b.accept_again()
        wait_until(lambda: balancer.backend(b.name)["healthy"], 10, "b to be up again")


class Options(ReloadCase):
    def test_lb_19_five_reloads_of_the_same_file_leave_one_check_an_interval(self):
        a = self.scripted()
        balancer = self.running(a, health_interval="250ms", stats_interval="250ms")
        for _ in range(5):
            balancer.reload()

        def checks():
            with a.lock:
                return [request.path for request in a.probes].count("/health")

        # Six checkers would need a sixth of the time; half of it is left for checks that come late.
        first, start = checks(), time.monotonic()
        wait_until(lambda: checks() >= first + 8, 20, "checks to go on")
        self.assertGreaterEqual(time.monotonic() - start, 7 * 0.25 / 2)

    def test_lb_19_options_take_effect(self):
        a = self.scripted(respond=b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        balancer = self.running(a, client_idle_timeout="60s")
        kept = balancer.client()
        self.addCleanup(kept.close)
        self.assertEqual(kept.request(G).status, 200)
        balancer.configure([a], deny_paths=["/secret/"], max_body_bytes=10, client_idle_timeout="100ms", policy="least_conn",
                           max_header_bytes="2KiB", proxy_buffer_bytes="4KiB", health_path="/healthz", threshold=33,
                           client_max_connections=50)
        balancer.reload()
        self.assertEqual(balancer.fetch("/secret/x").status, 404)
        self.assertEqual(balancer.fetch("/", "POST", b"x" * 11).status, 413)
        self.assertEqual(balancer.fetch("/", headers=[("X-Long", "x" * 3000)]).status, 431)
        self.assertEqual(kept.request(G).status, 200, "a connection from before goes on")
        self.assertTrue(kept.closed_within(10), "its next idle time is the new one")
        wait_until(lambda: any(probe.path == "/healthz" for probe in a.probes), 5, "checks at the new path")
        status = balancer.status()
        self.assertEqual((status["policy"], status["threshold"]), ("least_conn", 33))
        self.assertEqual(balancer.metrics()["connections"]["client"]["limit"], 50)

    def test_lb_19_time_outs_of_what_waits_already_stay(self):
        waiting = threading.Event()

        def handler(connection, request):
            waiting.set()
            connection.wait_for_end()

        balancer = self.running(self.scripted(handler), backend_timeout="60s")
        with balancer.client() as client:
            client.send(G)
            self.assertTrue(waiting.wait(10))
            balancer.configure(balancer.backends, backend_timeout="100ms")
            balancer.reload()
            self.assertEqual(balancer.fetch("/").status, 504, "a request from now on has the new one")
            wait_until(lambda: balancer.metrics()["requests"]["in_progress"] == 1, 2, "the old one alone to wait still")
            client.reset()

    def test_lb_24_a_larger_cap_lets_those_who_wait_go_on(self):
        release = threading.Event()
        self.addCleanup(release.set)

        def handler(connection, request):
            connection.body(request)
            release.wait(20)
            connection.done()
            connection.reply()

        a = self.scripted(handler)
        balancer = self.running(a, backend_cap=1, backend_queue_timeout="60s")
        clients = [balancer.client() for _ in range(4)]
        for client in clients:
            self.addCleanup(client.close)
            client.send(G)
        wait_until(lambda: balancer.metrics()["queue"]["waiting"] == 3, 10, "three to wait")
        balancer.configure([a], backend_cap=3, backend_queue_timeout="60s")
        balancer.reload()
        wait_until(lambda: balancer.metrics()["queue"]["waiting"] == 1, 10, "two of them to go on")
        self.assertEqual(a.peak, 3)
        release.set()
        self.assertEqual([client.read_response().status for client in clients], [200] * 4)

    def test_lb_19_what_needs_a_restart_is_told_and_stays(self):
        a = self.scripted()
        balancer = self.running(a)
        balancer.configure([a], workers=3, listen="127.0.0.1:1", access_log="-", threshold=44)
        balancer.reload()
        status = balancer.status()
        self.assertEqual((status["threshold"], status["config"]["workers"]), (44, 2))
        for name in ("workers", "listen", "access-log"):
            self.assertEqual(len(re.findall(rf"needs a restart.*option={name}\b", balancer.log())), 1)

    def test_lb_19_log_level(self):
        a = self.scripted()
        balancer = self.running(a)
        balancer.configure([a], log_level="error")
        balancer.reload()
        balancer.configure([a], log_level="info")
        balancer.reload()
        wait_until(lambda: balancer.log().count("configuration reloaded") == 1, 5, "the second one's line alone")


class Layer4(ReloadCase):
    def listener(self, port, *servers):
        return f'\n[[tcp]]\nlisten = "127.0.0.1:{port}"\nbackends = {[server.address for server in servers]}\n'

    def speaking(self, server):
        return wait_until(server.speaking, 10, "the connection at the server")

    def test_lb_19_a_listener_gets_other_backends_and_its_tunnels_go_on(self):
        http, old, new = self.scripted(), RawServer("old"), RawServer("new")
        self.addCleanup(old.close_all)
        self.addCleanup(new.close_all)
        port = free_port()
        balancer = self.running(http, extra=self.listener(port, old))
        wait_until(lambda: balancer.status()["tunnel_pools"][0]["backends"][0]["usable"], 5, "the check")
        with RawClient(port) as first, RawClient(port) as second:
            first.send(b"one")
            far = self.speaking(old)
            self.addCleanup(far.close)
            balancer.configure([http], extra=self.listener(port, new))
            balancer.reload()
            pool = balancer.status()["tunnel_pools"][0]
            self.assertEqual([backend["address"] for backend in pool["backends"]], [new.address])
            second.send(b"two")  # accepted before: it was given its backend then, or is now
            for number in range(3):
                with RawClient(port) as client:
                    client.send(b"three")
                    peer = self.speaking(new)
                    self.assertEqual(peer.read_exactly(5), b"three")
                    peer.close()
            self.assertEqual(far.read_exactly(3), b"one")
            far.send(b"still here")
            self.assertEqual(first.read_exactly(10), b"still here")
            self.assertGreaterEqual(balancer.status()["tunnel_pools"][0]["connections"], 1)
            far.close()
            self.assertEqual(first.read_to_end(), b"")

    def test_lb_20_an_upgraded_connection_outlives_the_reload_that_removes_its_backend(self):
        far_ends = queue.Queue()

        def upgrade(connection, request):
            if request.header("upgrade") is None:
                return answer_ok(connection, request)
            far = take_over(connection)
            far.send(wire("HTTP/1.1 101 X|Upgrade: websocket|Connection: Upgrade||"))
            far_ends.put(far)

        a, b = self.scripted(upgrade), self.scripted()
        balancer = self.running(a)
        with balancer.client() as client:
            client.send(wire("GET /chat HTTP/1.1|Host: a|Connection: Upgrade|Upgrade: websocket||"))
            self.assertEqual(client.read_response().status, 101)
            far = far_ends.get(timeout=20)
            self.addCleanup(far.close)
            for backends in ([b], [a, b], [b]):
                balancer.configure(backends)
                balancer.reload()
                client.send(b"ping")
                self.assertEqual(far.read_exactly(4), b"ping")
                far.send(b"pong")
                self.assertEqual(client.read_exactly(4), b"pong")
            leaving = balancer.status()["backends_leaving"]
            self.assertEqual([(backend["id"], backend["tunnels"]) for backend in leaving], [(a.name, 1)])
            far.close()
        wait_until(lambda: not balancer.status()["backends_leaving"], 10, "the tunnel to end")


class Faults(ReloadCase):
    def test_lb_19_a_broken_file_changes_nothing_and_the_next_one_works(self):
        a, b = self.scripted(), self.scripted()
        balancer = self.running(a)
        with Traffic(balancer) as traffic:
            balancer.configure([a, b], threshold=12, extra="max-inflght = 3\n")
            refused = balancer.reload(ok=False)
            # The backend's table is the last one open: the unknown key stands in it.
            self.assertRegex(refused["last_error"]["text"], rf"^{re.escape(balancer.config_path)}:\d+:\d+: .*max-inflght")
            status = balancer.status()
            self.assertEqual((len(status["backends"]), status["threshold"]), (1, 75))
            self.assertEqual(status["configuration"]["generation"], 1)
            traffic.goes_on()
            balancer.configure([a, b], threshold=12)
            self.assertEqual(balancer.reload()["generation"], 2)
            self.assertEqual(balancer.status()["threshold"], 12)
            wait_until(lambda: traffic.total(b.name) > 0, 10, "requests at the new backend")
        metrics = balancer.metrics()["config"]
        self.assertEqual((metrics["reloads"], metrics["generation"]), ({"ok": 1, "failed": 1}, 2))

    def test_lb_19_a_file_that_is_gone(self):
        a = self.scripted()
        balancer = self.running(a)
        os.rename(balancer.config_path, balancer.config_path + ".away")
        self.assertIn(balancer.config_path, balancer.reload(ok=False)["last_error"]["text"])
        self.assertEqual(balancer.fetch("/").status, 200)
        os.rename(balancer.config_path + ".away", balancer.config_path)
        balancer.reload()


class Loops(ReloadCase):
    ROUNDS = 40

    def test_lb_19_reloads_in_a_loop_leave_memory_files_and_threads_as_they_are(self):
        """The same two files in turn, under load; the thousand of the case are in test/soak."""
        a, b, c = self.scripted(), self.scripted(), self.scripted()
        balancer = self.running(a, b, c)
        with Traffic(balancer) as traffic:
            def rounds(count):
                for number in range(count):
                    options = {"client_idle_timeout": "30s", "threshold": 50} if number % 2 else {}
                    balancer.configure([a, b] if number % 2 else [c, a], **options)
                    before = balancer.status()["configuration"]["generation"]
                    balancer.signal(signal.SIGHUP)
                    wait_until(lambda: balancer.status()["configuration"]["generation"] > before, 20, "the reload",  # noqa: B023
                               interval=0.002)

            rounds(10)  # what grows once
            before = (balancer.rss(), threads(balancer), balancer.open_files())
            rounds(self.ROUNDS)
            after = (balancer.rss(), threads(balancer), balancer.open_files())
            traffic.goes_on()
        print(f"rss {before[0]} -> {after[0]}, threads {before[1]} -> {after[1]}, files {before[2]} -> {after[2]}")
        if not SANITIZED:
            self.assertLess(after[0] - before[0], 1 << 20)
        wait_until(lambda: threads(balancer) <= before[1], 5, "the threads")

    def test_lb_19_a_reload_while_one_is_running(self):
        """Many at once are one or two; the last file wins."""
        a, b = self.scripted(), self.scripted()
        balancer = self.running(a, b)
        with Traffic(balancer):
            for number in range(60):
                balancer.configure([a, b] if number % 3 else [b], threshold=number)
                balancer.signal(signal.SIGHUP)
            balancer.signal(signal.SIGHUP)
            wait_until(lambda: balancer.status()["threshold"] == 59, 10, "the last file")
        configuration = balancer.status()["configuration"]
        self.assertEqual(configuration["reloads_failed"], 0)
        self.assertEqual(configuration["generation"], configuration["reloads"] + 1)

    def test_lb_20_reloads_every_moment_lose_no_keep_alive_client(self):
        """32 keep-alive clients with a reload time and again: not one error, no connection closed by us."""
        a, b = self.scripted(), self.scripted()
        balancer = self.running(a, b)
        with Traffic(balancer, clients=33) as traffic:
            for number in range(6):
                balancer.configure([a, b], threshold=50 + number)
                balancer.reload()
                traffic.goes_on(100)


if __name__ == "__main__":
    main()
