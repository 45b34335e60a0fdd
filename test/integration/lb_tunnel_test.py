"""Layer 4: [[tcp]] listeners and wss-listen: bytes and ends both ways, who gets a connection, what happens when nobody can."""

import signal
import socket
import struct

from case import Case, main
from ports import free_port
from raw import RawClient
from scripted import memory
from tunnel_peers import RawServer, TunnelEnds
from waiting import wait_until

PROXY_V2 = b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c"


class TunnelCase(Case):
    POLICY = "round_robin"
    SEND_PROXY = False
    SERVERS = 1
    OPTIONS = {}

    def setUp(self):
        super().setUp()
        self.ends = []
        self.http = self.scripted()
        self.servers = [self.server(f"s{index}") for index in range(self.SERVERS)]
        self.port = free_port()
        extra = (f'\n[[tcp]]\nlisten = "127.0.0.1:{self.port}"\npolicy = "{self.POLICY}"\n'
                 f"backends = {[server.address for server in self.servers]}\n"
                 f"send-proxy-protocol = {str(self.SEND_PROXY).lower()}\n")
        self.lb = self.balancer(self.http, extra=extra, **self.OPTIONS)
        self.wait_usable(*[True] * self.SERVERS)
        self.files = min(self.lb.open_files() for _ in range(5))

    def tearDown(self):
        for end in self.ends:
            end.close()
        for server in self.servers:
            server.close_silent()
        if self.lb.alive():
            self.assert_all_given_back()
        super().tearDown()

    def server(self, name):
        server = RawServer(name)
        self.addCleanup(server.close_all)
        return server

    def figures(self, pool=0):
        return self.lb.status()["tunnel_pools"][pool]

    def connections(self, pool=0):
        return [backend["connections"] for backend in self.figures(pool)["backends"]]

    def wait_usable(self, *wanted):
        wait_until(lambda: [backend["usable"] for backend in self.figures()["backends"]] == list(wanted), 5,
                   f"usable: {wanted}")

    def assert_all_given_back(self):
        def quiet():
            metrics = self.lb.metrics()
            gone = metrics["connections"]["client"]["tunnel"] == 0 and sum(metrics["tunnels"]["active"].values()) == 0
            gone = gone and all(pool["connections"] == 0 for pool in metrics["tunnel_pools"])
            gone = gone and not any(backend["connections"] for pool in metrics["tunnel_pools"] for backend in pool["backends"])
            # Checks come and go: a socket or two beside the others.
            return gone and self.lb.open_files() <= self.files + 2 + self.SERVERS

        wait_until(quiet, 5, "all sockets and gauges to be given back")

    def client(self, port=None, **options):
        client = RawClient(port or self.port, **options)
        self.ends.append(client)
        return client

    def tunnel(self):
        client, _, far = self.open(b"?")
        self.assertEqual(far.read_exactly(1), b"?")
        return client, far

    def open(self, greeting=b"hi"):
        """A connection whose client spoke first: (client, index of the server that got it, far end)."""
        client = self.client()
        client.send(greeting)
        found = []

        def look():
            for index, server in enumerate(self.servers):
                peer = server.speaking()
                if peer:
                    found.append((client, index, peer))
            return found

        wait_until(look, 5, "the connection at a server")
        self.ends.append(found[0][2])
        return found[0]

    def place(self):
        return self.open()[1]


class TcpEnds(TunnelEnds, TunnelCase):
    def test_urgent_data_hold_up_nothing(self):
        client, far = self.tunnel()
        client.send(b"before ")
        client.sock.send(b"!", socket.MSG_OOB)
        client.send(b" behind")
        self.assertEqual(far.read_exactly(15), b"before ! behind")

    def test_a_server_that_speaks_first(self):
        self.servers[0].greeting = b"welcome"
        client = self.client()
        self.assertEqual(client.read_exactly(7), b"welcome")

    def test_figures(self):
        client, far = self.tunnel()
        client.send(b"x" * 999)
        far.read_exactly(999)
        far.send(b"y" * 500)
        client.read_exactly(500)
        wait_until(lambda: self.lb.metrics()["tunnels"]["bytes_out"] == 500, 5, "what has been sent to be counted")
        metrics = self.lb.metrics()
        self.assertEqual(metrics["tunnels"]["active"], {"upgrade": 0, "tcp": 1, "wss": 0})
        self.assertEqual(metrics["tunnels"]["opened"]["tcp"], 1)
        self.assertEqual((metrics["tunnels"]["bytes_in"], metrics["tunnels"]["bytes_out"]), (1000, 500))
        self.assertEqual(metrics["connections"]["client"]["tunnel"], 1)
        pool = self.figures()
        self.assertEqual((pool["kind"], pool["policy"], pool["connections"]), ("tcp", "round_robin", 1))
        backend = pool["backends"][0]
        self.assertEqual((backend["opened"], backend["connect_failures"]), (1, 0))
        self.assertEqual(backend["bytes"], {"in": 500, "out": 1000})
        text = self.lb.fetch("/lb/metrics?format=prometheus").body.decode()
        self.assertIn(f'dlb_tunnel_backend_connections{{listener="127.0.0.1:{self.port}",backend="'
                      f'{self.servers[0].address}"}} 1\n', text)


class RoundRobin(TunnelCase):
    SERVERS = 3
    OPTIONS = {"health_interval": "10s"}  # a backend that goes is found by connects

    def test_turns(self):
        got = [self.place() for _ in range(9)]
        self.assertEqual(sorted(got), [0, 0, 0, 1, 1, 1, 2, 2, 2])

    def test_a_failed_connect_moves_on(self):
        self.servers[1].refuse()
        for _ in range(6):
            self.assertIn(self.place(), (0, 2))
        metrics = self.lb.metrics()["tunnels"]
        self.assertGreater(metrics["connect_failures"], 0)
        self.assertEqual((metrics["opened"]["tcp"], metrics["refused"]["no_backend"]), (6, 0))

    def test_all_backends_down(self):
        for server in self.servers:
            server.refuse()
        client = self.client()
        client.send(b"anyone?")  # unread input: the end is a FIN all the same
        self.assertEqual(client.read_to_end(), b"")
        self.assertFalse(client.was_reset)
        metrics = self.lb.metrics()["tunnels"]
        self.assertEqual((metrics["connect_failures"], metrics["refused"]["no_backend"]), (3, 1))


class Checks(TunnelCase):
    SERVERS = 2

    def test_a_backend_goes_and_comes_back(self):
        kept, index, far = self.open()
        self.servers[index].refuse()
        self.wait_usable(*[other != index for other in range(2)])
        for _ in range(4):
            self.assertEqual(self.place(), 1 - index)
        kept.send(b"still")  # what is open stays
        self.assertEqual(far.read_exactly(7), b"histill")
        self.assertEqual(self.lb.metrics()["tunnels"]["connect_failures"], 0)
        self.servers[1 - index].refuse()
        self.wait_usable(False, False)
        client = self.client()
        self.assertEqual(client.read_to_end(), b"")
        self.assertFalse(client.was_reset)
        for server in self.servers:
            server.accept_again()
        self.wait_usable(True, True)
        self.assertEqual({self.place() for _ in range(4)}, {0, 1})
        self.assertIn("tcp backend down", self.lb.log())


class LeastConn(TunnelCase):
    POLICY = "least_conn"
    SERVERS = 3
    OPTIONS = {"workers": 2}

    def test_the_fewest_connections(self):
        opened = [self.open() for _ in range(12)]
        self.assertEqual(self.connections(), [4, 4, 4])
        for client, place, _ in opened:
            if place == 1:
                client.reset()  # a FIN would leave the other direction open
        wait_until(lambda: self.connections() == [4, 0, 4], 5, "the connections to be given back")
        for _ in range(4):
            self.assertEqual(self.place(), 1)
        self.assertEqual(self.connections(), [4, 4, 4])


class ProxyHeader(TunnelCase):
    SEND_PROXY = True

    def test_the_header_goes_first(self):
        client, _, far = self.open(b"data")
        source, destination = client.sock.getsockname(), client.sock.getpeername()
        expected = PROXY_V2 + socket.inet_aton(source[0]) + socket.inet_aton(destination[0])
        expected += struct.pack(">HH", source[1], destination[1])
        self.assertEqual(far.read_exactly(len(expected) + 4), expected + b"data")


class Ends(TunnelCase):
    OPTIONS = {"tunnel_timeout": "300ms", "drain_notice": "10ms", "drain_timeout": "1s", "tunnel_drain_timeout": "500ms"}

    def test_tunnel_timeout(self):
        client, far = self.tunnel()
        self.assertTrue(client.closed_within(5))
        self.assertTrue(far.closed_within(5))
        self.assertEqual(self.lb.metrics()["tunnels"]["timeouts"], 1)

    def test_a_drain_stops_the_listener_then_the_tunnels(self):
        client, far = self.tunnel()
        self.lb.signal(signal.SIGTERM)
        wait_until(lambda: "closing tunnels" in self.lb.log(), 5, "the tunnels' turn")
        with self.assertRaises(ConnectionRefusedError):
            RawClient(self.port)
        client.send(b"still")
        self.assertEqual(far.read_exactly(5), b"still")
        self.assertEqual(self.lb.wait(), 0)
        self.assertTrue(client.closed_within(5))


class ClientLimit(TunnelCase):
    OPTIONS = {"client_max_connections": 4, "workers": 1}

    def test_tunnels_count_as_clients(self):
        for _ in range(3):
            self.tunnel()
        self.assertEqual(self.lb.status()["tunnel_pools"][0]["connections"], 3)  # by the fourth place
        self.lb.wait_no_clients()
        self.tunnel()
        refused = self.client()
        self.assertTrue(refused.closed_within(5))
        self.ends[0].reset()
        wait_until(lambda: self.connections() == [3], 5, "a place")


class Wss(TunnelCase):
    """wss-listen over two backends, here plain: what passes is not looked at."""

    def setUp(self):
        Case.setUp(self)
        self.ends = []
        self.http = [self.scripted(), self.scripted()]
        self.servers = [self.server("w0"), self.server("w1")]
        self.port = free_port()
        self.lb = self.balancer(*self.http, wss_listen=f"127.0.0.1:{self.port}", wss_max_connections=4,
                                wss_backends=[server.address for server in self.servers], **self.OPTIONS)
        self.files = min(self.lb.open_files() for _ in range(5))

    def test_the_fewest_first_and_the_limit(self):
        opened = [self.open() for _ in range(4)]
        self.assertEqual(sorted(place for _, place, _ in opened), [0, 0, 1, 1])
        self.assertEqual((self.figures()["kind"], self.figures()["connections"]), ("wss", 4))
        excess = self.client()
        excess.send(b"hello")
        self.assertEqual(excess.read_to_end(), b"")
        self.assertFalse(excess.was_reset)
        self.assertEqual(self.lb.metrics()["tunnels"]["refused"]["limit"], 1)
        opened[0][0].reset()
        wait_until(lambda: self.figures()["connections"] == 3, 5, "a place")
        self.assertEqual(self.place(), opened[0][1])

    def test_only_backends_that_are_well_and_existing_ones_stay(self):
        client, index, far = self.open()
        self.http[index].health = (500, b"")
        self.lb.wait_state(self.http[index].name, False)
        for _ in range(2):
            self.assertEqual(self.place(), 1 - index)
        client.send(b"still")
        self.assertEqual(far.read_exactly(7), b"histill")
        self.http[1 - index].health = (503, b'{"status":"draining"}')
        wait_until(lambda: not any(backend["usable"] for backend in self.figures()["backends"]), 5, "none usable")
        refused = self.client()
        self.assertEqual(refused.read_to_end(), b"")
        self.assertFalse(refused.was_reset)
        self.assertEqual(self.lb.metrics()["tunnels"]["refused"]["no_backend"], 1)

    def test_memory(self):
        self.http[0].stats["memory"] = memory(97)
        wait_until(lambda: [backend["usable"] for backend in self.figures()["backends"]] == [False, True], 5, "the guard")
        for _ in range(3):
            self.assertEqual(self.place(), 1)

    def test_a_failed_connect_moves_on(self):
        self.servers[0].refuse()
        for _ in range(3):
            self.assertEqual(self.place(), 1)
        self.assertTrue(self.lb.backend(self.http[0].name)["healthy"])  # its HTTP side has nothing to do with it


if __name__ == "__main__":
    main()
