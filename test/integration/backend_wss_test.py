"""The port beside the frames: who may open a WebSocket, TLS and its certificate, PROXY headers, pings, limits, drain."""

import glob
import json
import os
import shutil
import signal
import socket
import ssl
import struct

from case import main, write_key
from programs import program, run
from raw import RawClient
from tls import TLS12, TLS13, TlsClient, client_context, make_certificate
from waiting import wait_until
from websocket import CLOSE, PING, PONG, WebSocket, closing, request
from websocket_case import Ways


class Opening(Ways):
    def test_ch_10_origins(self):
        self.scene(ws_origins="https://chat.example, http://localhost:6001")
        for connect in self.each_way():
            for origin, status in ((None, 101), ("https://chat.example", 101), ("http://localhost:6001", 101),
                                   ("https://evil.example", 403), ("null", 403), ("https://chat.example:443", 403)):
                with self.subTest(origin=origin), connect() as client:
                    client.send(request(headers=[f"Origin: {origin}"] if origin else []))
                    response = client.read_response()
                    self.assertEqual((response.status, response.header("X-Backend")), (status, "sys2"))
        with RawClient(self.backend.port) as client:
            client.send(request(headers=["Origin: https://chat.example", "Origin: https://evil.example"]))
            self.assertEqual(client.read_response().status, 403)

    def test_what_is_no_handshake(self):
        self.scene()
        by_http = (self.ways["lb"], self.ways["lb tls"])
        for connect in self.each_way():
            with connect() as client:
                for bytes_, status in ((b"GET /ws HTTP/1.1\r\nHost: a\r\n\r\n", 426), (request("/ws", version="8"), 426),
                                       (request("/ws", key="short"), 400), (request("/nothing"), 404),
                                       (b"GET /echo HTTP/1.1\r\nHost: a\r\n\r\n", 426),
                                       (b"DELETE /ws HTTP/1.1\r\nHost: a\r\n\r\n", 405)):
                    with self.subTest(bytes_=bytes_[:30]):
                        client.send(bytes_)
                        response = client.read_response()
                        self.assertEqual((response.status, response.header("X-Backend")), (status, "sys2"))
                        if status == 426:
                            self.assertEqual(response.header("Sec-WebSocket-Version"), "13")
                            # Hop by hop: through a proxy it is the proxy's to say.
                            self.assertEqual(response.header("Upgrade"), None if connect in by_http else "websocket")
                client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")  # the page; with an upgrade it would be the chat
                self.assertEqual(client.read_response().status, 200)

    def test_without_ws_plain_the_http_port_has_no_websocket(self):
        backend = self.chat_backends(1, wss=True, ws_echo=True)[0]
        with backend.client() as client:
            client.send(request())
            self.assertEqual(client.read_response().status, 404)
        with WebSocket(TlsClient(backend.ws_port)) as socket_:
            socket_.send("x")
            self.assertEqual(socket_.read_text(), "x")

    def test_the_limit_and_what_frees_a_place(self):
        self.scene(ws_max_connections=2)
        first, second = (WebSocket(self.ways["tls"]()) for _ in range(2))
        with self.ways["tls"]() as client:
            client.send(request())
            response = client.read_response()
            self.assertEqual((response.status, response.header("Retry-After")), (503, "1"))
            first.client.send(closing())
            self.assertEqual(first.read_close(), 1000)
            self.wait_gone_from(client)
        second.client.close()
        first.client.close()

    def wait_gone_from(self, client):
        def opened():
            client.send(request())
            return client.read_response().status == 101

        wait_until(opened, 5, "a place")

    def test_a_missed_pong_is_1008_and_pongs_keep(self):
        self.scene(ws_ping_interval="50ms", ws_pong_timeout="3s")
        silent = {name: WebSocket(connect()) for name, connect in self.ways.items()}
        for connect in self.each_way():
            with WebSocket(connect()) as kept:
                for _ in range(3):
                    self.assertEqual(kept.read_frame(), (PING, b""))
                    kept.send(b"", PONG)
        for name, socket_ in silent.items():
            with self.subTest(silent=name), socket_:
                self.assertEqual(socket_.read_frame(), (PING, b""))
                opcode, payload = socket_.read_frame()
                self.assertEqual((opcode, payload[:2]), (CLOSE, struct.pack(">H", 1008)))
                self.assertEqual(socket_.rest(), b"")
        self.assertGreaterEqual(self.figures()["ended"]["missed_pong"], 4)


class Tls(Ways):
    def test_both_versions_serve_all_routes(self):
        backend = self.scene()
        for version in (TLS12, TLS13):
            with TlsClient(backend.ws_port, client_context(version)) as client:
                client.send(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\nGET /feed HTTP/1.1\r\nHost: a\r\n\r\n")
                self.assertEqual([client.read_response().status for _ in range(2)], [200, 200])
        # A message by one port while the other waits for a feed: the same numbers name different requests.
        posted, feed = self.together(
            lambda: backend.post({"client-name": "ann", "msg": "hi", "message-id": "m1"}).status,
            lambda: self.tls_get(backend, "/feed")[0])
        self.assertEqual((posted, feed), (201, 200))
        self.assertEqual(json.loads(self.tls_get(backend, "/feed")[1])["count"], 1)
        self.assertEqual(json.loads(self.tls_get(backend, "/info")[1])["wss"],
                         {"enabled": True, "port": backend.ws_port, "url": None})
        figures = json.loads(backend.fetch("/metrics?format=json").body)["tls"]
        self.assertGreaterEqual(figures["handshakes"], 4)

    def tls_get(self, backend, path):
        with TlsClient(backend.ws_port) as client:
            client.send(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
            response = client.read_response()
            self.assertFalse(client.fill())
            self.assertTrue(client.clean)
            return response.status, response.body

    def test_what_is_no_tls(self):
        backend = self.scene(client_header_timeout="300ms", client_idle_timeout="400ms")
        with RawClient(backend.ws_port) as client:
            client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            response = client.read_response()
            self.assertEqual((response.status, response.header("X-Backend")), (400, "sys2"))
        for said in (b"\x00" * 20, b"\x16\x03\x01\x00\x05hello", b"\x16\x03", b""):
            with self.subTest(said=said), RawClient(backend.ws_port) as client:
                client.send(said)
                while client.fill():
                    pass  # at most an alert; then the end, by the deadline where more could come
        wait_until(lambda: backend.fetch("/health").status == 200, 10, "it to be well")
        wait_until(lambda: json.loads(backend.fetch("/metrics?format=json").body)["connections"]["open"] <= 1, 10,
                   "no connection left")

    def test_a_storm_of_handshakes_does_not_hold_up_requests(self):
        backend = self.scene()
        context = client_context()

        def storm():
            return [TlsClient(backend.ws_port, context).close() for _ in range(60)]

        def ask():
            return [backend.fetch("/healthz").status for _ in range(60)]

        results = self.together(storm, storm, ask)
        self.assertEqual(results[2], [200] * 60)

    def test_sighup_reads_the_certificate_again(self):
        certificate, key = make_certificate(self.folder, "first")
        served = os.path.join(self.folder, "served.crt"), os.path.join(self.folder, "served.key")
        for source, target in zip((certificate, key), served):
            shutil.copy(source, target)
        backend = self.chat_backends(1, wss=True, ws_echo=True, tls_cert=served[0], tls_key=served[1])[0]

        def presented():
            with TlsClient(backend.ws_port) as client:
                return client.certificate()

        def der(path):
            with open(path, encoding="ascii") as file:
                return ssl.PEM_cert_to_DER_cert(file.read())

        self.assertEqual(presented(), der(certificate))
        with WebSocket(TlsClient(backend.ws_port)) as open_before:
            second = make_certificate(self.folder, "second")
            for source, target in zip(second, served):
                shutil.copy(source, target)
            backend.signal(signal.SIGHUP)
            wait_until(lambda: presented() == der(second[0]), 5, "the new certificate")
            with open(served[0], "w", encoding="ascii") as file:
                file.write("nonsense\n")
            backend.signal(signal.SIGHUP)
            wait_until(lambda: "the certificate in force stays" in backend.log(), 5, "the refusal")
            self.assertEqual(presented(), der(second[0]))
            open_before.send("still here")
            self.assertEqual(open_before.read_text(), "still here")

    def test_three_first_starts_agree_on_one_certificate(self):
        backends = self.chat_backends(3, wss=True, ws_echo=True)
        presented = set()
        for backend in backends:
            with TlsClient(backend.ws_port) as client:
                presented.add(client.certificate())
        self.assertEqual(len(presented), 1)
        folder = os.path.join(self.folder, "data")
        self.assertEqual(sorted(os.listdir(os.path.join(folder, "tls"))), ["tls.crt", "tls.key"])
        self.assertEqual(os.stat(os.path.join(folder, "tls", "tls.key")).st_mode & 0o777, 0o600)
        self.assertEqual(glob.glob(os.path.join(folder, ".tls*")), [])
        trusted = ssl.create_default_context(cafile=os.path.join(folder, "tls", "tls.crt"))
        with socket.create_connection(("127.0.0.1", backends[0].ws_port)) as raw:
            trusted.wrap_socket(raw, server_hostname="localhost").close()
        backends[0].terminate()
        backends[0].start()  # the second time nothing is made
        with TlsClient(backends[0].ws_port) as client:
            self.assertEqual({client.certificate()}, presented)

    def test_beside_postgresql_a_certificate_must_be_given(self):
        data = os.path.join(self.folder, "data")
        os.mkdir(data, 0o700)
        write_key(os.path.join(data, "encryption.key"))
        for more in ((), ("-t",)):
            code, _, error = run([program("backend"), "--http-port=0", "--ws-port=0", f"--data-dir={data}", *more],
                                 DATABASE_URL="postgresql://chat_user@127.0.0.1:1/chat")
            self.assertEqual(code, 2, error)
            self.assertIn("tls-cert", error.splitlines()[0])
        self.assertFalse(os.path.exists(os.path.join(data, "tls")))

    def test_a_port_in_use_or_a_bad_certificate_is_told(self):
        certificate, key = make_certificate(self.folder)
        with open(certificate, "w", encoding="ascii") as file:
            file.write("nonsense\n")
        common = [program("backend"), "--http-port=0", f"--data-dir={self.folder}/data"]
        code, _, error = run([*common, "--ws-port=0", f"--tls-cert={certificate}", f"--tls-key={key}"])
        self.assertEqual((code, certificate in error), (2, True), error)
        with socket.socket() as taken:
            taken.bind(("0.0.0.0", 0))
            taken.listen()
            code, _, error = run([*common, f"--ws-port={taken.getsockname()[1]}"])
        self.assertEqual((code, "ws-port" in error), (1, True), error)


class ProxyHeaders(Ways):
    V1 = b"PROXY TCP4 192.0.2.7 192.0.2.8 40000 443\r\n"
    V2 = (b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c" + socket.inet_aton("192.0.2.7") + socket.inet_aton("192.0.2.8")
          + struct.pack(">HH", 40000, 443))

    def test_each_version_before_tls_in_any_cut(self):
        backend = self.chat_backends(1, wss=True, ws_echo=True, ws_accept_proxy_protocol=True,
                                     client_header_timeout="3s")[0]
        for header in (self.V1, self.V2, b"PROXY UNKNOWN\r\n"):
            for joined in (False, True):
                with self.subTest(header=header[:12], joined=joined):
                    with WebSocket(TlsClient(backend.ws_port, before=header, joined=joined)) as socket_:
                        socket_.send("through")
                        self.assertEqual(socket_.read_text(), "through")
        with RawClient(backend.ws_port) as client:
            client.send_slowly(self.V2)
            client.sock = client_context().wrap_socket(client.sock, server_hostname="localhost")
            with WebSocket(client) as socket_:
                socket_.send("slowly")
                self.assertEqual(socket_.read_text(), "slowly")
        for said in (b"GET / HTTP/1.1\r\n", b"\x16\x03\x01\x02\x00\x01", b"PROXY TCP4 1.2.3.4", b"PROXY nonsense\r\n"):
            with self.subTest(said=said), RawClient(backend.ws_port) as client:
                client.send(said)
                self.assertFalse(client.fill())  # closed without a word: at once, or by the deadline
        self.assertEqual(json.loads(backend.fetch("/metrics?format=json").body)["tls"]["proxy_headers_bad"], 4)


class Leaving(Ways):
    def test_ch_12_a_drain_tells_all_and_ends_in_spite_of_stalled_clients(self):
        backend = self.scene(drain_notice="1s", drain_timeout="5s")
        live = [WebSocket(connect()) for connect in self.ways.values() for _ in range(12)]
        stalled = [WebSocket(self.ways[way](receive_buffer=4096)) for way in ("plain", "lb") for _ in range(5)]
        for socket_ in stalled:  # echoes that nobody reads: their Close can't come through
            socket_.send(b"x" * 400000)
        wait_until(lambda: self.figures()["messages_received"] == 10, 20, "their messages")
        backend.signal(signal.SIGTERM)
        wait_until(lambda: backend.fetch("/health").status == 503, 5, "the drain")
        with RawClient(backend.port) as client:
            client.send(request())
            self.assertEqual(client.read_response().status, 503)
        for socket_ in live:
            opcode, payload = socket_.read_frame()
            self.assertEqual((opcode, payload[:2]), (CLOSE, struct.pack(">H", 1001)))
            socket_.client.send(closing(1001))
            self.assertEqual(socket_.rest(), b"")
        self.assertEqual(backend.terminate(), 0)
        for socket_ in live + stalled:
            socket_.client.close()

    def test_a_second_signal_cuts_sessions_too(self):
        backend = self.scene(drain_notice="30s", drain_timeout="30s")
        sockets = [WebSocket(self.ways["tls"]()) for _ in range(10)]
        backend.signal(signal.SIGTERM)
        wait_until(lambda: backend.fetch("/healthz").status == 503, 5, "the drain")
        backend.signal(signal.SIGTERM)
        self.assertEqual(backend.wait(), 0)
        for socket_ in sockets:
            data = socket_.rest()
            self.assertEqual(data[2:4], struct.pack(">H", 1001), data)
            socket_.client.close()


if __name__ == "__main__":
    main()
