"""Scripted raw-socket backends: servers whose every byte a test decides. One thread a connection; the balancer's own
probes (/health, /internal/stats) are answered apart and never counted as traffic."""

import json
import socket
import struct
import threading

from ports import free_port
from raw import wire

OK = wire("HTTP/1.1 200 OK|Content-Length: 2||ok")


class Request:
    def __init__(self, head):
        self.raw_head = head
        lines = head.decode("latin-1").split("\r\n")
        self.line = lines[0]
        self.method, self.target, self.version = lines[0].split(" ", 2)
        self.headers = []
        for line in lines[1:]:
            name, _, value = line.partition(":")
            self.headers.append((name.lower(), value.strip()))
        self.body = None  # read by Connection.body()
        self.trailers = []

    def header(self, name, default=None):
        for key, value in self.headers:
            if key == name.lower():
                return value
        return default

    def all(self, name):
        return [value for key, value in self.headers if key == name.lower()]

    @property
    def path(self):
        return self.target.split("?", 1)[0]

    def __repr__(self):
        return f"<Request {self.line} {self.headers}>"


class Connection:
    """What a handler sees of one accepted connection."""

    def __init__(self, server, sock, number):
        self.server = server
        self.sock = sock
        self.number = number  # of the traffic connections, from 1
        self.requests = 0  # complete heads read on it so far
        self.buffer = b""
        self.closed = False
        self.running = False  # a request counts in the server's `active`

    def done(self):
        """Takes the request out of `active`: to be called before its answer, which the balancer may act on before this
        thread runs again."""
        with self.server.lock:
            self.server.active -= self.running
            self.running = False

    def fill(self):
        try:
            data = self.sock.recv(262144)
        except OSError:
            data = b""
        self.buffer += data
        return bool(data)

    def head(self):
        """The next request head, or None at the end of the connection."""
        while b"\r\n\r\n" not in self.buffer:
            if not self.fill():
                return None
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        self.requests += 1
        return Request(head)

    def exactly(self, count):
        parts = []
        while count:
            if not self.buffer and not self.fill():
                raise ConnectionError("the request broke off")
            part, self.buffer = self.buffer[:count], self.buffer[count:]
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def line(self):
        while b"\r\n" not in self.buffer:
            if not self.fill():
                raise ConnectionError("the request broke off")
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def body(self, request):
        """Reads the body as the head frames it; strict, so that a mangled chunk fails here."""
        if request.body is not None:
            return request.body
        lengths, codings = request.all("content-length"), request.all("transfer-encoding")
        assert not (lengths and codings) and len(lengths) <= 1, f"ambiguous: {request!r}"
        if codings:
            assert codings == ["chunked"], codings
            parts = []
            while True:
                size = int(self.line().split(b";")[0], 16)
                if size == 0:
                    break
                parts.append(self.exactly(size))
                assert self.exactly(2) == b"\r\n"
            while True:
                line = self.line()
                if not line:
                    break
                request.trailers.append(line.decode("latin-1"))
            request.body = b"".join(parts)
        else:
            request.body = self.exactly(int(lengths[0])) if lengths else b""
        return request.body

    def send(self, data):
        self.sock.sendall(wire(data) if isinstance(data, str) else data)

    def reply(self, status=200, body=b"ok", headers=(), reason="X"):
        head = [f"HTTP/1.1 {status} {reason}", f"Content-Length: {len(body)}"]
        head += [f"{name}: {value}" for name, value in headers]
        self.send(("\r\n".join(head) + "\r\n\r\n").encode("latin-1") + body)

    def close(self):
        """FIN (RST by the kernel when there is unread data)."""
        self.closed = True
        self.sock.close()

    def reset(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def wait_for_end(self):
        """Until the peer closes; False when data came instead."""
        return not self.fill()


class ScriptedBackend:
    """`handler(connection, request)` is called for each request head; it reads the body, if it wants, and answers."""

    def __init__(self, handler=None, name="a", respond=None):
        self.name = name
        self.handler = handler or (lambda connection, request: answer_ok(connection, request, respond))
        self.health = (200, b'{"status":"ok","database":"ok"}')
        self.stats = {"backend-id": name, "cpu_percent": 1.0, "requests": {"in_flight": 0, "total": 0},
                      "memory": memory(10)}  # None: 404
        self.on_probe = None  # on_probe(connection, request): answers probes in place of the two above
        self.requests = []  # traffic, in order of arrival
        self.probes = []
        self.connections = 0  # that carried traffic
        self.active = 0  # handlers running now
        self.peak = 0
        self.errors = []  # what handlers raised
        self.stopped = threading.Event()
        self.lock = threading.Lock()
        self._open = set()
        self.port = free_port()  # reserved: nobody takes it while this one refuses
        self._listen()

    def _listen(self):
        self.listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", self.port))
        self.listener.listen(1024)
        self.acceptor = threading.Thread(target=self._accept, args=(self.listener,), daemon=True)
        self.acceptor.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def refuse(self, cut=False):
        """Connections are refused from now on; with `cut` the open ones are reset too."""
        self._close_listener()
        if cut:
            self.cut()

    def _close_listener(self):
        try:
            self.listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        except OSError:
            pass
        if self.acceptor is not threading.current_thread():
            self.acceptor.join(10)  # whoever it has accepted last is among the open ones
        self.listener.close()

    def cut(self):
        with self.lock:
            connections = list(self._open)
        for connection in connections:
            try:
                connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def accept_again(self):
        self._listen()

    def behave(self):
        """Answers everything from now on, whatever its handler did; handlers that wait are not ended."""
        self.handler = answer_ok
        self.health, self.on_probe = (200, b'{"status":"ok"}'), None
        if self.listener.fileno() < 0:
            self.accept_again()

    def stop(self):
        self.stopped.set()
        self.refuse(cut=True)

    def deliveries(self, method=None):
        with self.lock:
            return sum(1 for request in self.requests if method is None or request.method == method)

    def traffic_connections(self):
        """Open connections that have carried requests, idle ones too."""
        with self.lock:
            return sum(connection.number > 0 for connection in self._open)

    def _accept(self, listener):
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = Connection(self, sock, 0)
            with self.lock:
                self._open.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        try:
            while not connection.closed:
                request = connection.head()
                if request is None:
                    break
                if request.path in ("/health", "/healthz", "/internal/stats"):
                    with self.lock:
                        self.probes.append(request)
                    self._probe(connection, request)
                    continue
                with self.lock:
                    if connection.number == 0:
                        self.connections += 1
                        connection.number = self.connections
                    self.requests.append(request)
                    self.active += 1
                    connection.running = True
                    self.peak = max(self.peak, self.active)
                try:
                    self.handler(connection, request)
                finally:
                    connection.done()
        except OSError:
            pass  # the balancer may close at any time
        except Exception as error:  # noqa: BLE001 - shown by the test
            self.errors.append(error)
        finally:
            with self.lock:
                self._open.discard(connection)
            connection.sock.close()

    def _probe(self, connection, request):
        if self.on_probe is not None:
            self.on_probe(connection, request)
        elif request.path == "/internal/stats":
            if self.stats is None:
                connection.reply(404, b"")
            else:
                connection.reply(200, json.dumps(self.stats).encode())
        else:
            status, body = self.health
            connection.reply(status, body)


def answer_ok(connection, request, respond=None):
    connection.body(request)
    connection.send(respond or OK)


def memory(percent):
    """The memory part of /internal/stats, `percent` of 512 MiB being unreclaimable."""
    limit = 512 << 20
    used = int(limit * percent / 100)
    return {"total_bytes": used, "working_set_bytes": used, "limit_bytes": limit, "total_percent": percent,
            "working_set_percent": percent, "unreclaimable_bytes": used, "unreclaimable_percent": percent,
            "inactive_file_bytes": 0, "sock_bytes": 0, "rss_bytes": used}
