"""A raw-socket HTTP client that reads strictly: it tells a complete response from one that broke off, and sees every
byte. `wire()` turns the cases' notation into bytes: `|` is CRLF."""

import socket
import struct
import time

from waiting import TIME_FACTOR


def wire(text):
    return text.replace("|", "\r\n").encode("latin-1")


G = wire("GET / HTTP/1.1|Host: a||")


class Incomplete(Exception):
    """The connection ended in the middle of a message."""


class Response:
    def __init__(self):
        self.status = 0
        self.reason = ""
        self.version = ""
        self.headers = []  # (lower-case name, value) in order
        self.trailers = []
        self.body = b""
        self.body_size = 0
        self.complete = False  # its framing says that all of it came
        self.interim = []  # statuses of 1xx before it
        self.framing = "none"  # none, length, chunked, close
        self.raw_head = b""

    def header(self, name, default=None):
        name = name.lower()
        for key, value in self.headers:
            if key == name:
                return value
        return default

    def all(self, name):
        return [value for key, value in self.headers if key == name.lower()]

    def __repr__(self):
        return f"<Response {self.status} {self.headers} {self.body[:80]!r} complete={self.complete}>"


class RawClient:
    """`before` goes out first; with `joined` it shares a segment with what comes behind it."""

    def __init__(self, port, host="127.0.0.1", timeout=15.0, receive_buffer=0, before=b"", joined=False):
        self.timeout = timeout * TIME_FACTOR
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.sock.settimeout(self.timeout)
        self.sock.connect((host, port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if before:
            self.sock.sendall(before, socket.MSG_MORE if joined else 0)
        self.buffer = b""
        self.eof = False
        self.was_reset = False

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def send(self, data):
        self.sock.sendall(wire(data) if isinstance(data, str) else data)

    def send_slowly(self, data):
        """One byte a segment."""
        for index in range(len(data)):
            self.sock.sendall(data[index : index + 1])

    def shutdown_write(self):
        self.sock.shutdown(socket.SHUT_WR)

    def close(self):
        self.sock.close()

    def reset(self):
        """Leaves with a RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def fill(self):
        """Reads once more; False at the end of the stream."""
        if self.eof:
            return False
        try:
            data = self.sock.recv(262144)
        except ConnectionResetError:
            data = b""
            self.was_reset = True
        if not data:
            self.eof = True
            return False
        self.buffer += data
        return True

    def read_exactly(self, count):
        while len(self.buffer) < count:
            if not self.fill():
                raise Incomplete(f"{len(self.buffer)} of {count} bytes")
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def read_line(self):
        while b"\r\n" not in self.buffer:
            if not self.fill():
                raise Incomplete(f"no end of line in {self.buffer[:200]!r}")
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def read_head(self):
        """One response head, interim or final."""
        while b"\r\n\r\n" not in self.buffer:
            if not self.fill():
                raise Incomplete(f"no complete head in {self.buffer[:200]!r}")
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        response = Response()
        response.raw_head = head
        lines = head.decode("latin-1").split("\r\n")
        parts = lines[0].split(" ", 2)
        response.version, response.status = parts[0], int(parts[1])
        response.reason = parts[2] if len(parts) > 2 else ""
        for line in lines[1:]:
            name, value = line.split(":", 1)
            assert name == name.strip() and name, f"bad field line {line!r}"
            response.headers.append((name.lower(), value.strip()))
        return response

    def _piece(self, response, data, sink):
        response.body_size += len(data)
        if sink is not None:
            sink(data)
        else:
            response.parts.append(data)

    def _read_counted(self, response, count, sink):
        while count:
            if not self.buffer and not self.fill():
                raise Incomplete(f"{count} bytes of body are missing")
            data, self.buffer = self.buffer[:count], self.buffer[count:]
            count -= len(data)
            self._piece(response, data, sink)

    def read_response(self, method="GET", sink=None):
        """A final response with its body; `complete` is False when the connection broke off inside the body. With
        `sink` body bytes go there instead of into .body."""
        interim = []
        while True:
            response = self.read_head()
            if 100 <= response.status < 200 and response.status != 101:
                interim.append(response.status)
                continue
            break
        response.interim = interim
        response.parts = []
        length, coding = response.all("content-length"), response.all("transfer-encoding")
        try:
            if method == "HEAD" or response.status in (101, 204, 304):
                response.framing = "none"
            elif coding:
                assert coding == ["chunked"] and not length, f"{coding} {length}"
                response.framing = "chunked"
                while True:
                    size = int(self.read_line().split(b";")[0], 16)
                    if size == 0:
                        break
                    self._read_counted(response, size, sink)
                    assert self.read_exactly(2) == b"\r\n"
                while True:
                    line = self.read_line()
                    if not line:
                        break
                    name, value = line.decode("latin-1").split(":", 1)
                    response.trailers.append((name.lower(), value.strip()))
            elif length:
                assert len(length) == 1, f"Content-Length {length}"
                response.framing = "length"
                self._read_counted(response, int(length[0]), sink)
            else:
                response.framing = "close"
                while self.buffer or self.fill():
                    data, self.buffer = self.buffer, b""
                    self._piece(response, data, sink)
                if self.was_reset:
                    raise Incomplete("reset instead of an end")
            response.complete = True
        except Incomplete:
            response.complete = False
        response.body = b"".join(response.parts)
        return response

    def request(self, data, method="GET"):
        self.send(data)
        return self.read_response(method)

    def read_to_end(self):
        """All that comes until the connection is closed, however that happens."""
        while self.fill():
            pass
        data, self.buffer = self.buffer, b""
        return data

    def closed_within(self, seconds):
        """True when the peer closes in that time; what came until then stays in .buffer."""
        deadline = time.monotonic() + seconds * TIME_FACTOR
        try:
            while not self.eof:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self.sock.settimeout(left)
                self.fill()
            return True
        except TimeoutError:
            return False
        finally:
            self.sock.settimeout(self.timeout)


def fetch(port, target="/", method="GET", body=b"", headers=(), host="127.0.0.1", timeout=15.0, before=b""):
    """One request on a connection of its own."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}:{port}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers]
    if body or method in ("POST", "PUT", "PATCH"):
        lines.append(f"Content-Length: {len(body)}")
    with RawClient(port, host, timeout, before=before) as client:
        client.send(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body)
        response = client.read_response(method)
    if not response.complete:
        raise Incomplete(f"{method} {target}: the body broke off after {response.body_size} bytes")
    return response
