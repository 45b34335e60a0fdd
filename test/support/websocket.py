"""WebSocket by bytes: frames as the cases write them, and a client on a raw connection, plain or TLS."""

import base64
import os
import struct

from raw import Incomplete

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
KEY = "dGhlIHNhbXBsZSBub25jZQ=="


def hexed(text):
    """`01 81 MK E2`: hexadecimal, MK is the mask 00000000."""
    return bytes.fromhex(text.replace("MK", "00000000").replace(" ", ""))


def mask(payload, key):
    key = (key * (len(payload) // 4 + 1))[: len(payload)]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")).to_bytes(len(payload), "big")


def frame(payload=b"", opcode=TEXT, final=True, key=None):
    """As a client sends it."""
    payload = payload.encode() if isinstance(payload, str) else payload
    key = os.urandom(4) if key is None else key
    size = len(payload)
    head = bytes([opcode | (0x80 if final else 0)])
    if size < 126:
        head += bytes([0x80 | size])
    elif size < 65536:
        head += bytes([0x80 | 126]) + struct.pack(">H", size)
    else:
        head += bytes([0x80 | 127]) + struct.pack(">Q", size)
    return head + key + mask(payload, key)


def closing(code=1000):
    return frame(struct.pack(">H", code), CLOSE)


def request(path="/echo", headers=(), key=KEY, version="13"):
    lines = [f"GET {path} HTTP/1.1", "Host: chat.example", "Connection: Upgrade", "Upgrade: websocket",
             f"Sec-WebSocket-Version: {version}", f"Sec-WebSocket-Key: {key}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


class WebSocket:
    """A session on `client`, which is owned and closed with it. `behind`: bytes that go out with the request."""

    def __init__(self, client, path="/echo", headers=(), behind=b""):
        self.client = client
        key = base64.b64encode(os.urandom(16)).decode()
        client.send(request(path, headers, key) + behind)
        self.response = client.read_head()
        if self.response.status != 101:
            raise AssertionError(f"no WebSocket: {self.response} {client.buffer[:200]!r}")

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.client.close()

    def send(self, payload, opcode=TEXT, final=True):
        self.client.send(frame(payload, opcode, final))

    def send_hex(self, text):
        self.client.send(hexed(text))

    def read_frame(self):
        """(opcode, payload) of the next frame, which is whole, unmasked and minimal."""
        first, second = self.client.read_exactly(2)
        assert first & 0xF0 == 0x80 and not second & 0x80, (first, second)
        size = second
        if second == 126:
            size = struct.unpack(">H", self.client.read_exactly(2))[0]
            assert size >= 126
        elif second == 127:
            size = struct.unpack(">Q", self.client.read_exactly(8))[0]
            assert size >= 65536
        return first & 15, self._read(size)

    def _read(self, size):
        """Without gluing a large payload together again and again."""
        parts = []
        while size > len(self.client.buffer):
            size -= len(self.client.buffer)
            parts.append(self.client.buffer)
            self.client.buffer = b""
            if not self.client.fill():
                raise Incomplete(f"{size} bytes of a frame are missing")
        return b"".join(parts) + self.client.read_exactly(size)

    def read_text(self):
        """The next message, pings answered meanwhile."""
        while True:
            opcode, payload = self.read_frame()
            if opcode == PING:
                self.client.send(frame(payload, PONG))
                continue
            assert opcode == TEXT, (opcode, payload[:100])
            return payload.decode()

    def read_close(self):
        """The code of the Close that comes next and the end behind it; None: the end came without one."""
        try:
            opcode, payload = self.read_frame()
        except Incomplete:
            return None
        assert opcode == CLOSE, (opcode, payload[:100])
        while self.client.fill():
            pass
        assert not self.client.buffer, self.client.buffer[:100]
        return struct.unpack(">H", payload[:2])[0] if payload else 1005

    def rest(self):
        """All bytes up to the end."""
        while self.client.fill():
            pass
        data, self.client.buffer = self.client.buffer, b""
        return data
