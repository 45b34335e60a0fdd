"""The WSS chat over three backends and both stores: names, signed messages, fan-out, history, who is online, errors
(B9, B10; cases CH-23, CH-25, CH-27, CH-28, also through the balancer). Resuming: backend_resume_test.py; what a message may
hold: backend_cases_test.py."""

import json
import subprocess
import threading

from case import main
from chat_case import Chat
from chat_client import Key, key_of, now, registration
from programs import clean_environment
from waiting import wait_until


class Cases:
    def test_ch_25_messages_reach_everyone_once_and_in_order(self):
        self.scene()
        alice, bob, carol = [self.person(name, index) for index, name in enumerate(("Alice", "Bob", "Carol"))]
        ack = alice.post("m1", "hello, \U0001f600 \"all\"\n")
        self.assertEqual((ack["type"], ack["message-id"], ack["duplicate"]), ("ack", "m1", False))
        bob.post("m2", "hi")
        response, posted = self.post(2, "by HTTP", "m3")
        self.assertEqual(response.status, 201)
        for person in (alice, bob, carol):
            first, second, third = person.read_live(3)
            self.assertEqual((first["message-id"], first["client-name"], first["msg"], first["source"]),
                             ("m1", "Alice", "hello, \U0001f600 \"all\"\n", "wss"))
            self.assertEqual((first["sequence"], first["timestamp"]), (ack["sequence"], ack["timestamp"]))
            self.assertTrue(alice.key.verifies(first["signature"], "dlb-message-v1", "Alice", "m1", first["msg"]))
            self.assertEqual((second["message-id"], second["source"]), ("m2", "wss"))
            self.assertEqual(third, posted["message"])
        feed = json.loads(self.backends[1].fetch("/feed").body)["messages"]
        self.assertEqual(feed, alice.live)

        # CH-23: an HTTP repeat of a WSS message is its duplicate, and the other way round; nobody hears of it again.
        response, again = self.post(1, alice.live[0]["msg"], "m1", "Alice")
        self.assertEqual((response.status, again["status"], again["message"]["source"]), (200, "duplicate", "wss"))
        self.assertEqual(alice.post("m1", alice.live[0]["msg"])["duplicate"], True)
        # CH-25: the same id with other content.
        self.check_error(alice.post("m1", "other"), "id_conflict", "m1")
        self.check_error(bob.post("m1", alice.live[0]["msg"]), "id_conflict", "m1")
        self.post(0, "last", "m9")
        for person in (alice, bob, carol):
            self.assertEqual([row["message-id"] for row in person.read_live(4)], ["m1", "m2", "m3", "m9"])

    def test_ch_23_many_repeats_at_once_are_told_once(self):
        self.scene()
        people = [self.person(f"p{index}", index) for index in range(3)]
        signed = people[0].signed("k1", "once")

        def by_http(index):
            return lambda: self.post(index % 3, "once", "k1", "p0")[1]["message"]["sequence"]

        people[0].say(**signed)
        sequences = self.together(*[by_http(index) for index in range(24)])
        self.assertEqual(len(set(sequences)), 1)
        self.assertEqual(people[0].read_until("ack")["sequence"], sequences[0])
        self.post(0, "behind", "k2")
        for person in people:
            self.assertEqual([row["message-id"] for row in person.read_live(2)], ["k1", "k2"])

    def test_ch_28_messages_larger_than_a_notification(self):
        self.scene(2)
        alice, bob = self.person("Alice", 0), self.person("Bob", 1)
        texts = ["x" * size for size in (7900, 7999, 8000, 60000)] + ["\U0001f600" * 2000, "\U0001f600" * 15000]
        for index, text in enumerate(texts):
            self.assertEqual(alice.post(f"m{index}", text)["type"], "ack")
        self.assertEqual([row["msg"] for row in bob.read_live(len(texts))], texts)


class Together:
    def parsed_keys(self):
        return json.loads(self.backends[0].fetch("/metrics?format=json").body)["chat"]["parsed_keys"]

    def test_who_was_silent_for_long_is_still_believed(self):
        """The parsed key is dropped meanwhile."""
        self.scene(1, ws_ping_interval="50ms", ws_pong_timeout="1m")
        alice = self.person("Alice")
        self.assertEqual(alice.post("m", "here")["type"], "ack")
        for number in range(2):
            wait_until(lambda: self.parsed_keys() == 0, 10, "the key to be dropped")
            self.assertEqual(alice.post(f"m{number}", "still here")["type"], "ack")
        forged = alice.signed("m9", "not signed by her")
        forged["signature"] = alice.signed("m9", "signed by her")["signature"]
        wait_until(lambda: self.parsed_keys() == 0, 10, "the key to be dropped")
        alice.say(**forged)
        self.check_error(alice.read_until("error"), "bad_signature", "m9")

    def test_who_is_online_and_whose_a_name_is(self):
        self.scene()
        key = key_of("Alice")
        alice, bob, carol = self.person("Alice", 0, key), self.person("Bob", 1), self.person("Carol", 2)
        second = self.person("Alice", 2, key)  # the same key may come twice
        for person in (alice, bob, carol):
            self.assertEqual(person.ask("users", type="users")["online"], ["Alice", "Bob", "Carol"])
        self.assertEqual(carol.ask("key", type="key", username="Bob"),
                         {"type": "key", "username": "Bob", "public_key": bob.key.public})
        self.assertEqual(carol.ask("key", type="key", username="Nobody")["public_key"], None)

        other = key_of("other")
        for backend in range(3):
            stranger = self.client(backend)
            self.check_error(stranger.register(other, "Alice"), "username_taken")
            self.check_error(stranger.post("x", "not yet"), "not_registered", "x")
            self.assertEqual(stranger.register(other, f"Alice{backend}")["type"], "registered")
            stranger.close()
        second.close()
        bob.close()
        wait_until(lambda: carol.ask("users", type="users")["online"] == ["Alice", "Carol"], 10, "Bob has gone")

        # The name stays Alice's when she has left and her backend has been started again.
        self.assertEqual(self.backends[0].terminate(), 0)
        self.backends[0].start()
        self.check_error(self.client(0).register(other, "Alice"), "username_taken")
        self.assertEqual(self.client(0).register(key, "Alice")["type"], "registered")

    def test_history_is_paged_for_the_asker_alone(self):
        self.scene(2)
        alice, bob = self.person("Alice", 0), self.person("Bob", 1)
        self.assertEqual(alice.history(), {"type": "history", "messages": [], "has_more": False, "next_before_sequence": None})
        for index in range(130):
            self.post(index % 2, f"text {index}", f"h{index}")
        everything = json.loads(self.backends[0].fetch("/feed").body)["messages"]
        self.assertEqual([row["sequence"] for row in bob.read_live(130)], [row["sequence"] for row in everything])
        page = bob.history()
        self.assertEqual((page["messages"], page["has_more"]), (everything[-25:], True))
        self.assertEqual(page["next_before_sequence"], everything[-25]["sequence"])
        self.assertEqual(bob.history(limit=1000000)["messages"], everything[-100:])
        found, before = [], None
        while True:
            page = bob.history(limit=37, **({} if before is None else {"before_sequence": before}))
            found = page["messages"] + found
            before = page["next_before_sequence"]
            if before is None:
                break
        self.assertEqual((found, page["has_more"]), (everything, False))
        for wrong in ({"limit": 0}, {"limit": -1}, {"limit": "5"}, {"before_sequence": 0}):
            self.check_error(bob.history(**wrong), "bad_request")
        self.assertEqual(alice.ask("pong", type="ping"), {"type": "pong"})
        self.assertEqual(len(alice.live), 130)

    def test_history_pages_are_bounded_in_bytes(self):
        self.scene(1)
        for index in range(4):
            self.post(0, "\x01" * 65536, f"big{index}")
        alice = self.person("Alice")
        page = alice.history(limit=100)
        self.assertEqual(len(page["messages"]), 1)
        self.assertLess(len(json.dumps(page)), 512 * 1024)
        self.assertTrue(page["has_more"])

    def test_a_truncated_table_is_a_reset_for_all(self):
        self.scene(2)
        alice, bob = self.person("Alice", 0), self.person("Bob", 1)
        for index in range(3):
            self.post(0, "old", f"old{index}")
        bob.read_live(3)
        self.truncate()
        for person in (alice, bob):
            person.read_until("reset")
            self.assertEqual(person.history()["messages"], [])
        self.assertEqual(alice.post("new", "text")["sequence"], 1)
        self.assertEqual(bob.read_live(4)[3]["message-id"], "new")
        bob.say(type="resume", after_sequence=3)
        self.assertEqual(bob.read_until("reset", "resumed", "error"), {"type": "reset"})
        self.post(0, "next", "next")
        self.assertEqual(bob.read_live(5)[4]["message-id"], "next")


class Errors:
    """On one backend; the session goes on after each."""

    def test_what_is_wrong_with_registering(self):
        self.scene(1)
        key = key_of("Alice")
        client = self.client()
        self.check_error(client.ask("pong", type="ping"), "not_registered")
        self.check_error(client.ask("x", type="dance"), "not_registered")
        client.socket.send("hello")
        self.check_error(client.read(), "bad_json")
        good = registration(key, "Alice")
        small = Key(self.folder, "small", 1024)
        for code, wrong in (("bad_request", {**good, "username": ""}), ("bad_request", {**good, "username": "x" * 65}),
                            ("bad_request", {**good, "timestamp": good["timestamp"][:19]}),
                            ("stale_timestamp", registration(key, "Alice", now(-301))),
                            ("stale_timestamp", registration(key, "Alice", now(330))),
                            ("bad_signature", {**good, "username": "Bob"}),
                            ("bad_signature", {**good, "signature": good["signature"][:-4]}),
                            ("bad_key", {**good, "public_key": good["public_key"][:-4]}),
                            ("bad_key", registration(small, "Alice"))):
            self.check_error(client.ask("registered", **wrong), code)
        self.assertEqual(client.ask("registered", **{**good, "public_key": key.pem})["type"], "registered")
        self.check_error(client.ask("registered", **good), "already_registered")
        self.check_error(client.ask("x", type="dance"), "unknown_type")
        # The same registration again, by another session: harmless.
        self.assertEqual(self.client().ask("registered", **good)["type"], "registered")

    def test_reserved_names_and_backends_that_do_not_tell_each_other(self):
        self.scene(2, reserve_names=True, enable_cluster_websocket=False)
        alice = self.person("Alice")
        response, body = self.post(1, "not by Alice", "m1", "Alice")
        self.assertEqual((response.status, body["error"]), (403, "name_reserved"))
        self.assertEqual(self.post(1, "by Bob", "m2", "Bob")[0].status, 201)
        self.assertEqual(alice.read_live(1)[0]["message-id"], "m2")  # found by looking

    def test_messages_are_limited_in_their_rate(self):
        self.scene(1, ws_message_rate=0.02)
        alice = self.person("Alice")  # one at once, then one in 50 s
        self.assertEqual(alice.post("m1", "x")["type"], "ack")
        self.check_error(alice.post("m2", "x"), "rate_limited", "m2")
        self.assertEqual(alice.ask("pong", type="ping"), {"type": "pong"})
        self.assertEqual(len(alice.history()["messages"]), 1)
        self.assertEqual(json.loads(self.backends[0].fetch("/metrics?format=json").body)["chat"]["rate_limited"], 1)

    def test_who_does_not_register_is_closed(self):
        self.scene(1, ws_register_timeout="1s")
        message = registration(key_of("Alice"), "Alice")
        silent, alice = self.client(), self.client()
        self.assertEqual(alice.ask("registered", **message)["type"], "registered")
        self.check_error(silent.ask("pong", type="ping"), "not_registered")
        self.assertEqual(silent.socket.read_close(), 1008)
        self.assertEqual(alice.ask("pong", type="ping"), {"type": "pong"})


class SqliteTogether(Cases, Together, Chat):
    store = "sqlite"

    def truncate(self):
        import sqlite3

        with sqlite3.connect(f"{self.backends[0].data_dir}/chat.db", timeout=20) as database:
            database.execute("DELETE FROM chat_messages")
            database.execute("DELETE FROM sqlite_sequence WHERE name = 'chat_messages'")
        database.close()


class PostgresCases(Cases, Chat):
    store = "postgres"

    def test_ch_27_a_row_that_commits_late_is_not_passed_over(self):
        """While a foreign transaction holds an earlier row, a later one waits; both are told in order."""
        self.scene(2)
        alice, bob = self.person("Alice", 0), self.person("Bob", 1)
        psql = subprocess.Popen(self.database.psql("-q"), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, env=clean_environment())
        self.addCleanup(psql.wait)
        self.addCleanup(psql.stdin.close)
        psql.stdin.write("begin; insert into chat_messages (message_id, client_name, key_id, nonce, ciphertext) values "
                         "('foreign', 'x', '', 'n', ''); \\echo inserted\n")
        psql.stdin.flush()
        self.assertEqual(psql.stdout.readline().strip(), "inserted")
        thread = threading.Thread(target=lambda: self.post(0, "after", "after"), daemon=True)
        thread.start()
        self.assertEqual(bob.history()["messages"], [])
        psql.stdin.write("commit; \\echo done\n")
        psql.stdin.flush()
        self.assertEqual(psql.stdout.readline().strip(), "done")
        thread.join(30)
        for person in (alice, bob):
            foreign, after = person.read_live(2)
            self.assertEqual((foreign["message-id"], foreign["msg"], foreign["error"]), ("foreign", None, "undecryptable"))
            self.assertEqual(after["message-id"], "after")


class PostgresTogether(Together, Chat):
    store = "postgres"

    def truncate(self):
        self.database.query("TRUNCATE chat_messages RESTART IDENTITY")


class BalancedCases(PostgresCases):
    balanced = True


class SqliteErrors(Errors, Chat):
    store = "sqlite"


if __name__ == "__main__":
    main()
