"""Three backends over one store: idempotency, order, durability, equal feeds (B2, B3, B6, B7; cases CH-23, CH-25, CH-27)."""

import collections
import json
import os
import random
import stat
import threading

from case import Case, main, write_key
from programs import ChatBackend
from waiting import pause, wait_until


class Store:
    store = ""

    def setUp(self):
        super().setUp()
        self.backends = self.chat_backends(3, self.store)

    def feeds(self):
        """The whole feeds of all three, which must be the same bytes; as messages."""
        responses = [backend.fetch("/feed") for backend in self.backends]
        self.assertEqual([response.status for response in responses], [200] * 3)
        self.assertEqual(len({response.body for response in responses}), 1, "feeds differ")
        return json.loads(responses[0].body)["messages"]

    def test_ch_23_fifty_posts_of_one_id(self):
        """One row, one 201, 49 × 200 with the same sequence."""
        message = {"client-name": "Ann", "msg": "hello", "message-id": "one"}
        responses = self.together(*[lambda b=self.backends[index % 3]: b.post(message) for index in range(50)])
        self.assertEqual(collections.Counter(response.status for response in responses), {201: 1, 200: 49})
        sequences = {json.loads(response.body)["message"]["sequence"] for response in responses}
        self.assertEqual(len(sequences), 1)
        self.assertEqual(len(self.feeds()), 1)

    def test_ch_25_fifty_posts_of_one_id_with_two_texts(self):
        """One content wins everywhere, the other gets 409 everywhere."""
        for round_number in range(5):
            texts = ["first", "second"]
            responses = self.together(*[lambda i=index: self.backends[i % 3].post(
                {"client-name": "Ann", "msg": texts[i % 2], "message-id": f"r{round_number}"}) for index in range(50)])
            statuses = [response.status for response in responses]
            winner = {json.loads(response.body)["message"]["msg"] for response in responses if response.status != 409}
            self.assertEqual(len(winner), 1)
            won = texts.index(winner.pop())
            for index, status in enumerate(statuses):
                self.assertIn(status, (200, 201) if index % 2 == won else (409,))
            self.assertEqual(statuses.count(201), 1)
        self.assertEqual(len(self.feeds()), 5)

    def test_feeds_are_equal_and_in_order_under_load(self):
        """Writers on all three, and readers that check: a served feed never gains an earlier element, and each message
        acknowledged before a feed was asked for is in it."""
        acknowledged, lock, done = [], threading.Lock(), threading.Event()

        def writer(number):
            def work():
                chance = random.Random(number)
                for index in range(60):
                    message = {"client-name": f"w{number}", "msg": "x" * chance.randrange(1, 3000),
                               "message-id": f"{number}-{index}"}
                    response = self.backends[(number + index) % 3].post(message)
                    self.assertEqual(response.status, 201, response)
                    with lock:
                        acknowledged.append(json.loads(response.body)["message"])
            return work

        def reader(backend):
            def work():
                served = b""
                while not done.is_set():
                    with lock:
                        before = {message["message-id"] for message in acknowledged}
                    body = backend.fetch("/feed").body
                    messages = json.loads(body)["messages"]
                    self.assertLessEqual(before, {message["message-id"] for message in messages})
                    listed = body[: body.rindex(b"]")]
                    self.assertTrue(listed.startswith(served), "the feed gained an earlier element")
                    served = listed
            return work

        def writers():
            try:
                self.together(*[writer(number) for number in range(9)])
            finally:
                done.set()

        self.together(writers, *[reader(backend) for backend in self.backends])
        messages = self.feeds()
        self.assertEqual(len(messages), 540)
        self.assertEqual(messages, sorted(acknowledged, key=lambda message: message["sequence"]))

    def test_acknowledged_messages_survive_kill_9(self):
        """All three are killed while writers run; what was acknowledged is there afterwards, once."""
        acknowledged, lock = {}, threading.Lock()
        enough = threading.Event()

        def writer(number):
            def work():
                for index in range(100000):
                    message = {"client-name": "w", "msg": f"text {number} {index}", "message-id": f"{number}-{index}"}
                    try:
                        response = self.backends[number % 3].post(message)
                    except (OSError, Exception):  # noqa: BLE001 - killed
                        return
                    if response.status != 201:
                        return
                    with lock:
                        acknowledged[message["message-id"]] = message["msg"]
                        if len(acknowledged) > 300:
                            enough.set()
            return work

        def killer():
            self.assertTrue(enough.wait(60))
            for backend in self.backends:
                backend.kill()

        self.together(killer, *[writer(number) for number in range(6)])
        for backend in self.backends:
            backend.launch()
        for backend in self.backends:
            backend.wait_healthy()
        stored = self.feeds()
        self.assertEqual(len({message["message-id"] for message in stored}), len(stored), "doubled")
        texts = {message["message-id"]: message["msg"] for message in stored}
        self.assertEqual({key: texts.get(key) for key in acknowledged}, acknowledged)
        self.assertLessEqual(len(stored), len(acknowledged) + 6, "at most what was in flight")

    def test_a_restart_keeps_feed_and_duplicates(self):
        message = {"client-name": "Ann", "msg": "hello", "message-id": "one"}
        first = json.loads(self.backends[0].post(message).body)["message"]
        before = self.backends[0].fetch("/feed").body
        self.assertEqual(self.backends[0].terminate(), 0)
        self.backends[0].start()
        again = self.backends[0].post(message)
        self.assertEqual((again.status, json.loads(again.body)["message"]), (200, first))
        self.assertEqual(self.backends[0].fetch("/feed").body, before)

    def test_drain(self):
        """B12: the notice says 503 draining and still serves; then exit 0, and nothing accepted is lost."""
        backend = self.keep(ChatBackend(self.folder, "sys9", self.backends[0].data_dir, self.database,
                                        self.backends[0].key_file, drain_notice="2s")).start()
        kept = backend.client()
        self.addCleanup(kept.close)
        kept.request("GET /healthz HTTP/1.1|Host: a||")
        import signal

        backend.signal(signal.SIGTERM)
        response = wait_until(lambda: (lambda r: r if r.status == 503 else None)(backend.fetch("/health")), 1.5, "draining")
        self.assertEqual(json.loads(response.body)["status"], "draining")
        self.assertEqual(backend.fetch("/healthz").status, 503)
        posted = backend.post({"client-name": "A", "msg": "late", "message-id": "late"})
        self.assertEqual((posted.status, posted.header("connection")), (201, "close"))
        response = kept.request("GET /healthz HTTP/1.1|Host: a||")
        self.assertEqual(response.header("connection"), "close")
        self.assertEqual(backend.wait(), 0)
        self.assertIn("late", [message["message-id"] for message in self.feeds()])

    def test_slow_readers_share_the_feed(self):
        """B6: stalled readers of a big feed hold references, not copies."""
        text = "x" * 60000
        self.together(*[lambda: [self.assertEqual(self.backends[0].post({"client-name": "A", "msg": text}).status, 201)
                                 for _ in range(10)] for _ in range(12)])
        whole = self.backends[0].fetch("/feed").body
        self.assertGreater(len(whole), 7_000_000)
        before = self.backends[0].rss()
        readers = [self.backends[0].client(receive_buffer=4096) for _ in range(40)]
        for reader in readers:
            self.addCleanup(reader.close)
            reader.send("GET /feed HTTP/1.1|Host: a||")
            reader.read_head()
        self.assertEqual(self.backends[0].post({"client-name": "A", "msg": "quick"}).status, 201)
        from programs import SANITIZED

        if not SANITIZED:
            self.assertLess(self.backends[0].rss() - before, 40 << 20, "40 readers × 7 MiB would be 280 MiB")


class SqliteStore(Store, Case):
    store = "sqlite"

    def test_three_first_starts_agree_on_one_key(self):
        data = os.path.join(self.folder, "fresh")
        os.mkdir(data)
        backends = [self.keep(ChatBackend(self.folder, f"first{index}", data)).launch() for index in range(3)]
        for backend in backends:
            backend.wait_healthy()
        for index, backend in enumerate(backends):
            self.assertEqual(backend.post({"client-name": "A", "msg": f"m{index}"}).status, 201)
        feeds = {backend.fetch("/feed").body for backend in backends}
        self.assertEqual(len(feeds), 1)
        self.assertEqual([message["msg"] for message in json.loads(feeds.pop())["messages"]], ["m0", "m1", "m2"])
        self.assertEqual(stat.S_IMODE(os.stat(os.path.join(data, "encryption.key")).st_mode), 0o600)


class PostgresStore(Store, Case):
    store = "postgres"

    def messages_table(self):
        found = self.database.query("select table_name from information_schema.columns where data_type = 'bytea' and "
                                    "table_schema = 'public' group by table_name having count(*) >= 2")
        self.assertEqual(len(found), 1, found)
        return found[0][0]

    def bytea_columns(self, table):
        rows = self.database.query("select column_name from information_schema.columns where data_type = 'bytea' and "
                                   f"table_name = '{table}' order by ordinal_position")
        return [row[0] for row in rows]

    def test_a_swapped_or_damaged_row_is_quarantined(self):
        """B4: one entry, never the whole feed; a post of its id is 409."""
        for index in range(4):
            self.backends[0].post({"client-name": "A", "msg": f"text {index}", "message-id": f"q{index}"})
        table = self.messages_table()
        columns = self.bytea_columns(table)
        first, second = self.database.query(f'select min("sequence"), min("sequence") + 1 from "{table}"')[0]
        assignments = ", ".join(f'"{column}" = other."{column}"' for column in columns)
        self.database.query(f'update "{table}" set {assignments} from "{table}" other where "{table}"."sequence" = {first} '
                            f'and other."sequence" = {second}')
        for backend in self.backends:
            backend.terminate()
            backend.start()
        messages = self.feeds()
        self.assertEqual([message["msg"] for message in messages], [None, "text 1", "text 2", "text 3"])
        self.assertEqual(messages[0]["error"], "undecryptable")
        again = self.backends[1].post({"client-name": "A", "msg": "text 0", "message-id": "q0"})
        self.assertEqual(again.status, 409)
        self.assertEqual(json.loads(self.backends[0].fetch("/feed").body)["count"], 4)

    def test_truncate_is_noticed(self):
        """B6: TRUNCATE … RESTART IDENTITY, even when new rows have overtaken the old count."""
        for index in range(3):
            self.backends[0].post({"client-name": "A", "msg": f"old {index}"})
        tag = self.backends[1].fetch("/feed").header("etag")
        self.feeds()
        self.database.query(f'truncate "{self.messages_table()}" restart identity cascade')
        for index in range(5):
            self.assertEqual(self.backends[0].post({"client-name": "A", "msg": f"new {index}"}).status, 201)
        self.assertEqual([message["msg"] for message in self.feeds()], [f"new {index}" for index in range(5)])
        self.assertEqual(self.backends[1].fetch("/feed", headers=[("If-None-Match", tag)]).status, 200)

    def test_ch_27_a_foreign_insert_held_open_hides_nothing(self):
        """While another writer's transaction is open, later rows may wait, but none is skipped for good."""
        self.backends[0].post({"client-name": "A", "msg": "before", "message-id": "before"})
        table = self.messages_table()
        columns = [row[0] for row in self.database.query(
            f"select column_name from information_schema.columns where table_name = '{table}' and column_name <> 'sequence'")]
        listed = ", ".join(f'"{column}"' for column in columns)
        values = ", ".join("'foreign'" if column.endswith("id") and "key" not in column else f'"{column}"'
                           for column in columns)
        import subprocess
        from programs import clean_environment

        psql = subprocess.Popen(self.database.psql("-q"), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, env=clean_environment())
        self.addCleanup(psql.wait)
        self.addCleanup(psql.stdin.close)
        psql.stdin.write(f'begin; insert into "{table}" ({listed}) select {values} from "{table}" where message_id = '
                         "'before'; \\echo inserted\n")
        psql.stdin.flush()
        line = psql.stdout.readline()
        self.assertEqual(line.strip(), "inserted", line)
        result = []
        thread = threading.Thread(target=lambda: result.append(
            self.backends[1].post({"client-name": "A", "msg": "after", "message-id": "after"})), daemon=True)
        thread.start()
        for _ in range(10):
            self.backends[2].fetch("/feed")
            pause(0.03)
        psql.stdin.write("commit;\n\\echo done\n")
        psql.stdin.flush()
        self.assertEqual(psql.stdout.readline().strip(), "done")
        thread.join(20)
        self.assertEqual(result[0].status, 201)
        ids = [message["message-id"] for message in self.feeds()]
        self.assertEqual(ids, ["before", "foreign", "after"])

    def test_another_key_ring_cannot_read(self):
        self.backends[0].post({"client-name": "A", "msg": "x"})
        other = os.path.join(self.folder, "other.key")
        write_key(other)
        backend = self.keep(ChatBackend(self.folder, "sys8", self.backends[0].data_dir, self.database, other)).start()
        messages = json.loads(backend.fetch("/feed").body)["messages"]
        self.assertEqual([(message["msg"], message["error"]) for message in messages], [(None, "undecryptable")])


if __name__ == "__main__":
    main()
