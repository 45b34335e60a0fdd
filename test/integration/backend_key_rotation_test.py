"""Encryption keys change under load: by restarts of one backend after another nothing is lost, and nobody sees a row that
can't be read; without its old key a backend quarantines the old rows, counts them, and goes on (B4)."""

import base64
import json
import os
import threading

from case import main
from chat_case import Chat
from programs import post_message
from waiting import wait_until


class KeyRotation(Chat):
    store, balanced = "postgres", True

    def write_keys(self, *keys):
        path = self.backends[0].key_file
        with open(os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(b"".join(key + b"\n" for key in keys))
        os.replace(path + ".new", path)

    def restart_all(self):
        """One after the other, while the balancer sends everything to the others."""
        for backend in self.backends:
            self.assertEqual(backend.terminate(), 0)
            backend.start()
            self.lb.wait_state(backend.name, True, 10)

    def write(self, number, acknowledged, stop):
        index = 0
        while not stop.is_set():
            message_id = f"{number}-{index}"
            message = {"client-name": "Http", "msg": f"text {message_id}", "message-id": message_id}
            status = post_message(self.lb.port, message, [("Idempotency-Key", message_id)]).status  # so the balancer may retry
            if status in (200, 201):
                acknowledged.append(message_id)
                index += 1
            elif status != 503:
                raise AssertionError(status)

    def figures(self, backend):
        return json.loads(backend.fetch("/metrics?format=json").body)["encryption"]

    def rows_of_keys(self):
        """How many rows each key has encrypted, by the key's id."""
        return {key: int(count) for key, count in
                self.database.query("select encode(key_id, 'hex'), count(*) from chat_messages group by 1")}

    def test_keys_change_under_load(self):
        self.scene(3)
        with open(self.backends[0].key_file, "rb") as file:
            old = file.read().strip()
        new = base64.urlsafe_b64encode(os.urandom(32))
        acknowledged, stop = [], threading.Event()

        def rotate():
            try:
                wait_until(lambda: len(acknowledged) > 50, 30, "messages under the old key")
                self.write_keys(old, new)  # all can read what none writes yet
                self.restart_all()
                self.assertEqual(len(self.rows_of_keys()), 1)
                self.write_keys(new, old)
                self.restart_all()
                before = len(acknowledged)
                wait_until(lambda: len(acknowledged) > before + 50, 30, "messages under the new key")
            finally:
                stop.set()

        self.together(rotate, *[lambda n=number: self.write(n, acknowledged, stop) for number in range(4)])
        bodies = {backend.fetch("/feed").body for backend in self.backends}
        self.assertEqual(len(bodies), 1, "feeds differ")
        rows = json.loads(bodies.pop())["messages"]
        self.assertEqual(sorted(row["message-id"] for row in rows), sorted(set(acknowledged)))
        self.assertEqual([row["msg"] for row in rows], [f"text {row['message-id']}" for row in rows])
        self.assertEqual([self.figures(backend)["undecryptable"] for backend in self.backends], [0] * 3)
        by_key = self.rows_of_keys()
        self.assertEqual((len(by_key), sum(by_key.values())), (2, len(rows)))

        # One that has lost the old key: its rows are quarantined there, one by one, and everything else goes on.
        lost = self.backends[0]
        self.write_keys(new)
        self.assertEqual(lost.terminate(), 0)
        lost.start()
        watcher = self.person("Watcher")
        self.assertEqual(self.post(0, "text after", "after")[0].status, 201)
        self.assertEqual(watcher.read_live(1)[0]["msg"], "text after")
        seen = json.loads(lost.fetch("/feed").body)["messages"]
        self.assertEqual([row["message-id"] for row in seen], [row["message-id"] for row in rows] + ["after"])
        dark = [row for row in seen if row["msg"] is None]
        self.assertEqual({row["error"] for row in dark}, {"undecryptable"})
        self.assertIn(len(dark), by_key.values())
        self.assertGreaterEqual(self.figures(lost)["undecryptable"], len(dark))
        again = {"client-name": "Http", "msg": f"text {dark[0]['message-id']}", "message-id": dark[0]["message-id"]}
        self.assertEqual(lost.post(again).status, 409)
        self.assertEqual(self.backends[1].post(again).status, 200)


if __name__ == "__main__":
    main()
