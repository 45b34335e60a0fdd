"""Caps on connections and descriptors (L17, L27): whoever is turned away, the admitted are served."""

import socket
import time

from case import Case, main
from raw import G
from scripted import OK
from waiting import pause, wait_until


class Descriptors(Case):
    def test_200_clients_with_64_descriptors(self):
        backend = self.scripted()
        balancer = self.balancer(backend, start=False, client_idle_timeout="30s", client_new_timeout="200ms")
        balancer.start(open_files=64)
        idle = balancer.open_files()
        cap = balancer.metrics()["connections"]["client"]["limit"]
        self.assertGreaterEqual(cap, 4)
        clients = [socket.create_connection(("127.0.0.1", balancer.port)) for _ in range(200)]
        # Those who were admitted speak and are served; whoever was turned away is told so by a close.
        served = refused = 0
        for client in clients:
            client.settimeout(5)
            try:
                client.sendall(G)
                answer = client.recv(4096)
                served += answer.startswith(b"HTTP/1.1 200")
                refused += not answer
            except (ConnectionError, BrokenPipeError):
                refused += 1
        self.assertEqual(served + refused, 200)
        self.assertGreaterEqual(served, 4)
        before, started = balancer.cpu_seconds(), time.monotonic()
        while time.monotonic() - started < 1:
            pause(0.1)
        self.assertLess(balancer.cpu_seconds() - before, 0.2, "it spins")
        self.assertLessEqual(balancer.open_files(), 64)
        for client in clients:
            client.close()
        started = time.monotonic()
        wait_until(lambda: balancer.fetch("/").status == 200, 1, "a request is served again")
        wait_until(lambda: balancer.open_files() <= idle + 40, 5)
        status = balancer.backend(backend.name)
        self.assertTrue(status["healthy"])
        self.assertEqual(balancer.metrics()["backend_errors"]["connect"], 0)


class Caps(Case):
    def capped(self, backend, **options):
        # Exact with one worker; what another has to give up comes by mail, a moment later.
        balancer = self.balancer(backend, **{"workers": 1, **options})
        balancer.wait_no_clients()
        return balancer

    def test_at_the_cap_idle_ones_go_first_then_silent_ones(self):
        balancer = self.capped(self.scripted(), client_max_connections=4, client_idle_timeout="30s", client_new_timeout="150ms")
        used = balancer.client()
        self.assertEqual(used.request(G).status, 200)
        silent = [balancer.client() for _ in range(3)]
        late = balancer.client()
        self.assertEqual(late.request(G).status, 200)
        self.assertTrue(used.closed_within(2))
        with balancer.client() as next_one:
            self.assertEqual(next_one.request(G).status, 200)
            self.assertTrue(late.closed_within(2))
        for client in silent:
            self.assertFalse(self.closed(client))
            client.close()

    def test_silent_ones_make_room_only_after_client_new_timeout(self):
        backend = self.scripted()
        balancer = self.capped(backend, client_max_connections=3, client_idle_timeout="30s", client_new_timeout="700ms")
        started = time.monotonic()
        silent = [balancer.client() for _ in range(3)]
        with balancer.client() as early:  # too early for any of them to go: refused
            self.assertTrue(early.closed_within(2))
        self.assertLess(time.monotonic() - started, 0.7)
        while time.monotonic() - started < 0.9:
            pause(0.02)
        with balancer.client() as late:
            self.assertEqual(late.request(G).status, 200)
        self.assertTrue(silent[0].closed_within(2))
        self.assertFalse(self.closed(silent[2]))
        self.assertEqual(balancer.metrics()["rejections"]["connections"], 1)
        for client in silent:
            client.close()

    def test_active_ones_are_never_closed(self):
        def hang(connection, request):
            if request.path != "/hang":
                return connection.reply()
            self.held.append(connection)
            connection.wait_for_end()

        self.held = []
        balancer = self.capped(self.scripted(hang), client_max_connections=2, client_new_timeout="1ms", backend_timeout="30s")
        active = [balancer.client() for _ in range(2)]
        for client in active:
            client.send("GET /hang HTTP/1.1|Host: a||")
        wait_until(lambda: len(self.held) == 2)
        for _ in range(5):
            with balancer.client() as more:
                self.assertTrue(more.closed_within(2))
        for client in active:
            self.assertFalse(self.closed(client))
            client.close()

    def test_a_burst_is_admitted_while_memory_is_clear(self):
        balancer = self.capped(self.scripted(), client_max_connections=2, client_connection_burst=3, client_new_timeout="30s")
        clients = [balancer.client() for _ in range(5)]
        with balancer.client() as more:
            self.assertTrue(more.closed_within(2))
        for client in clients:
            self.assertEqual(client.request(G).status, 200)
            client.close()

    def test_an_idle_one_of_another_worker_makes_room(self):
        balancer = self.capped(self.scripted(), workers=2, client_max_connections=8, client_idle_timeout="30s",
                                 client_new_timeout="30s")
        idle = [balancer.client() for _ in range(8)]
        for client in idle:
            self.assertEqual(client.request(G).status, 200)
        for _ in range(20):
            with balancer.client() as more:
                self.assertEqual(more.request(G).status, 200)
        self.assertEqual(balancer.metrics()["rejections"]["connections"], 0)
        for client in idle:
            client.close()

    @staticmethod
    def closed(client):
        return client.closed_within(0.05)


if __name__ == "__main__":
    main()
