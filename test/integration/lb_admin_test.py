"""The admin listener (L13, L23): drain, ready, weight; who may ask. LB-20: drain under load."""

import json
import os
import socket
import threading

from lb_case import LbCase, main
from ports import free_port
from programs import program, run
from raw import G, RawClient
from scripted import OK
from waiting import wait_until

ACTION = "/lb/backends/{}/{}"


class Gate:
    """Requests to /hold wait until they are let go."""

    def __init__(self):
        self.open = threading.Event()

    def handler(self, connection, request):
        connection.body(request)
        if request.target == "/hold":
            self.open.wait(60)
        connection.done()
        connection.send(OK)


class AdminCase(LbCase):
    def balancer(self, *backends, **options):
        return super().balancer(*backends, **{"admin_port": free_port(), **options})

    def act(self, balancer, backend, action):
        """Posts, and returns the backend's new state."""
        response = balancer.admin(ACTION.format(backend, action))
        self.assertEqual(response.status, 200, response.body)
        self.assertEqual(response.header("content-type"), "application/json")
        state = json.loads(response.body)
        self.assertEqual(state["id"], backend)
        return state


class Drain(AdminCase):
    def test_lb_20_drain_while_100_requests_run(self):
        """The drained server gets nothing new, all that ran on it ends well, its idle connections are closed."""
        gate = Gate()
        a, b = self.scripted(gate.handler, "a"), self.scripted(gate.handler, "b")
        balancer = self.balancer(a, b, workers=2)
        self.addCleanup(gate.open.set)
        self.assertEqual(self.act(balancer, "b", "weight?value=0")["weight"], 0)
        clients = [balancer.client() for _ in range(100)]
        for client in clients:
            self.addCleanup(client.close)
            client.send("GET /hold HTTP/1.1|Host: a||")
        wait_until(lambda: a.active == 100, 20, "100 requests at a")
        for _ in range(3):  # and idle connections
            self.assertEqual(balancer.fetch("/").status, 200)
        self.assertEqual(self.act(balancer, "b", "weight?value=1")["weight"], 1)
        state = self.act(balancer, "a", "drain")
        self.assertEqual((state["state"], state["in_flight"], state["eligibility"]), ("draining", 100, "draining"))
        wait_until(lambda: a.traffic_connections() == 100, 10, "a's idle connections to be closed")
        before = a.deliveries()
        with balancer.client() as client:
            for _ in range(50):
                self.assertEqual(client.request(G).header("x-load-balancer-backend"), "b")
        gate.open.set()
        for client in clients:
            response = client.read_response()
            self.assertEqual((response.status, response.complete, response.header("x-load-balancer-backend")), (200, True, "a"))
        self.assertEqual(a.deliveries(), before)
        wait_until(lambda: a.traffic_connections() == 0, 10, "none of a's connections to be pooled")
        self.assertEqual(self.act(balancer, "a", "ready")["state"], "ready")
        wait_until(lambda: balancer.fetch("/").header("x-load-balancer-backend") == "a", 10, "traffic at a")

    def test_lb_20_drain_under_a_steady_load(self):
        """Again and again, in the middle of keep-alive traffic: not one request is lost."""
        a, b = self.scripted(name="a"), self.scripted(name="b")
        balancer = self.balancer(a, b, policy="round_robin")
        over = threading.Event()
        self.addCleanup(over.set)

        def client():
            statuses = []
            while not over.is_set():
                with balancer.client() as connection:
                    statuses += [connection.request(G).status for _ in range(20)]
            return statuses

        def operator():
            for _ in range(5):
                self.act(balancer, "a", "drain")
                wait_until(lambda: balancer.backend("a")["in_flight"] == 0, 10, "what ran to end")
                before = a.deliveries()
                seen = b.deliveries()
                wait_until(lambda: b.deliveries() > seen + 20, 10, "traffic at b")
                self.assertEqual(a.deliveries(), before)
                self.act(balancer, "a", "ready")
                wait_until(lambda: a.deliveries() > before, 10, "traffic at a")
            over.set()
            return [200]

        for statuses in self.together(operator, *[client] * 6):
            self.assertEqual(set(statuses), {200})

    def test_lb_16_e_a_drained_one_gets_nothing(self):
        """However the others fail."""
        a, b, d = (self.scripted(name=name) for name in "abd")
        balancer = self.balancer(a, b, d, policy="round_robin")
        self.act(balancer, "d", "drain")
        before = d.deliveries()
        for backend in (a, b):
            backend.handler = lambda connection, request: connection.reply(500)
        with balancer.client() as client:
            for _ in range(30):
                self.assertEqual(client.request(G).status, 500)
        for backend in (a, b):
            backend.health = (500, b"")
        wait_until(lambda: balancer.metrics()["panic"], 10, "panic")
        self.assertEqual(balancer.fetch("/").status, 500)
        self.assertEqual(d.deliveries(), before)
        for backend in (a, b):
            backend.health = (200, b"{}")
        self.act(balancer, "d", "ready")

    def test_the_waiting_get_a_server_that_is_ready_again(self):
        gate = Gate()
        a, b = self.scripted(gate.handler, "a"), self.scripted(gate.handler, "b")
        balancer = self.balancer(a, b, backend_cap=1)
        self.addCleanup(gate.open.set)
        self.act(balancer, "b", "drain")
        clients = [balancer.client() for _ in range(2)]
        for client in clients:
            self.addCleanup(client.close)
            client.send("GET /hold HTTP/1.1|Host: a||")
        wait_until(lambda: balancer.metrics()["queue"]["waiting"] == 1, 10, "one to wait")
        self.act(balancer, "b", "ready")
        wait_until(lambda: b.active == 1, 10, "it to be served")
        gate.open.set()
        for client in clients:
            self.assertEqual(client.read_response().status, 200)


class Routes(AdminCase):
    def test_answers(self):
        a, b = self.scripted(name="a:1/x"), self.scripted(name="b")
        balancer = self.balancer(a, b)
        for name in ("a:1/x", "a%3A1%2fx"):
            response = balancer.admin(ACTION.format(name, "weight?value=7"))
            self.assertEqual((response.status, json.loads(response.body)["id"]), (200, "a:1/x"))
        self.assertEqual(json.loads(balancer.admin("/lb/backends/b", "GET").body)["id"], "b")
        self.assertEqual(balancer.admin("/lb/backends/b", "HEAD").status, 200)
        for target, method, status in (("/lb/backends/z/drain", "POST", 404), ("/lb/backends/b/drain", "GET", 405),
                                       ("/lb/backends/b", "POST", 405), ("/lb/health", "POST", 405), ("/x", "GET", 404),
                                       ("/lb/backends/", "GET", 404), ("/lb/nothing", "GET", 404),
                                       ("/lb/backends/b/weight", "POST", 400), ("/lb/backends/b/weight?value=x", "POST", 400),
                                       ("/lb/backends/b/weight?value=65536", "POST", 400),
                                       ("/lb/backends/b/weight?value=-1", "POST", 400)):
            response = balancer.admin(target, method)
            self.assertEqual(response.status, status, target)
            self.assertIn(b'"error"', response.body)
        self.assertEqual(balancer.admin("/lb/backends/b", "POST").header("allow"), "GET, HEAD")
        self.assertEqual(balancer.backend("b")["weight"], 1)
        self.assertEqual(balancer.fetch("/lb/backends/b/drain", "POST").status, 405, "not in public")
        self.assertEqual(balancer.backend("b")["state"], "ready")

    def test_pages_also_where_the_public_has_none(self):
        balancer = self.balancer(self.scripted(name="a"), start=False, public_status=False)
        balancer.spawn([program("lb"), "-c", balancer.config_path])
        wait_until(lambda: balancer.admin("/lb/health", "GET").status == 200, 10, "the admin listener")
        self.assertEqual(balancer.fetch("/lb/status").status, 404)
        self.assertEqual(json.loads(balancer.admin("/lb/status", "GET").body)["backends"][0]["id"], "a")
        prometheus = balancer.admin("/lb/metrics?format=prometheus", "GET")
        self.assertIn(b"\ndlb_admin_requests_total ", prometheus.body)
        self.assertEqual(prometheus.header("cache-control"), "no-store")


class Strangers(AdminCase):
    def request(self, balancer, host=None, origin=None, site=None, token=None, target="/lb/backends/a/drain"):
        lines = [f"POST {target} HTTP/1.1", f"Host: {host or f'127.0.0.1:{balancer.admin_port}'}", "Content-Length: 0"]
        lines += [f"{name}: {value}" for name, value in (("Origin", origin), ("Sec-Fetch-Site", site)) if value]
        lines += [f"Authorization: {token}"] if token else []
        with RawClient(balancer.admin_port) as client:
            return client.request("|".join(lines) + "||").status

    def test_pages_of_other_sites_are_refused(self):
        balancer = self.balancer(self.scripted(name="a"))
        port = balancer.admin_port
        for host in ("evil.example", f"evil.example:{port}", "192.0.2.1", "[2001:db8::1]:80", "localhost.evil.example"):
            self.assertEqual(self.request(balancer, host=host), 403, host)
        for origin in ("http://evil.example", "null", f"https://127.0.0.1:{port}", f"http://127.0.0.1:{port + 1}",
                       "http://127.0.0.1"):
            self.assertEqual(self.request(balancer, origin=origin), 403, origin)
        self.assertEqual(self.request(balancer, site="cross-site"), 403)
        self.assertEqual(self.request(balancer, site="same-site"), 403)
        self.assertEqual(balancer.backend("a")["state"], "ready")
        refused = balancer.metrics()["admin"]["refused"]
        self.assertEqual((refused["foreign"], refused["unauthorized"]), (12, 0))
        for host in ("localhost", f"LocalHost:{port}", "127.0.0.1:1", "[::1]:9"):
            self.assertEqual(self.request(balancer, host=host), 200, host)
        self.assertEqual(self.request(balancer, origin=f"http://127.0.0.1:{port}", site="same-origin"), 200)
        self.assertEqual(balancer.backend("a")["state"], "draining")
        self.act(balancer, "a", "ready")

    def test_the_token(self):
        path = os.path.join(self.folder, "token")
        with open(path, "w", encoding="ascii") as file:
            file.write("s3cret-Token\nsecond line\n")
        balancer = self.balancer(self.scripted(name="a"), admin_token_file=path)
        for token in (None, "Bearer", "Bearer ", "Bearer s3cret-Toke", "Bearer s3cret-Token1", "Bearer s3cret-tOKEN",
                      "Basic s3cret-Token", "s3cret-Token"):
            self.assertEqual(self.request(balancer, token=token), 401, token)
        self.assertEqual(balancer.backend("a")["state"], "ready")
        self.assertEqual(balancer.admin("/lb/status", "GET").status, 401)
        self.assertEqual(balancer.admin("/lb/status", "GET").header("www-authenticate"), 'Bearer realm="dlb"')
        self.assertEqual(self.request(balancer, token="bearer s3cret-Token", target="/lb/backends/a/ready"), 200)
        self.assertNotIn(b"s3cret", balancer.fetch("/lb/status").body)
        self.assertNotIn("s3cret", balancer.log())

    def test_beyond_loopback_it_needs_a_token(self):
        for listen in (":9", "0.0.0.0:9", "[::]:9"):
            code, _, err = run([program("lb"), "-t", "--backends", "http://127.0.0.1:9", "--admin-listen", listen])
            self.assertEqual(code, 2, listen)
            self.assertIn("admin-token-file", err)
        code, _, err = run([program("lb"), "-t", "--backends", "http://127.0.0.1:9", "--admin-token-file", "/nowhere"])
        self.assertEqual(code, 2)
        self.assertIn("/nowhere", err)

    def test_a_port_in_use(self):
        """Is an error when it was asked for; the default one may belong to another balancer."""
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            balancer = self.balancer(self.scripted(name="a"), start=False, admin_port=other.getsockname()[1])
            code, _, err = run([program("lb"), "-c", balancer.config_path])
            self.assertEqual(code, 1)
            self.assertIn("admin-listen", err)
        with socket.socket() as other:
            try:
                other.bind(("127.0.0.1", 9180))
                other.listen()
            except OSError:
                pass  # somebody else holds it: as good
            balancer = self.balancer(self.scripted(name="a"), name="second", start=False, admin_port=None)
            with open(balancer.config_path, encoding="utf-8") as file:
                lines = [line for line in file if not line.startswith("admin-listen")]
            with open(balancer.config_path, "w", encoding="utf-8") as file:
                file.writelines(lines)
            balancer.start()
            self.assertEqual(balancer.fetch("/").status, 200)
            self.note_files(balancer)


if __name__ == "__main__":
    main()
