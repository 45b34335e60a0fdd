"""Between a client and a backend: passes everything on, but for the faults that a test plants in feeds and in the
frames of the chat. `feed(rows)` changes the list of a feed's messages; `frames(number, text)` gives what goes to the
client for the text frame `number` (from 0, of the messages of one connection)."""

import json
import socket
import struct
import threading

from raw import fetch


class AlteringProxy:
    def __init__(self, backend_port):
        self.backend_port = backend_port
        self.feed = self.frames = None
        self.chats = 0  # connections of the chat so far, since plant()
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self.listener.close()

    def plant(self, feed=None, frames=None):
        """`frames` only on the first connection of the chat from now on."""
        with self.lock:
            self.feed, self.frames, self.chats = feed, frames, 0

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with client:
            try:
                head = b""
                while b"\r\n\r\n" not in head:
                    data = client.recv(65536)
                    if not data:
                        return
                    head += data
                if head.startswith(b"GET /feed ") and self.feed:
                    return self._answer_feed(client)
                self._relay(client, head)
            except OSError:
                pass

    def _answer_feed(self, client):
        rows = json.loads(fetch(self.backend_port, "/feed").body)["messages"]
        self.feed(rows)
        body = json.dumps({"messages": rows, "count": len(rows)}).encode()
        client.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    def _relay(self, client, head):
        with socket.create_connection(("127.0.0.1", self.backend_port)) as backend:
            backend.sendall(head)
            threading.Thread(target=self._pump, args=(client, backend), daemon=True).start()
            frames = None
            if b"upgrade: websocket" in head.lower():
                with self.lock:
                    self.chats += 1
                    frames = self.frames if self.chats == 1 else None
            if frames:
                self._pump_frames(backend, client, frames)
            else:
                self._pump(backend, client)

    @staticmethod
    def _pump(source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    @staticmethod
    def _pump_frames(source, sink, frames):
        buffer = b""
        number = 0

        def fill():
            nonlocal buffer
            data = source.recv(65536)
            if not data:
                raise ConnectionError
            buffer += data

        def need(count):
            nonlocal buffer
            while len(buffer) < count:
                fill()
            taken, buffer = buffer[:count], buffer[count:]
            return taken

        while b"\r\n\r\n" not in buffer:
            fill()
        head, buffer = buffer.split(b"\r\n\r\n", 1)
        sink.sendall(head + b"\r\n\r\n")
        while True:
            first, size = need(2)
            size = struct.unpack(">H", need(2))[0] if size == 126 else struct.unpack(">Q", need(8))[0] if size == 127 else size
            payload = need(size)
            texts = [payload]
            if first & 15 == 1 and payload.startswith(b'{"type":"message"'):
                texts = frames(number, payload)
                number += 1
            for text in texts:
                length = bytes([len(text)]) if len(text) < 126 else b"\x7e" + struct.pack(">H", len(text))
                sink.sendall(bytes([first]) + length + text)
