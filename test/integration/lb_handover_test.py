"""Sockets that come from a service manager, what it is told, and SIGUSR2: the new program takes the sockets over while
the old one drains (L24)."""

import json
import os
import signal
import socket
import threading

from case import Case, main
from ports import free_port
from programs import Balancer, clean_environment, program
from raw import G, RawClient, fetch
from scripted import OK
from traffic import Traffic
from waiting import wait_until

# Hands descriptor N over as 3, as systemd does.
HAND_OVER = """
import os, sys
fd = int(sys.argv[1])
os.dup2(fd, 3)
fd == 3 or os.close(fd)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execv(sys.argv[2], sys.argv[2:])
"""


class Manager:
    """The service manager's side of sd_notify."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.socket.setblocking(False)
        self.words = []

    def heard(self, text):
        while True:
            try:
                self.words.append(self.socket.recv(4096).decode())
            except BlockingIOError:
                return any(text in words for words in self.words)


class Successor:
    """Follows which process answers, over upgrades, and ends the last one."""

    def __init__(self, case, balancer):
        self.balancer = balancer
        case.addCleanup(self.end)

    def pid(self):
        return json.loads(fetch(self.balancer.port, "/lb/status", timeout=5.0).body)["pid"]

    def upgrade(self):
        before = self.pid()
        os.kill(before, signal.SIGUSR2)
        return wait_until(lambda: (pid := self.pid()) != before and pid, 20, "the new process to answer")

    def end(self):
        try:
            pid = self.pid()
        except Exception:  # noqa: BLE001 - it is gone already
            return
        if pid != self.balancer.pid:
            os.kill(pid, signal.SIGTERM)
            wait_until(lambda: not os.path.exists(f"/proc/{pid}"), 20, "the last process to end")


class Activation(Case):
    def test_a_socket_that_nobody_listens_at_is_closed(self):
        """Else clients would wait in its backlog for nobody."""
        balancer = self.balancer(self.scripted(), start=False)
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(64)
            port = listener.getsockname()[1]
            balancer.spawn(["python3", "-c", HAND_OVER, str(listener.fileno()), program("lb"), "-c", balancer.config_path],
                           pass_fds=[listener.fileno()])
        wait_until(lambda: balancer.fetch("/").status == 200, 20, "the balancer")
        with self.assertRaises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        self.assertIn(f"127.0.0.1:{port}", balancer.log())

    def test_a_socket_that_was_handed_over_is_used(self):
        balancer = self.balancer(self.scripted(), start=False)
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", balancer.port))
            listener.listen(64)
            with RawClient(balancer.port) as early:  # nobody is there yet, it is not refused
                early.send(G)
                manager = Manager(self.folder)
                balancer.spawn(["python3", "-c", HAND_OVER, str(listener.fileno()), program("lb"), "-c", balancer.config_path],
                               environment=clean_environment(NOTIFY_SOCKET=manager.path), pass_fds=[listener.fileno()])
                wait_until(lambda: manager.heard("READY=1"), 20, "READY=1")
                self.assertEqual(early.read_response().status, 200)
        self.assertEqual(balancer.fetch("/").status, 200)
        balancer.signal(signal.SIGHUP)
        wait_until(lambda: manager.heard("RELOADING=1\nMONOTONIC_USEC="), 10, "RELOADING=1")
        wait_until(lambda: [manager.heard(""), sum("READY=1" in words for words in manager.words)][1] == 2, 10, "READY=1 again")
        self.assertEqual(balancer.terminate(), 0)
        self.assertTrue(manager.heard("STOPPING=1"))


class Upgrades(Case):
    def running(self, *backends, **options):
        balancer = self.balancer(*backends, workers=2, **options)
        return balancer, Successor(self, balancer)

    def test_no_connection_is_refused_or_reset(self):
        balancer, processes = self.running(self.scripted(), self.scripted(), drain_timeout="10s")
        with Traffic(balancer, clients=8) as traffic:
            first = processes.upgrade()
            self.assertNotEqual(first, balancer.pid)
            traffic.goes_on(200)
            wait_until(lambda: not balancer.alive(), 20, "the old process to end")
            self.assertEqual(balancer.wait(), 0)
            self.assertNotEqual(processes.upgrade(), first)
            traffic.goes_on(200)
            wait_until(lambda: not os.path.exists(f"/proc/{first}"), 20, "the second process to end")

    def test_what_runs_in_the_old_process_ends_there(self):
        release = threading.Event()
        self.addCleanup(release.set)

        def handler(connection, request):
            connection.body(request)
            if request.target == "/slow":
                connection.send("HTTP/1.1 200 OK|Content-Length: 4||ab")
                release.wait(20)
                return connection.send(b"cd")
            return connection.send(OK)

        a = self.scripted(handler)
        balancer, processes = self.running(a, drain_timeout="20s")
        with balancer.client() as client:
            client.send(G.replace(b"GET / ", b"GET /slow "))
            wait_until(lambda: a.active == 1, 10, "the response to run")
            processes.upgrade()
            self.assertTrue(balancer.alive())
            release.set()
            response = client.read_response()
            self.assertEqual((response.status, response.complete, response.body), (200, True, b"abcd"))
        self.assertEqual(balancer.wait(), 0)

    def test_readers_of_events_hold_nothing_up(self):
        """They are told the end on each listener, and find the new process there."""
        balancer, processes = self.running(self.scripted(), admin_port=free_port(), drain_timeout="2m")
        ports = [balancer.port, balancer.port, balancer.admin_port]
        readers = [RawClient(port) for port in ports]
        for reader in readers:
            self.addCleanup(reader.close)
            reader.send("GET /lb/events HTTP/1.1|Host: localhost||")
            self.assertEqual(reader.read_head().status, 200)
        now = processes.upgrade()
        self.assertEqual(balancer.wait(30), 0)
        for reader, port in zip(readers, ports):
            self.assertTrue(reader.read_to_end().endswith(b"\n\n") and not reader.was_reset)
            with RawClient(port) as again:
                again.send("GET /lb/events HTTP/1.1|Host: localhost||")
                again.read_head()
                while b'"pid":' not in again.buffer:
                    self.assertTrue(again.fill())
                self.assertIn(f'"pid":{now},'.encode(), again.buffer)

    def test_what_is_known_of_backends_goes_on(self):
        """An ejection, a drain and a weight that were not in the file."""
        a, b, d = self.scripted(name="a"), self.scripted(name="b"), self.scripted(name="d")
        balancer, processes = self.running(a, b, d, policy="round_robin", ejection_time="200s", admin_port=free_port())
        a.handler = lambda connection, request: connection.reply(500)
        wait_until(lambda: balancer.fetch("/").status and balancer.backend("a")["state"] == "ejected", 20, "the ejection")
        self.assertEqual(balancer.admin("/lb/backends/b/drain").status, 200)
        self.assertEqual(balancer.admin("/lb/backends/d/weight?value=7").status, 200)
        left = balancer.backend("a")["ejection"]["left_ms"]
        processes.upgrade()
        before = a.deliveries(), b.deliveries()
        state = balancer.backend("a")
        self.assertEqual((state["state"], state["ejection"]["times"]), ("ejected", 1))
        self.assertTrue(0 < state["ejection"]["left_ms"] <= left, state)
        self.assertEqual(balancer.backend("b")["state"], "draining")
        self.assertEqual(balancer.backend("d")["weight"], 7)
        with balancer.client() as client:
            for _ in range(10):
                self.assertEqual(client.request(G).header("x-load-balancer-backend"), "d")
        self.assertEqual((a.deliveries(), b.deliveries()), before)
        self.assertEqual(balancer.admin("/lb/backends/b/ready").status, 200)
        wait_until(lambda: balancer.fetch("/").header("x-load-balancer-backend") == "b", 10, "traffic at b")

    def test_a_drain_holds_for_the_old_process_too(self):
        """It goes on to answer the connections that it has, and is told what an operator says to the new one."""
        a, b = self.scripted(name="a"), self.scripted(name="b")
        balancer, processes = self.running(a, b, policy="round_robin", admin_port=free_port(), drain_timeout="30s")
        clients = [balancer.client() for _ in range(6)]
        for client in clients:
            self.addCleanup(client.close)
            self.assertEqual(client.request(G).status, 200)
        self.assertFalse(balancer.status()["predecessor_drains"])
        processes.upgrade()
        self.assertTrue(balancer.status()["predecessor_drains"])
        self.assertEqual(balancer.admin("/lb/backends/a/drain").status, 200)
        wait_until(lambda: a.traffic_connections() == 0, 10, "the idle connections of both to be closed")
        before = a.deliveries()
        for client in clients:
            response = client.request(G)
            self.assertEqual((response.status, response.header("x-load-balancer-backend")), (200, "b"))
            self.assertEqual(response.header("connection"), "close")
        self.assertEqual(a.deliveries(), before)
        self.assertEqual(balancer.wait(), 0)
        wait_until(lambda: not balancer.status()["predecessor_drains"], 10, "the end of the old process to be seen")

    def test_nothing_is_set_while_the_new_process_starts(self):
        """It would be known to one of them only."""
        a = self.scripted(name="a")
        balancer, processes = self.running(a, admin_port=free_port(), monitor_timeout="20s")
        released = threading.Event()
        self.addCleanup(released.set)

        def held(connection, request):
            released.wait(60)
            connection.reply(200, b"{}")

        a.on_probe = held
        balancer.signal(signal.SIGUSR2)
        wait_until(lambda: balancer.admin("/lb/backends/a/drain").status == 503, 20, "the upgrade to begin")
        refused = balancer.admin("/lb/backends/a/weight?value=3")
        self.assertEqual((refused.status, refused.header("retry-after")), (503, "1"))
        self.assertEqual(balancer.admin("/lb/status", "GET").status, 200)
        self.assertEqual(processes.pid(), balancer.pid)
        released.set()
        wait_until(lambda: processes.pid() != balancer.pid, 20, "the new process")
        wait_until(lambda: balancer.admin("/lb/backends/a/weight?value=3").status == 200, 10, "the new admin listener")
        self.assertEqual(balancer.backend("a")["weight"], 3)

    def test_the_pid_file_names_the_one_that_accepts(self):
        path = os.path.join(self.folder, "lb.pid")

        def named():
            with open(path, encoding="ascii") as file:
                return int(file.read())

        balancer, processes = self.running(self.scripted(), pid_file=path)
        # The main thread writes it when all serves; the first worker answers a moment before.
        wait_until(lambda: os.path.exists(path), 10, "the pid file")
        self.assertEqual(named(), balancer.pid)
        pid = processes.upgrade()
        wait_until(lambda: named() == pid, 10, "the pid file")
        self.assertEqual(balancer.wait(), 0)
        self.assertEqual(named(), pid)
        processes.end()
        self.assertFalse(os.path.exists(path))

    def test_a_new_process_that_fails_changes_nothing(self):
        balancer, processes = self.running(self.scripted())
        with open(balancer.config_path, "a", encoding="utf-8") as file:
            file.write("nonsense = 1\n")
        with Traffic(balancer) as traffic:
            balancer.signal(signal.SIGUSR2)
            wait_until(lambda: balancer.metrics()["config"]["upgrades_failed"] == 1, 20, "the failure")
            traffic.goes_on()
        self.assertEqual(processes.pid(), balancer.pid)
        balancer.configure(balancer.backends)
        processes.upgrade()

    def test_a_program_that_is_gone_is_named(self):
        """There is no log of a new process to say why."""
        balancer = self.balancer(self.scripted(), start=False)
        link = os.path.join(self.folder, "program")
        os.symlink(program("lb"), link)
        balancer.spawn([link, "-c", balancer.config_path])
        processes = Successor(self, balancer)
        wait_until(lambda: balancer.fetch("/").status == 200, 20, "the balancer")
        os.remove(link)
        balancer.signal(signal.SIGUSR2)
        wait_until(lambda: f"{link} can't be executed" in balancer.log(), 20, "the failure")
        self.assertEqual(processes.pid(), balancer.pid)
        os.symlink(program("lb"), link)
        processes.upgrade()

    def test_the_manager_hears_of_the_new_main_process(self):
        a = self.scripted()
        balancer = self.keep(Balancer(self.folder, [a]))
        processes, manager = Successor(self, balancer), Manager(self.folder)
        balancer.spawn([program("lb"), "-c", balancer.config_path], environment=clean_environment(NOTIFY_SOCKET=manager.path))
        wait_until(lambda: manager.heard("READY=1"), 20, "READY=1")
        pid = processes.upgrade()
        wait_until(lambda: manager.heard(f"MAINPID={pid}"), 10, "MAINPID")
        self.assertEqual(balancer.wait(), 0)
        self.assertFalse(manager.heard("STOPPING=1"))


if __name__ == "__main__":
    main()
