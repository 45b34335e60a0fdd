"""Both ends of a tunnel in a test's hands, and what every kind of tunnel has to keep: bytes, order, ends."""

import hashlib
import os
import random
import select
import socket
import threading

from raw import RawClient
from waiting import TIME_FACTOR, pause, wait_until


class Accepted(RawClient):
    """The far end, with the client's reading and sending."""

    def __init__(self, sock, buffer=b"", timeout=15.0):  # noqa: super().__init__ would connect
        self.timeout = timeout * TIME_FACTOR
        self.sock, self.buffer = sock, buffer
        self.sock.settimeout(self.timeout)
        self.eof = self.was_reset = False


def take_over(connection, timeout=15.0):
    """The socket of a scripted backend's connection, which its thread forgets without closing it."""
    connection.done()
    connection.closed = True
    return Accepted(socket.socket(fileno=os.dup(connection.sock.fileno())), connection.buffer, timeout)


class RawServer:
    """Accepts and does nothing else: who speaks is handed to the test by speaking()."""

    def __init__(self, name="raw", port=0):
        self.name = name
        self.lock, self.silent = threading.Lock(), []
        self.over = False
        self.greeting = b""  # what each connection gets at once
        self.listen(port)

    def listen(self, port):
        self.listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", port))
        self.listener.listen(512)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self.listener,), daemon=True).start()

    def _accept(self, listener):
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                sock.sendall(self.greeting)
            except OSError:
                pass  # a check that has left
            with self.lock:
                if self.over:
                    sock.close()
                else:
                    self.silent.append(Accepted(sock))

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def speaking(self):
        """One connection over which something came, or None; health checks connect and say nothing."""
        with self.lock:
            for peer in list(self.silent):
                if select.select([peer.sock], [], [], 0)[0]:
                    self.silent.remove(peer)
                    if peer.fill():
                        return peer
                    peer.close()
        return None

    def refuse(self):
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()

    def close_all(self):
        self.refuse()
        self.close_silent()

    def close_silent(self):
        """Those who said nothing, and who comes from now on."""
        with self.lock:
            self.over = True
            for peer in self.silent:
                peer.close()
            self.silent.clear()

    def accept_again(self):
        self.listen(self.port)


class TunnelEnds:
    """Mixed into a Case that has `self.lb` and `self.tunnel(**options)` -> (client, far): both ends, nothing in between."""

    def exchange_words(self, client, far, words=b"words"):
        client.send(words)
        self.assertEqual(far.read_exactly(len(words)), words)
        far.send(words[::-1])
        self.assertEqual(client.read_exactly(len(words)), words[::-1])

    def assert_fin(self, end):
        self.assertEqual(end.read_to_end(), b"")
        self.assertFalse(end.was_reset, "a RST instead of a FIN")

    def assert_reset(self, end, before=b""):
        self.assertEqual(end.read_to_end(), before)
        self.assertTrue(end.was_reset, "a FIN instead of a RST")

    def test_words_both_ways(self):
        client, far = self.tunnel()
        for size in (1, 100, 5000, 100_000):
            self.exchange_words(client, far, os.urandom(size))

    def test_the_client_half_closes(self):
        client, far = self.tunnel()
        client.send(b"last")
        client.shutdown_write()
        self.assertEqual(far.read_to_end(), b"last")
        self.assertFalse(far.was_reset)
        for _ in range(3):
            far.send(b"still")
            self.assertEqual(client.read_exactly(5), b"still")
        far.close()
        self.assert_fin(client)

    def test_the_backend_half_closes(self):
        client, far = self.tunnel()
        far.send(b"last")
        far.shutdown_write()
        self.assertEqual(client.read_to_end(), b"last")
        self.assertFalse(client.was_reset)
        client.send(b"still")
        self.assertEqual(far.read_exactly(5), b"still")
        client.close()
        self.assert_fin(far)

    def test_resets_are_passed_on(self):
        client, far = self.tunnel()
        client.reset()
        self.assert_reset(far)

        client, far = self.tunnel()
        far.reset()
        self.assert_reset(client)

    def test_a_reset_behind_a_half_close(self):
        client, far = self.tunnel()
        client.shutdown_write()
        self.assert_fin(far)
        far.reset()
        self.assert_reset(client)

        client, far = self.tunnel()
        far.shutdown_write()
        self.assert_fin(client)
        client.reset()
        # Its own FIN has been passed on; writing finds the reset.
        wait_until(lambda: self.fails(far), 5, "the reset at the far end")

    @staticmethod
    def fails(end):
        try:
            end.send(b"x")
        except OSError:
            return True
        return False

    def test_what_came_before_a_reset_arrives(self):
        client, far = self.tunnel()
        far.send(b"last words")
        far.reset()
        self.assert_reset(client, b"last words")

    def test_bulk_both_ways_with_slow_readers(self):
        size = 16 << 20
        client, far = self.tunnel()
        for end in (client, far):  # what the kernel may hold is bounded, so that the senders are stopped
            end.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 262144)
            end.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 262144)
        resident = self.lb.rss()
        stalled = [threading.Event(), threading.Event()]
        sent = [0, 0]

        def sender(index, end, seed):
            data = random.Random(seed).randbytes(size)
            view = memoryview(data)
            while sent[index] < size:
                sent[index] += end.sock.send(view[sent[index]:sent[index] + 65536])
            end.shutdown_write()
            return hashlib.sha256(data).hexdigest()

        def reader(end):
            for event in stalled:
                event.wait(30 * TIME_FACTOR)
            digest, total = hashlib.sha256(), 0
            while end.fill():
                digest.update(end.buffer)
                total += len(end.buffer)
                end.buffer = b""
                if total % 7 == 0:
                    pause(0.001)
            self.assertEqual(total, size)
            return digest.hexdigest()

        def watcher():
            """Nobody reads yet: both senders come to a stop, and the balancer holds next to nothing of theirs."""
            try:
                for index in range(2):
                    last = -1
                    while last != sent[index] or sent[index] == 0:
                        last = sent[index]
                        pause(0.1)
                # Before the readers begin: what was sent from here on says nothing any more.
                self.assertLess(max(sent), size)
            finally:
                for event in stalled:
                    event.set()
            self.assertLess(self.lb.rss() - resident, 4 << 20)

        got = self.together(lambda: sender(0, client, 1), lambda: sender(1, far, 2), lambda: reader(client),
                            lambda: reader(far), watcher)
        self.assertEqual((got[0], got[1]), (got[3], got[2]))
        client.close()
        far.close()
        self.assertLess(self.lb.rss() - resident, 4 << 20)
