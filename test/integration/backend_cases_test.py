"""What a message may hold, and what repeats of it come to, by HTTP and at the chat: each case on every way in, directly and
through the balancer, plain and by TLS (CH-13, CH-15, CH-17 to CH-21, CH-23, CH-25)."""

import json
import random
import urllib.parse

from case import main
from chat_client import ChatClient, key_of, registration
from websocket_case import Ways

TARGET = "POST /message HTTP/1.1\r\nHost: a\r\n"
NESTED = "[" * 100000
OK = {"client-name": "Ann", "msg": "text"}


class Cases(Ways):
    def setUp(self):
        super().setUp()
        self.scene(ws_register_timeout="2m")
        self.key = key_of("Alice")
        self.registration = registration(self.key, "Alice")

    def post(self, connect, message, kind="application/json"):
        """The status; what is no text is sent as JSON."""
        body = (message if isinstance(message, str) else json.dumps(message)).encode()
        with connect() as client:
            client.send(f"{TARGET}Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            self.answer = client.read_response()
        return self.answer.status

    def person(self, connect):
        """Someone who is in, as Alice."""
        client = ChatClient(connect())
        self.addCleanup(client.close)
        self.assertEqual(client.ask("registered", **self.registration)["type"], "registered")
        client.name, client.key = "Alice", self.key
        return client

    def each_session(self):
        """Such a person on every way; the session is still well at the end of each case."""
        for connect in self.each_way():
            client = self.person(connect)
            yield client
            self.assertEqual(client.ask("pong", type="ping"), {"type": "pong"})

    def check_live(self, client, message_id, text):
        """What comes live with that id; rows of a moment before may come first."""
        while not any(row["message-id"] == message_id for row in client.live):
            client.read()
        self.assertEqual([row["msg"] for row in client.live if row["message-id"] == message_id], [text])

    def refused(self, client, code, message_id, **message):
        answer = client.ask("ack", **{"type": "message", "message_id": message_id, "signature": "AAAA", "msg": "text", **message})
        self.assertEqual((answer["type"], answer.get("code")), ("error", code), answer)

    def count(self):
        return json.loads(self.backend.fetch("/feed").body)["count"]

    def test_ch_13_nul(self):
        for connect in self.each_way():
            for wrong in ({"msg": "x\0y"}, {"message-id": "a\0b"}, {"client-name": "A\0"}):
                self.assertEqual(self.post(connect, {**OK, **wrong}), 400, wrong)
            self.assertEqual(self.post(connect, "client-name=A&msg=%00", "application/x-www-form-urlencoded"), 400)
            with connect() as client:
                for query in ("client-name=A&msg=x&message-id=%00", "client-name=A&msg=x%00y", "client-name=%00&msg=x"):
                    self.assertEqual(client.request(f"GET /message?{query} HTTP/1.1|Host: a||").status, 400)
        for client in self.each_session():
            self.refused(client, "bad_request", "m", msg="x\0y")
            self.refused(client, "bad_request", "a\0b")
        self.assertEqual(self.count(), 0)

    def test_ch_15_repeated_fields(self):
        signed = {"type": "message", "message-id": "m", "msg": "signed",
                  "signature": self.key.sign("dlb-message-v1", "Alice", "m", "signed")}
        for connect in self.each_way():
            for more in (',"msg":"shown"}', ',"m\\u0073g":"shown"}', ',"client-name":"Bob"}'):
                self.assertEqual(self.post(connect, json.dumps(OK)[:-1] + more), 400)
        for client in self.each_session():
            for more in (',"msg":"shown"}', ',"m\\u0073g":"shown"}', ',"message-id":"n"}'):
                client.socket.send(json.dumps(signed)[:-1] + more)
                answer = client.read_until("error", "ack")
                self.assertEqual((answer["type"], answer.get("code")), ("error", "bad_request"))
        self.assertEqual(self.count(), 0)

    def test_ch_17_deep_nesting(self):
        deepest = "[" * 63 + "]" * 63  # 64 levels with the object around it
        for number, connect in enumerate(self.each_way()):
            for text in ('{"client-name":"A","msg":' + NESTED, '{"client-name":"A","msg":"x","ignored":' + NESTED,
                         '{"client-name":"A","msg":"x","ignored":[' + deepest + "]}"):
                self.assertEqual(self.post(connect, text), 400)
            self.assertEqual(self.post(connect, f'{{"client-name":"A","msg":"{number}","ignored":{deepest}}}'), 201)
        for client in self.each_session():
            for text in ('{"type":"message","msg":' + NESTED, '{"type":"ping","ignored":' + NESTED,
                         '{"type":"ping","ignored":[' + deepest + "]}"):
                client.socket.send(text)
                self.assertEqual(client.read_until("error", "pong").get("code"), "bad_json")
            client.socket.send('{"type":"ping","ignored":' + deepest + "}")
            self.assertEqual(client.read_until("pong", "error"), {"type": "pong"})

    def test_ch_18_ids(self):
        chance = random.Random(18)
        wrong = ["".join(chance.choices("abcdefghijklmnop", k=10000)), "a" * 10000, "a" * 129, "", "a\nb", "\U0001f600" * 129]
        right = ["a" * 128, "../x", "\U0001f600" * 64, "\U0001f600" * 128]
        signatures = {message_id: self.key.sign("dlb-message-v1", "Alice", message_id, "text") for message_id in right}
        for number, connect in enumerate(self.each_way()):
            for message_id in wrong:
                self.assertEqual(self.post(connect, {**OK, "message-id": message_id}), 400, message_id[:20])
            for message_id in right:  # as Alice, so that the chat's are the same messages
                again = self.post(connect, {"client-name": "Alice", "msg": "text", "message-id": message_id})
                self.assertEqual(again, 200 if number else 201)
        for client in self.each_session():
            for message_id in wrong:
                self.refused(client, "bad_request", message_id)
            for message_id in right:
                ack = client.ask("ack", type="message", message_id=message_id, msg="text", signature=signatures[message_id])
                self.assertEqual((ack["type"], ack.get("message-id"), ack.get("duplicate")), ("ack", message_id, True))
        self.assertEqual(self.count(), len(right))

    def test_ch_19_empty_and_white(self):
        white = (" ", "\n\t", "\u200b")
        for connect in self.each_way():
            for wrong in ("", None, 5, ["x"]):
                self.assertEqual(self.post(connect, {**OK, "msg": wrong}), 400)
            self.assertEqual(self.post(connect, {"client-name": "Ann"}), 400)
            for text in white:
                self.assertEqual(self.post(connect, {**OK, "msg": text}), 201)
                self.assertEqual(json.loads(self.answer.body)["message"]["msg"], text)
        for number, client in enumerate(self.each_session()):
            for wrong in ("", None, 5):
                self.refused(client, "bad_request", "m", msg=wrong)
            answer = client.ask("ack", type="message", message_id="m", signature="AAAA")
            self.assertEqual(answer.get("code"), "bad_request")
            text = white[number % len(white)]
            self.assertEqual(client.post(f"w{number}", text)["type"], "ack")
            self.check_live(client, f"w{number}", text)

    def test_ch_20_emoji_at_the_limit(self):
        too_long = "x" * 65533 + "\U0001f600"
        right = ["x" * 65532 + "\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "e\u0301 \u00e9 \u1e9b\u0323"]
        sent = []
        for connect in self.each_way():
            self.assertEqual(self.post(connect, {**OK, "msg": too_long}), 413)
            for text in right:
                self.assertEqual(self.post(connect, json.dumps({**OK, "msg": text}, ensure_ascii=False)), 201)
                sent.append(text)
        for number, client in enumerate(self.each_session()):
            self.refused(client, "too_large", "m", msg=too_long)
            text = right[number % len(right)]
            self.assertEqual(client.post(f"e{number}", text)["type"], "ack")
            sent.append(text)
            self.check_live(client, f"e{number}", text)
            self.assertEqual(client.history(limit=1)["messages"][0]["msg"], text)
        before = self.backend.fetch("/feed").body
        self.assertEqual([row["msg"] for row in json.loads(before)["messages"]], sent)
        self.assertEqual(self.backend.terminate(), 0)
        self.backend.start()
        self.assertEqual(self.backend.fetch("/feed").body, before)

    def test_ch_21_expect(self):
        body = json.dumps(OK).encode()
        head = f"{TARGET}Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n".encode()
        for connect in self.each_way():
            with connect() as client:
                client.send(head)
                self.assertEqual(client.read_head().status, 100)
                client.send(body)
                self.assertEqual(client.read_response().status, 201)
                client.send(head + body)  # it need not be told
                self.assertEqual(client.read_response().status, 201)
                client.send(f"{TARGET}Content-Length: 99999999\r\nExpect: 100-continue\r\n\r\n".encode())
                response = client.read_response()
                self.assertEqual((response.status, response.interim), (413, []))
                self.assertTrue(client.closed_within(10))
            with connect() as client:
                client.send(f"{TARGET}Content-Length: 1\r\nExpect: other\r\n\r\nx".encode())
                self.assertEqual(client.read_response().status, 417)
            with connect() as client:
                client.send(head.replace(b"HTTP/1.1", b"HTTP/1.0") + body)
                response = client.read_response()
                self.assertEqual((response.status, response.interim), (201, []))

    def test_ch_23_repeats(self):
        """The first client leaves before its answer; then fifty at once, on all ways; and after a restart."""
        watcher = self.person(self.ways["tls"])
        message = {**OK, "message-id": "k1"}
        body = json.dumps(message).encode()
        for connect in self.each_way():
            client = connect()
            client.send(f"{TARGET}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            client.close()
        ways = list(self.ways.values())

        def repeat(connect):
            with connect() as client:
                client.send(f"{TARGET}Content-Length: {len(body)}\r\n\r\n".encode() + body)
                response = client.read_response()
                return response.status, json.loads(response.body)["message"]["sequence"]

        answers = self.together(*[lambda c=ways[number % len(ways)]: repeat(c) for number in range(50)])
        self.assertLessEqual({status for status, _ in answers}, {200, 201})
        self.assertEqual(len({sequence for _, sequence in answers}), 1)
        self.assertEqual(self.post(ways[0], {**OK, "message-id": "k2"}), 201)
        self.assertEqual([row["message-id"] for row in watcher.read_live(2)], ["k1", "k2"])
        self.assertEqual(self.backend.terminate(), 0)
        self.backend.start()
        self.lb.wait_state("sys2", True)
        for connect in self.each_way():
            self.assertEqual(repeat(connect), (200, answers[0][1]))
        self.assertEqual(self.count(), 2)

    def test_ch_25_same_id_other_content(self):
        watcher = self.person(self.ways["tls"])
        first = {"client-name": "Ann", "msg": "a", "message-id": "k1"}
        others = [{**first, "msg": "b"}, {**first, "client-name": "Bob"}]
        ways = list(self.ways.values())
        for message in (first, {key: first[key] for key in reversed(first)}):  # the order of fields is nothing
            for number, connect in enumerate(ways):
                self.assertEqual(self.post(connect, message), 201 if message is first and number == 0 else 200)
        for connect in self.each_way():
            for other in others:
                self.assertEqual(self.post(connect, other), 409)
            query = urllib.parse.urlencode(others[0])
            with connect() as client:
                self.assertEqual(client.request(f"GET /message?{query} HTTP/1.1|Host: a||").status, 409)
        for client in self.each_session():
            self.assertEqual(client.post("k1", "a").get("code"), "id_conflict")
        # While the other content is on its way: one of them wins, everywhere.
        for number, connect in enumerate(ways):
            bodies = [{**first, "message-id": f"r{number}", "msg": text} for text in "ab"]

            def race(message, way=connect):
                body = json.dumps(message).encode()
                with way() as client:
                    client.send(f"{TARGET}Content-Length: {len(body)}\r\n\r\n".encode() + body)
                    return client.read_response().status

            self.assertEqual(sorted(self.together(*[lambda m=message: race(m) for message in bodies])), [201, 409])
        rows = json.loads(self.backend.fetch("/feed").body)["messages"]
        self.assertEqual([row["message-id"] for row in rows], ["k1"] + [f"r{number}" for number in range(len(ways))])
        self.assertEqual(rows[0]["msg"], "a")
        self.assertEqual(watcher.read_live(len(rows)), rows)


if __name__ == "__main__":
    main()
