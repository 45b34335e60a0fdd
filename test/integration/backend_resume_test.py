"""Resuming on the WSS chat: what was missed comes once, in order and without a gap, and then live rows go on (B9; case
CH-24); slow readers don't lose their replay; a fan-out that lost its listener catches up."""

import json
import threading

from case import main
from chat_case import Chat
from chat_client import ChatClient, key_of, registration
from waiting import wait_until
from websocket_case import front


class Cases:
    def test_ch_24_no_gap_and_no_repeat_over_a_hundred_reconnects(self):
        """While 500 messages a second come in."""
        self.scene()
        message = registration(key_of("Alice"), "Alice", after_sequence=0)
        seen, total = [], 2000

        def come_and_go(turn):
            client = ChatClient(self.connect(turn % 3, turn % 2 == 1))
            try:
                message["after_sequence"] = seen[-1] if seen else 0
                self.assertEqual(client.ask("registered", **message)["type"], "registered")
                resumed = client.read_until("resumed", "error", "reset")
                self.assertEqual(resumed["type"], "resumed", resumed)
                self.assertEqual(resumed["count"], len(client.live))
                through = client.live[-1]["sequence"] if client.live else message["after_sequence"]
                self.assertEqual(resumed["through_sequence"], through)
                if turn % 4 == 3:  # some live rows too
                    client.read_live(min(resumed["count"] + 5, total - len(seen)))
                seen.extend(row["sequence"] for row in client.live)
            finally:
                client.close()

        self.together(lambda: [come_and_go(turn) for turn in range(100)],
                      lambda: self.load("-users", "50", "-interval-min", "60ms", "-interval-max", "140ms",
                                        "-requests", str(total)))
        come_and_go(0)  # the last ones, after all is written
        feed = json.loads(self.backends[0].fetch("/feed").body)["messages"]
        self.assertEqual(len(feed), total)
        self.assertEqual(seen, [row["sequence"] for row in feed])

    def test_ch_07_a_slow_consumer_is_cut_and_can_resume(self):
        """Alone: the others have everything, and it gets what it missed when it comes back."""
        self.scene(1, ws_queue_max_bytes="64KiB")
        fast = self.person("Fast")
        slow = self.client(tls=False, receive_buffer=4096)
        slow.register(key_of("Slow"), "Slow")
        count = 0

        def figures():
            return json.loads(self.backends[0].fetch("/metrics?format=json").body)["ws"]["ended"]["slow_consumer"]

        while figures() == 0:
            self.assertLess(count, 500, "the queue has no bound")
            for _ in range(10):
                self.assertEqual(self.post(0, "x" * 30000, f"m{count}")[0].status, 201)
                count += 1
                fast.read_live(count)
        slow.close()
        self.assertEqual([row["message-id"] for row in fast.live], [f"m{index}" for index in range(count)])
        again = self.client()
        again.register(key_of("Slow"), "Slow", after_sequence=0)
        self.assertEqual(again.read_until("resumed")["count"], count)
        self.assertEqual(again.live, fast.live)
        self.assertEqual(figures(), 1)


class Resume:
    def publish(self, stop, count, least=0):
        """Posts by HTTP to all backends in turn until told to stop, at least so many; appends sequences to `count`."""
        clients = [backend.client() for backend in self.backends]
        try:
            index = 0
            while not stop.is_set() or index < least:
                body = json.dumps({"client-name": "Http", "msg": f"text {index}", "message-id": f"p{index}"})
                response = clients[index % len(clients)].request(
                    f"POST /message HTTP/1.1|Host: a|Content-Type: application/json|Content-Length: {len(body)}||{body}")
                self.assertEqual(response.status, 201, response)
                count.append(json.loads(response.body)["message"]["sequence"])
                index += 1
        finally:
            for client in clients:
                client.close()

    def test_a_resume_within_a_session_holds_live_rows_back(self):
        self.scene(2)
        alice = self.person("Alice", 0)
        stop, posted = threading.Event(), []

        def subscriber():
            try:
                for _ in range(15):
                    alice.read_live(len(alice.live) + 3)
                    after = alice.live[0]["sequence"]
                    alice.live.clear()
                    alice.say(type="resume", after_sequence=after)
                    before_replay = len(alice.live)
                    resumed = alice.read_until("resumed", "error", "reset")
                    self.assertEqual(resumed["type"], "resumed", resumed)
                    replayed = [row["sequence"] for row in alice.live[-resumed["count"]:]] if resumed["count"] else []
                    self.assertEqual(replayed, [one for one in range(after + 1, resumed["through_sequence"] + 1)])
                    alice.live[:] = alice.live[-resumed["count"]:] if resumed["count"] else []
                    self.assertEqual(before_replay, 0)
                    alice.read_live(len(alice.live) + 3)
                    sequences = [row["sequence"] for row in alice.live]
                    self.assertEqual(sequences, list(range(sequences[0], sequences[0] + len(sequences))))
            finally:
                stop.set()

        self.together(subscriber, lambda: self.publish(stop, posted, 20))

    def test_a_replay_is_paced_by_its_reader(self):
        """More than its queue would ever hold, to one who reads slowly, and below the feed cache."""
        self.scene(1, feed_cache_max_bytes="1MiB", ws_queue_max_bytes="64KiB")
        count = 120
        for index in range(count):
            self.assertEqual(self.post(0, "x" * 60000, f"m{index}")[0].status, 201)
        client = self.client(0, tls=False, receive_buffer=4096)
        client.say(**registration(key_of("Alice"), "Alice", after_sequence=0))
        client.read_until("registered")
        resumed = client.read_until("resumed")
        self.assertEqual((resumed["count"], len(client.live)), (count, count))
        sequences = [row["sequence"] for row in client.live]
        self.assertEqual(sequences, sorted(sequences))
        self.assertEqual(self.post(0, "live", "live")[0].status, 201)
        self.assertEqual(client.read_live(count + 1)[-1]["message-id"], "live")


class SqliteResume(Cases, Resume, Chat):
    store = "sqlite"


class PostgresCases(Cases, Chat):
    store = "postgres"


class BalancedCases(PostgresCases):
    balanced = True


class PostgresResume(Resume, Chat):
    store = "postgres"

    def test_ch_30_a_database_that_is_away_is_told_and_comes_back(self):
        """B8 for sessions: errors that say so, no session ends, and afterwards all goes on without a gap."""
        self.scene(2)
        _, through = front(self, *self.backends)
        alice, bob = self.person("Alice", connection=through["lb wss"]()), self.person("Bob", 1)
        self.assertEqual(alice.post("before", "x")["type"], "ack")
        signed, late = alice.signed("during", "x"), registration(key_of("Carol"), "Carol")
        carol = self.client(connection=through["lb tls"]())
        self.database.stop(immediate=True)
        wait_until(lambda: self.backends[0].fetch("/health").status == 503, 20, "/health to say 503")
        self.assertIn(alice.ask("ack", **signed)["code"], ("unavailable", "outcome_unknown"))
        for answer, request in (("history", {"type": "load_history"}), ("users", {"type": "users"}),
                                ("key", {"type": "key", "username": "Nobody"}),
                                ("resumed", {"type": "resume", "after_sequence": 0})):
            self.check_error(alice.ask(answer, **request), "unavailable")
        self.check_error(carol.ask("registered", **late), "unavailable")
        self.assertEqual(alice.ask("pong", type="ping"), {"type": "pong"})
        self.database.start()
        for backend in self.backends:
            backend.wait_healthy()
        wait_until(lambda: alice.ask("ack", **signed)["type"] == "ack", 20, "the message to be stored")
        wait_until(lambda: carol.ask("registered", **late)["type"] == "registered", 20, "Carol to register")
        self.assertEqual([row["message-id"] for row in bob.read_live(2)], ["before", "during"])
        wait_until(lambda: alice.ask("users", type="users")["online"] == ["Alice", "Bob", "Carol"], 20, "all three")
        self.assertEqual([row["message-id"] for row in alice.history()["messages"]], ["before", "during"])

    def test_a_lost_listener_catches_up(self):
        self.scene(2)
        alice = self.person("Alice", 1)
        for turn in range(3):
            self.database.query("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> "
                                "pg_backend_pid() AND application_name LIKE '%listener'")
            for index in range(5):
                self.assertEqual(self.post(0, "x", f"m{turn}-{index}")[0].status, 201)
        names = [row["message-id"] for row in alice.read_live(15)]
        self.assertEqual(names, [f"m{turn}-{index}" for turn in range(3) for index in range(5)])


if __name__ == "__main__":
    main()
