"""200 writers for 30 s over three backends while every second one of their database sessions is terminated: what was
acknowledged is stored and in every feed exactly once, and subscribers that come and go see each message once and in order (B2,
B9, B10; CH-24, CH-27, CH-31). Run by `make soak`."""

import json
import os
import random
import threading
import time

from case import main
from chat_case import Chat
from chat_client import ChatClient, key_of, registration
from programs import LOADGEN_RIGHT, program, run
from raw import Incomplete, fetch
from tls import TlsClient
from waiting import wait_until

SECONDS, WRITERS, SUBSCRIBERS = 30, 200, 2  # the last for each backend


class Storm(Chat):
    store = "postgres"

    def subscribe(self, port, name, key, seen, done):
        """Connects again and again with what it has seen; `seen` must only ever grow by the next row."""
        chance = random.Random(name)
        while True:
            try:
                client = ChatClient(TlsClient(port, timeout=20))
            except (OSError, Incomplete, AssertionError):
                continue
            try:
                last = done.is_set()
                self.sessions.append(name)
                answer = client.ask("registered", **registration(key, name, after_sequence=seen[-1] if seen else 0))
                if answer["type"] != "registered":
                    continue  # the database is away for a moment
                leave = time.monotonic() + chance.uniform(0.5, 3)
                while time.monotonic() < leave or last:
                    message = client.read()
                    if message["type"] == "message":
                        seen.append(message["message"]["sequence"])
                    elif message["type"] == "resumed" and last:
                        return
                    elif message["type"] == "error":
                        break
            except (OSError, Incomplete):
                pass
            finally:
                client.close()

    def terminate_sessions(self, stop, count):
        due = time.monotonic() + 1
        while not stop.wait(max(0, due - time.monotonic())):
            due += 1
            count.append(int(self.database.query(
                "select count(pg_terminate_backend(pid)) from (select pid from pg_stat_activity where usename = 'chat_user' "
                "and pid <> pg_backend_pid() order by random() limit 1) victim")[0][0]))

    def test_acknowledged_is_stored_is_seen(self):
        self.scene(3, drain_notice="100ms")
        keys = [key_of(f"s{number}") for number in range(3 * SUBSCRIBERS)]
        stop, done, killed = threading.Event(), threading.Event(), []
        seen, self.sessions = [[] for _ in keys], []
        threads = [threading.Thread(target=self.subscribe, daemon=True,
                                    args=(self.backends[number % 3].ws_port, f"s{number}", key, seen[number], done))
                   for number, key in enumerate(keys)]
        killer = threading.Thread(target=self.terminate_sessions, args=(stop, killed), daemon=True)
        for thread in (*threads, killer):
            thread.start()
        urls = ",".join(backend.url for backend in self.backends)
        load = [program("loadgen"), "-url", urls, "-users", str(WRITERS), "-duration", f"{SECONDS}s", "-interval-min", "200ms",
                "-interval-max", "600ms", "-out-dir", os.path.join(self.folder, "results"), "-seed", "3", "-max-errors", "100%",
                "-verify-feed", "-verify-urls", urls]
        code, out, err = run(load, timeout=SECONDS + 60)
        stop.set()
        killer.join()
        # Verified: accepted ids are in the feeds, once, and these are byte-equal.
        self.assertIn(code, LOADGEN_RIGHT, out[-3000:] + err)
        self.assertGreater(sum(killed), SECONDS // 2)

        wait_until(lambda: len({fetch(backend.port, "/feed", timeout=30).body for backend in self.backends}) == 1, 10)
        feed = [row["sequence"] for row in json.loads(fetch(self.backends[0].port, "/feed", timeout=30).body)["messages"]]
        self.assertEqual(int(self.database.query("select count(*) from chat_messages")[0][0]), len(feed))
        done.set()
        for thread in threads:
            thread.join(60)
            self.assertFalse(thread.is_alive(), "a subscriber hangs")
        for number, sequences in enumerate(seen):
            self.assertEqual(sequences, feed, f"subscriber {number}")
        retries = sum(json.loads(backend.fetch("/metrics?format=json").body)["write_queue"]["retries"]
                      for backend in self.backends)
        print(f"{len(feed)} messages, {sum(killed)} sessions terminated, {retries} batches sent again, {len(seen)} subscribers "
              f"saw all of them once, in order, in {len(self.sessions)} sessions\n"
              + "\n".join(out.splitlines()[-12:]))


if __name__ == "__main__":
    main()
