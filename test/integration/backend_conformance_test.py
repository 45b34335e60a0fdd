"""RFC 6455 as the Autobahn suite asks it of a server, group by group, on /echo and every way in; what stands in
backend_websocket_test.py is not repeated."""

import os
import struct

from case import main
from websocket import BINARY, CLOSE, PING, PONG, TEXT, WebSocket, closing, frame
from websocket_case import Framing

CONTINUED = 0
SIZES = (0, 1, 124, 125, 126, 127, 128, 65534, 65535, 65536, 65537)
FAIL, BAD_TEXT = b"\x88\x02\x03\xea", b"\x88\x02\x03\xef"
# Text up to its first byte that no continuation can make good: that byte is the last one.
WRONG_FROM = ["80", "BF", "C0", "C1", "FE", "FF", "F5", "F8", "FC", "61 80", "CE BA E1 BD B9 CF 83 CE BC CE B5 ED A0",
              "CE BA E1 BD B9 CF 83 CE BC CE B5 F4 90", "E0 80", "E0 9F", "F0 80", "F0 8F", "ED BF", "C3 28", "E2 28", "E2 82 28",
              "F0 90 28", "F0 90 80 28", "C2 C2", "E1 80 C2", "F1 80 80 F1"]
RIGHT = ["00", "7F", "C2 80", "DF BF", "E0 A0 80", "ED 9F BF", "EE 80 80", "EF BB BF", "EF BF BD", "EF BF BE", "F0 90 80 80",
         "F3 BF BF BF", "F4 8F BF BF"]


class Conformance(Framing):
    path = "/echo"

    def open(self, connect):
        return WebSocket(connect(), self.path)

    def check_stories(self, stories):
        """What comes back to the end for bytes, whole and one byte at a time."""
        for connect in self.each_way():
            for index, (sent, expected) in enumerate(stories):
                for slowly in (False, True) if len(sent) < 100 else (False,):
                    with self.subTest(story=index, slowly=slowly), self.open(connect) as socket:
                        (socket.client.send_slowly if slowly else socket.client.send)(sent)
                        self.assertEqual(socket.rest(), expected)
        self.wait_gone()

    def test_1_and_9_sizes_whole_and_chopped(self):
        """Frames of every length form, also in small segments, and messages of many frames."""
        for connect in self.each_way():
            with self.open(connect) as socket:
                for opcode in (TEXT, BINARY):
                    for size in SIZES:
                        payload = b"*" * size if opcode == TEXT else os.urandom(size)
                        sent = frame(payload, opcode)
                        step = max(1, len(sent) // 60) if size > 200 else 1
                        for at in range(0, len(sent), step):
                            socket.client.send(sent[at : at + step])
                        self.assertEqual(socket.read_frame(), (opcode, payload))
                for piece in (64, 1024, 1 << 16):
                    payload = os.urandom(piece * 64)
                    socket.client.send(b"".join(frame(payload[at : at + piece], BINARY if at == 0 else CONTINUED,
                                                      at + piece == len(payload)) for at in range(0, len(payload), piece)))
                    self.assertEqual(socket.read_frame(), (BINARY, payload))

    def test_2_pings_of_all_sizes(self):
        for connect in self.each_way():
            with self.open(connect) as socket:
                for payload in (b"", b"Hello", b"\x00\xff\xfe\xfd\xfc\xfb\x00\xff", b"\xfe" * 125):
                    socket.send(payload, PING)
                    self.assertEqual(socket.read_frame(), (PONG, payload))
                    socket.client.send_slowly(frame(payload, PING))
                    self.assertEqual(socket.read_frame(), (PONG, payload))
                socket.client.send(frame(b"nobody asked", PONG) + frame(b"", PONG) + frame(b"asked", PING))
                self.assertEqual(socket.read_frame(), (PONG, b"asked"))
        self.check_stories([(frame(b"\xfe" * 126, PING)[:8] + b"\xfe" * 126, FAIL)])

    def test_3_and_4_reserved_bits_and_opcodes_behind_good_frames(self):
        good = frame("good")
        echo = b"\x81\x04good"
        stories = [(good + bytes([first, 0x80]) + b"\0" * 4, echo + FAIL)
                   for first in (0x91, 0xA1, 0xB1, 0xC1, 0xD2, 0x99, 0xA8, *(0x80 | code for code in (3, 4, 5, 6, 7)),
                                 *(0x80 | code for code in (11, 12, 13, 14, 15)))]
        self.check_stories(stories)

    def test_5_fragments(self):
        """With pings between them: the pong comes first. And what can't follow what."""
        pieces = [frame("frag", TEXT, False), frame("ping", PING), frame("", CONTINUED, False), frame("pong", PONG),
                  frame("ment", CONTINUED, False), frame("again", PING), frame("ed", CONTINUED)]
        expected = [(PONG, b"ping"), (PONG, b"again"), (TEXT, b"fragmented")]
        for connect in self.each_way():
            with self.open(connect) as socket:
                for send in (lambda: socket.client.send(b"".join(pieces)), lambda: [socket.client.send(one) for one in pieces],
                             lambda: socket.client.send_slowly(b"".join(pieces))):
                    send()
                    self.assertEqual([socket.read_frame() for _ in expected], expected)
                socket.client.send(frame("", TEXT, False) + frame("", CONTINUED, False) + frame("", CONTINUED))
                self.assertEqual(socket.read_frame(), (TEXT, b""))
        whole, echo = frame("whole"), b"\x81\x05whole"
        self.check_stories([
            (frame("p", PING, False), FAIL), (frame("p", PONG, False), FAIL),
            (frame("x", CONTINUED), FAIL), (frame("x", CONTINUED, False), FAIL),
            (whole + frame("x", CONTINUED), echo + FAIL),
            (frame("a", TEXT, False) + frame("b", CONTINUED) + frame("c", CONTINUED, False), b"\x81\x02ab" + FAIL),
            (frame("a", TEXT, False) + frame("b", TEXT), FAIL), (frame("a", TEXT, False) + frame("b", BINARY, False), FAIL),
            (frame("a", BINARY, False) + frame("p", PING) + frame("b", TEXT), b"\x8a\x01p" + FAIL)])

    def test_6_text_fails_at_its_first_wrong_byte(self):
        """Each byte is a fragment with a ping behind it: pongs come up to the wrong byte, and 1007 without waiting for more."""
        for connect in self.each_way():
            for case in WRONG_FROM:
                *good, last = bytes.fromhex(case)
                with self.subTest(text=case), self.open(connect) as socket:
                    sent = frame("", TEXT, False)
                    sent += b"".join(frame(bytes([byte]), CONTINUED, False) + frame("", PING) for byte in good)
                    socket.client.send(sent)
                    self.assertEqual([socket.read_frame() for _ in good], [(PONG, b"")] * len(good))
                    socket.client.send(frame(bytes([last]), CONTINUED, False))
                    self.assertEqual(socket.rest(), BAD_TEXT)
        # In the middle of a frame whose rest never comes; and cut off inside a character.
        self.check_stories([(frame(bytes.fromhex(case) + b"x" * 20)[:-20], BAD_TEXT) for case in WRONG_FROM] +
                           [(frame(bytes.fromhex(case)), BAD_TEXT) for case in ("CE", "E2 82", "F0 90 80", "61 C3")])
        for connect in self.each_way():
            with self.open(connect) as socket:
                for case in RIGHT:
                    text = bytes.fromhex(case)
                    bytewise = b"".join(frame(bytes([byte]), CONTINUED, False) for byte in text)
                    socket.client.send(frame("", TEXT, False) + bytewise + frame("", CONTINUED) + frame(text))
                    self.assertEqual([socket.read_frame(), socket.read_frame()], [(TEXT, text)] * 2)

    def test_7_closing(self):
        """What comes behind a Close is not looked at; codes and reasons."""
        def close(payload):
            return frame(payload, CLOSE)

        def coded(code, reason=b""):
            return struct.pack(">H", code) + reason

        bye = b"\x88\x02\x03\xe8"
        stories = [(closing() + behind, bye) for behind in (frame("text"), frame("p", PING), frame("x", CONTINUED), closing(),
                                                            b"\xff\xff")]
        stories += [(frame("a", TEXT, False) + closing() + frame("b", CONTINUED), bye),
                    (frame("x" * 70000) + closing(), b"\x81\x7f" + struct.pack(">Q", 70000) + b"x" * 70000 + bye)]
        stories += [(close(coded(code)), b"\x88\x02" + coded(code))
                    for code in (1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999)]
        stories += [(close(coded(code)), FAIL) for code in (0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535)]
        stories += [(close(b"\x03"), FAIL), (frame(coded(1000, b"x" * 124), CLOSE), FAIL),
                    (frame(coded(1000), CLOSE, False), FAIL),
                    (close(coded(1000, b"\xce\xba\xe1")), BAD_TEXT), (close(coded(1000, b"\xf4\x90\x80\x80")), BAD_TEXT)]
        self.check_stories(stories)
        for connect in self.each_way():
            for reason in (b"bye", "κόσμε".encode(), b"*" * 123):
                with self.open(connect) as socket:
                    socket.client.send(close(coded(1000, reason)))
                    self.assertEqual(socket.read_close(), 1000)


if __name__ == "__main__":
    main()
