"""TLS handshakes that go wrong, are slow, are resumed; certificates that change; the drain. HTTP behind them:
lb_tls_test.py."""

import os
import queue
import signal
import socket
import ssl
import subprocess
import threading
import time

from lb_case import main
from programs import program, run
from raw import G, wire
from tls import TLS12, TLS13, ClientBytes, client_context, make_certificate
from tls_case import TlsCase
from tunnel_peers import take_over
from waiting import TIME_FACTOR, wait_until

UPGRADE = wire("GET /chat HTTP/1.1|Host: a|Connection: Upgrade|Upgrade: websocket||")
SWITCHING = wire("HTTP/1.1 101 Switching Protocols|Connection: Upgrade|Upgrade: websocket||")


class Handshakes(TlsCase):
    def failures(self, balancer, **expected):
        wait_until(lambda: {kind: count for kind, count in self.tls(balancer)["failures"].items() if count} == expected,
                   what=f"the failures {expected}")
        self.assertEqual(self.tls(balancer)["handshaking"], 0)

    def test_a_session_is_resumed_by_any_worker(self):
        balancer = self.tls_balancer(self.scripted(), workers=2)
        for number, version in enumerate((TLS12, TLS13)):
            context, session = client_context(version), None
            for round_number in range(8):
                with self.client(context=context, session=session) as client:
                    self.assertEqual(client.request(G).status, 200)  # in 1.3 the ticket came before it
                    self.assertEqual(client.sock.session_reused, round_number > 0)
                    session = client.sock.session
            self.assertEqual(self.tls(balancer)["resumed"], 7 * (number + 1))
        self.assertEqual(self.tls(balancer)["handshakes"], {"1_2": 8, "1_3": 8})

    def shake(self, raw, client, send):
        """Goes on until the client has nothing more to wait for; returns its last flight unsent."""
        last = client.handshake()
        while not client.done:
            if last:
                send(last)
            self.assertTrue(raw.fill())
            last, raw.buffer = client.handshake(raw.buffer), b""
        return last

    def assert_answered(self, raw, client):
        answer = b""
        while not answer.endswith(b"ok"):
            client.incoming.write(raw.buffer)
            raw.buffer = b""
            try:
                more = client.tls.read(1000)
                self.assertTrue(more, "the connection's end instead of an answer")
                answer += more
            except ssl.SSLWantReadError:
                self.assertTrue(raw.fill())
        self.assertTrue(answer.startswith(b"HTTP/1.1 200 "))

    def test_a_handshake_and_a_request_in_single_bytes(self):
        balancer = self.tls_balancer(self.scripted())
        for version in (TLS12, TLS13):
            client = ClientBytes(client_context(version))
            with self.raw() as raw:
                raw.send_slowly(self.shake(raw, client, raw.send_slowly))
                raw.send_slowly(client.seal(G))
                self.assert_answered(raw, client)
        self.failures(balancer)

    def test_a_request_in_the_segment_of_the_last_flight(self):
        """It brings no edge of its own."""
        self.tls_balancer(self.scripted())
        client = ClientBytes(client_context(TLS13))
        with self.raw() as raw:
            last = self.shake(raw, client, raw.send)
            self.assertTrue(last)
            raw.send(last + client.seal(G))
            self.assert_answered(raw, client)

    def test_a_client_that_says_nothing_is_closed_silently(self):
        balancer = self.tls_balancer(self.scripted(), client_idle_timeout="300ms", client_header_timeout="300ms")
        with self.raw() as raw:
            self.assertTrue(raw.closed_within(5))
            self.assertEqual((raw.buffer, raw.was_reset), (b"", False))
        self.failures(balancer)

    def test_a_dribbled_handshake_has_one_deadline_for_all_of_it(self):
        balancer = self.tls_balancer(self.scripted(), client_header_timeout="600ms")
        hello = ClientBytes().handshake()
        clients = [self.raw() for _ in range(20)]
        started, sent = time.monotonic(), 0
        while not clients[0].eof and sent < len(hello) - 1:
            for client in clients:
                try:
                    client.sock.send(hello[sent : sent + 1])
                except OSError:
                    pass
            sent += 1
            self.assertEqual(balancer.fetch("/").status, 200)
            clients[0].sock.settimeout(0.03)
            try:
                clients[0].fill()
            except TimeoutError:
                pass
        took = time.monotonic() - started
        self.assertTrue(clients[0].eof)
        self.assertTrue(0.5 <= took <= 1.1 * TIME_FACTOR, took)
        for client in clients:
            self.assertTrue(client.closed_within(2))
            client.close()
        self.failures(balancer, timeout=20)

    def test_a_handshake_that_stops_after_the_hello_has_the_same_deadline(self):
        balancer = self.tls_balancer(self.scripted(), client_header_timeout="300ms")
        with self.raw() as raw:
            raw.send(ClientBytes().handshake())
            self.assertTrue(raw.closed_within(5))
            self.assertTrue(raw.buffer.startswith(b"\x16\x03\x03"), "the server's flight")
        self.failures(balancer, timeout=1)

    def test_clients_that_leave_in_the_middle_of_it(self):
        balancer = self.tls_balancer(self.scripted())
        hello = ClientBytes().handshake()
        for cut in (1, 5, 100, len(hello)):
            raw = self.raw()
            raw.send(hello[:cut])
            raw.reset()
            raw = self.raw()
            raw.send(hello[:cut])
            raw.shutdown_write()
            self.assertTrue(raw.closed_within(5), cut)
            raw.close()
        wait_until(lambda: self.tls(balancer)["handshaking"] == 0, what="all to be gone")
        failures = self.tls(balancer)["failures"]
        self.assertEqual((failures["timeout"], failures["memory"]), (0, 0))
        with self.client() as client:
            self.assertEqual(client.request(G).status, 200)

    def test_what_is_no_tls(self):
        balancer = self.tls_balancer(self.scripted())
        hello = ClientBytes().handshake()
        junk = (b"\x16\x03\x01\x00\x05hello", b"\x80\x2e\x01\x00\x02" + b"\x00" * 43, b"\x00" * 500,
                b"\x15\x03\x01\x00\x02\x02\x28",
                b"\xff" * 20_000, hello[:9] + b"\xff" * (len(hello) - 9), b"hello\r\n" * 50)
        for bytes_sent in junk:
            with self.raw() as raw:
                raw.send(bytes_sent)
                self.assertTrue(raw.closed_within(5), bytes_sent[:20])
        self.failures(balancer, protocol=len(junk))

    def test_plain_http_is_told_so(self):
        backend = self.scripted()
        balancer = self.tls_balancer(backend)
        with self.raw() as raw:
            response = raw.request(G)
            self.assertEqual((response.status, response.header("connection")), (400, "close"))
            self.assertIn(b"https", response.body)
            self.assertTrue(raw.closed_within(5))
        self.assertEqual(self.tls(balancer)["plain_http"], 1)
        self.assertEqual(backend.requests, [])

    def test_a_broken_record_ends_the_connection(self):
        self.tls_balancer(self.scripted())
        for version in (TLS12, TLS13):
            with self.client(version) as client:
                self.assertEqual(client.request(G).status, 200)
                socket.socket.send(client.sock, b"\x17\x03\x03\x00\x20" + b"x" * 32)
                with self.assertRaisesRegex(ssl.SSLError, "BAD_RECORD_MAC"):
                    client.fill()

    def test_many_at_once_while_plain_requests_go_on(self):
        balancer = self.tls_balancer(self.scripted(), key="rsa", workers=2)

        def handshakes():
            for _ in range(15):
                with self.client() as client:
                    self.assertEqual(client.request(G).status, 200)

        def plain():
            with balancer.client() as client:
                for _ in range(100):
                    self.assertEqual(client.request(G).status, 200)

        self.together(*[handshakes] * 6, plain)
        self.assertEqual(sum(self.tls(balancer)["handshakes"].values()), 90)
        self.failures(balancer)

    def test_curl_verifies_and_keeps_the_connection(self):
        self.tls_balancer(self.scripted())
        for version in ("1.2", "1.3"):
            url = f"https://localhost:{self.tls_port}/"
            done = subprocess.run(["curl", "-sS", "--http2", "--ipv4", "--cacert", self.certificate, f"--tlsv{version}",
                                   "--tls-max", version, "-w", "%{http_version} %{num_connects}\n", url, url],
                                  capture_output=True, text=True, timeout=20)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(done.stdout, "ok1.1 1\nok1.1 0\n")

    def test_a_tunnel_behind_tls(self):
        far_ends = queue.Queue()

        def switch(connection, request):
            if request.target != "/chat":
                return connection.reply(200, b"ok")
            far = take_over(connection)
            far.send(SWITCHING + b"first")
            far_ends.put(far)

        balancer = self.tls_balancer(self.scripted(switch))
        for version in (TLS12, TLS13):
            for client_first in (True, False):
                client = self.client(version)
                self.assertEqual(client.request(UPGRADE).status, 101)
                far = far_ends.get(timeout=10 * TIME_FACTOR)
                self.assertEqual(client.read_exactly(5), b"first")
                for size in (1, 20_000, 300_000):
                    data = os.urandom(size)
                    # The receiver reads while the sender sends: neither side's buffers hold that much.
                    self.assertEqual(self.together(lambda: client.send(data), lambda: far.read_exactly(size))[1], data)
                    self.assertEqual(self.together(lambda: far.send(data), lambda: client.read_exactly(size))[1], data)
                if client_first:
                    socket.socket.shutdown(client.sock, socket.SHUT_WR)
                    self.assertTrue(far.closed_within(5))
                    far.send(b"late")
                    far.close()
                    self.assertEqual(client.read_to_end(), b"late")
                else:
                    far.close()
                    self.assertEqual(client.read_to_end(), b"")
                self.assertTrue(client.clean)
                client.close()
        self.assertEqual(self.tls(balancer)["handshaking"], 0)


class Certificates(TlsCase):
    def install(self, made):
        for source, target in zip(made, (self.certificate, self.key)):
            os.replace(source, target)

    def reload(self, balancer, result="ok"):
        before = self.tls(balancer)["certificate_reloads"][result]
        balancer.signal(signal.SIGHUP)
        wait_until(lambda: self.tls(balancer)["certificate_reloads"][result] == before + 1, what=f"a reload: {result}")

    def test_sighup_swaps_the_certificate_under_load(self):
        balancer = self.tls_balancer(self.scripted(), workers=2)
        over, seen = threading.Event(), set()

        def load():
            while not over.is_set():
                with self.client() as client:
                    seen.add(client.certificate())
                    for _ in range(2):
                        self.assertEqual(client.request(G).status, 200)

        def swap():
            try:
                with self.client() as old:
                    self.assertEqual(old.request(G).status, 200)
                    for number in range(4):
                        self.install(make_certificate(self.folder, f"next{number}", key=("rsa", "ec")[number % 2]))
                        self.reload(balancer)
                        with open(self.certificate, encoding="ascii") as file:
                            new = ssl.PEM_cert_to_DER_cert(file.read())
                        with self.client() as client:
                            self.assertEqual(client.certificate(), new)
                        wait_until(lambda: new in seen, what="the load to see it")
                        self.assertEqual(old.request(G).status, 200)  # goes on under its own
            finally:
                over.set()

        self.together(load, load, swap)
        self.assertEqual(len(seen), 5)

    def test_a_bad_file_leaves_the_old_certificate_in_force(self):
        balancer = self.tls_balancer(self.scripted())
        with self.client() as client:
            first = client.certificate()
        other, other_key = make_certificate(self.folder, "other")
        with open(self.certificate, encoding="ascii") as file:
            good = file.read()
        for text in ("", "nonsense", good[: len(good) // 2], open(other, encoding="ascii").read()):
            with open(self.certificate, "w", encoding="ascii") as file:
                file.write(text)
            self.reload(balancer, "failed")
            with self.client() as client:
                self.assertEqual(client.certificate(), first)
        os.remove(self.certificate)
        self.reload(balancer, "failed")
        self.assertIn(self.certificate, balancer.log())
        self.install((other, other_key))
        self.reload(balancer)
        with self.client() as client:
            self.assertNotEqual(client.certificate(), first)

    def test_what_the_check_says(self):
        backend = self.scripted()
        balancer = self.tls_balancer(backend, start=False)
        check = [program("lb"), "-t", "-c", balancer.config_path]
        code, _, err = run(check)
        self.assertEqual((code, err), (0, ""))
        os.chmod(self.key, 0o644)
        code, out, err = run(check)
        self.assertEqual(code, 0)
        self.assertIn(f"{self.key}: everyone can read", out + err)
        make_certificate(self.folder, "server2")
        os.replace(os.path.join(self.folder, "server2.key"), self.key)
        for arguments in (check, [program("lb"), "-c", balancer.config_path]):
            code, _, err = run(arguments)
            self.assertEqual((code, err.count("\n")), (2, 1), err)
            self.assertIn("tls-key", err)
            self.assertIn(self.key, err)


class Drain(TlsCase):
    def test_idle_ones_end_cleanly_and_running_ones_finish(self):
        asked, go = threading.Event(), threading.Event()

        def answer(connection, request):
            if request.target == "/slow":
                asked.set()
                self.assertTrue(go.wait(10 * TIME_FACTOR))
            connection.reply(200, b"ok")

        balancer = self.tls_balancer(self.scripted(answer), drain_timeout="5s", drain_notice="500ms")
        with self.client() as idle, self.client() as busy, self.raw() as handshaking:
            self.assertEqual(idle.request(G).status, 200)
            busy.send(wire("GET /slow HTTP/1.1|Host: a||"))
            self.assertTrue(asked.wait(10 * TIME_FACTOR))
            shaking = ClientBytes()
            handshaking.send(shaking.handshake())
            self.assertTrue(handshaking.fill())
            balancer.signal(signal.SIGTERM)
            wait_until(lambda: balancer.fetch("/lb/health").status == 503, what="the drain to begin")
            with self.client() as late:  # within the notice
                response = late.request(G)
                self.assertEqual(response.status, 200)
            self.assertTrue(idle.closed_within(5))
            self.assertTrue(idle.clean)
            go.set()
            response = busy.read_response()
            self.assertEqual((response.status, response.body), (200, b"ok"))
            self.assertTrue(busy.closed_within(5))
            self.assertTrue(busy.clean)
            handshaking.send(shaking.handshake(handshaking.buffer) + shaking.seal(G))
            self.assertTrue(handshaking.closed_within(5))
            self.assertEqual(balancer.wait(), 0)


if __name__ == "__main__":
    main()
