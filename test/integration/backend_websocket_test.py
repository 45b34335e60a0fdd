"""WebSocket framing as bytes, on /echo and at the chat: directly, by TLS, and through the balancer, as HTTP upgrade (plain and
over its TLS) and by wss-listen. What else the Autobahn suite asks: backend_conformance_test.py."""

import os

from case import main
from websocket import BINARY, PING, PONG, TEXT, WebSocket, closing, frame, hexed
from websocket_case import Framing


class Cases:
    def test_ch_01_unmasked_frames_fail(self):
        self.check_each([("81 02 68 69", "88 02 03EA"), ("81 02", "88 02 03EA"), ("88 00", "88 02 03EA")])

    def test_ch_02_utf8_over_fragments(self):
        for connect in self.each_way():
            with WebSocket(connect(), self.path) as socket:
                for part in ("01 81 MK E2", "00 81 MK 82", "80 81 MK AC"):
                    socket.send_hex(part)
                self.check_answer(socket, "\u20ac")
                socket.send_hex("81 83 MK EF BF BF")
                self.check_answer(socket, "\uffff")
                for part in ("01 8A MK 7B2274797065223A22E2", "00 81 MK 82", "80 83 MK AC227D"):
                    socket.send_hex(part)
                self.check_answer(socket, '{"type":"\u20ac"}')
        self.check_each([("81 82 MK C3 28", "88 02 03EF"), ("01 81 MK E2 80 80 MK", "88 02 03EF"),
                         ("81 94 MK CE BA E1 BD B9 CF 83 CE BC CE B5 F4 90", "88 02 03EF")])

    def test_ch_04_close_codes(self):
        echoed = [("88 80 MK", "88 00"), ("88 82 MK 03E8 89 80 MK", "88 02 03E8")]
        echoed += [(f"88 82 MK {code}", f"88 02 {code}") for code in ("03E9", "03EF", "03F3", "03F6", "0BB8", "0FA0", "1387")]
        bad = [(f"88 82 MK {code}", "88 02 03EA") for code in ("03ED", "03EE", "03F7", "0000", "03E7", "07D0", "03EC", "1388")]
        self.check_each(echoed + bad + [("88 81 MK 03", "88 02 03EA"), ("88 84 MK 03E8 FFFF", "88 02 03EF")])

    def test_ch_05_pings(self):
        for connect in self.each_way():
            with WebSocket(connect(), self.path) as socket:
                socket.send_hex("89 84 MK 70696E67")
                self.assertEqual(socket.client.read_exactly(6), hexed("8A 04 70696E67"))
                socket.send_hex("01 81 MK 61 89 81 MK 70 80 81 MK 62")
                self.assertEqual(socket.read_frame(), (PONG, b"p"))
                self.check_answer(socket, "ab")
                for index in range(10):
                    socket.send(str(index), PING)
                self.assertEqual([socket.read_frame() for _ in range(10)], [(PONG, b"%d" % i) for i in range(10)])
                socket.send("unasked", PONG)
                socket.send("on")
                self.check_answer(socket, "on")
        self.check_each([("89 FE 007E MK" + "00" * 126, "88 02 03EA"), ("09 80 MK", "88 02 03EA")])

    def test_ch_11_reserved_bits_and_offers(self):
        self.check_each([("C1 82 MK 6869", "88 02 03EA"), ("A1 80 MK", "88 02 03EA"), ("83 80 MK", "88 02 03EA"),
                         ("8B 80 MK", "88 02 03EA")])
        offer = ["Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits", "Sec-WebSocket-Protocol: chat"]
        for connect in self.each_way():
            with WebSocket(connect(), self.path, offer) as socket:
                self.assertIsNone(socket.response.header("Sec-WebSocket-Extensions"))
                self.assertIsNone(socket.response.header("Sec-WebSocket-Protocol"))
                self.assertEqual(socket.response.header("X-Backend"), "sys2")

    def test_lengths_and_fragments(self):
        self.check_each([("81 FE 007D MK", "88 02 03EA"), ("82 FF 80", "88 02 03EA"), ("80 80 MK", "88 02 03EA"),
                         ("01 81 MK 61 81 81 MK 62", "88 02 03EA"), (self.too_large, "88 02 03F1")])


class EchoCases(Cases, Framing):
    path, too_large = "/echo", "82 FF 0000000001000001"  # 16 MiB and a byte, from the header alone


class ChatCases(Cases, Framing):
    path, too_large = "/ws", "81 FF 0000000000080001"  # 512 KiB and a byte


class Echo(Framing):
    path = "/echo"

    def test_messages_of_all_sizes_in_any_cut(self):
        def echo(connect):
            with WebSocket(connect()) as socket:
                for size in (0, 1, 125, 126, 127, 1000, 65535, 65536, 300000):
                    payload = os.urandom(size)
                    socket.send(payload, BINARY)
                    self.assertEqual(socket.read_frame(), (BINARY, payload))
                text = "aé€😀" * 5000
                data = text.encode()
                socket.client.send(b"".join(frame(data[i : i + 997], TEXT if i == 0 else 0, i + 997 >= len(data))
                                            for i in range(0, len(data), 997)))
                self.assertEqual(socket.read_text(), text)
                socket.client.send_slowly(frame("byte by byte", key=b"\x01\x02\x03\x04"))
                self.assertEqual(socket.read_text(), "byte by byte")
                socket.client.send(b"".join(frame(str(i)) for i in range(2000)))
                self.assertEqual([socket.read_text() for _ in range(2000)], [str(i) for i in range(2000)])

        for connect in self.each_way():
            echo(connect)

    def test_16_mebibytes_come_back(self):
        payload = os.urandom(1 << 20) * 16
        sent = frame(payload, BINARY)
        for connect in self.each_way():
            with WebSocket(connect()) as socket:
                socket.client.send(sent)  # the echo begins behind its last byte
                opcode, got = socket.read_frame()
                self.assertEqual((opcode, got == payload), (BINARY, True))

    def test_frames_in_the_segment_of_the_request(self):
        for connect in self.each_way():
            with WebSocket(connect(), behind=frame("early") + closing(3000)) as socket:
                self.assertEqual(socket.read_text(), "early")
                self.assertEqual(socket.read_close(), 3000)

    def test_the_end_without_a_close(self):
        for connect in self.each_way():
            with WebSocket(connect()) as socket:
                socket.send("last words")
                self.assertEqual(socket.read_text(), "last words")
                socket.client.send(frame("cut off")[:5])
        self.wait_gone()
        ended = self.figures()["ended"]
        self.assertEqual(ended["peer"] + ended["broken"], len(self.ways))

    def test_a_client_that_does_not_answer_our_close_is_not_waited_for(self):
        with WebSocket(self.ways["tls"]()) as socket:
            socket.send_hex("81 02")
            self.assertEqual(socket.rest(), hexed("88 02 03EA"))
            self.wait_gone()  # our end of the connection stays open



if __name__ == "__main__":
    main()
