"""Symptom: each slow reader of a whole feed that is longer than the cache cost another copy of the feed's older part
(20 readers of 30 MB: 556 MiB), until the process was killed for its memory."""

import json

from case import Case, main
from programs import SANITIZED


class SlowWholeFeeds(Case):
    def test_slow_readers_share_what_was_read_below_the_cache(self):
        backend = self.chat_backends(1, feed_cache_max_bytes="1MiB")[0]
        for index in range(20):
            self.together(*[lambda n=index * 10 + k: self.assertEqual(backend.post(
                {"client-name": "A", "msg": "y" * 50000, "message-id": f"m{n}"}).status, 201) for k in range(10)])
        before = backend.rss()
        readers = []
        for index in range(16):
            reader = backend.client(receive_buffer=4096)
            self.addCleanup(reader.close)
            reader.send("GET /feed HTTP/1.1|Host: a||")
            self.assertEqual(reader.read_head().status, 200)
            readers.append(reader)
            # Another state of the feed for each.
            self.assertEqual(backend.post({"client-name": "A", "msg": f"between {index}"}).status, 201)
        if not SANITIZED:
            self.assertLess(backend.rss() - before, 50 << 20, "16 readers × 10 MB would be 160 MB")
        whole = json.loads(backend.fetch("/feed").body)
        self.assertEqual(whole["count"], 216)
        sequences = [message["sequence"] for message in whole["messages"]]
        self.assertEqual(sequences, sorted(set(sequences)))
        self.assertEqual(len(sequences), 216)


if __name__ == "__main__":
    main()
