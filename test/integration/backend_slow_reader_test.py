"""CH-07: who stops reading the chat is cut at its bound, and costs the others nothing."""

import json
import select
import threading

from case import main
from chat_case import Chat
from chat_client import key_of
from programs import SANITIZED
from raw import RawClient, fetch
from waiting import wait_until
from websocket_case import front

READERS, MESSAGES, CAP = 12, 250, 65536


class SlowReader(Chat):
    def figures(self):
        return json.loads(self.backends[0].fetch("/metrics?format=json").body)["ws"]

    def test_ch_07_a_stalled_reader_is_cut_and_the_others_get_all_in_order(self):
        self.scene(1, ws_queue_max_bytes=CAP, db_write_queue_max=1000)
        for tls in (False, True):
            with self.subTest(tls=tls):
                self.publish(tls)

    def publish(self, tls):
        before = self.figures()["ended"]["slow_consumer"]
        stalled = self.reader(f"stalled {tls}", tls, receive_buffer=4096)
        readers = [self.reader(f"reader {index} {tls}", tls) for index in range(READERS)]
        memory = self.backends[0].rss()
        ids = [f"{tls}-{index}" for index in range(MESSAGES)]
        threads = [threading.Thread(target=reader.read_live, args=(MESSAGES,), daemon=True) for reader in readers]
        for thread in threads:
            thread.start()
        for message_id in ids:
            self.assertEqual(self.post(0, message_id.ljust(1000, "x"), message_id)[0].status, 201)
        for reader, thread in zip(readers, threads):
            thread.join(60)
            self.assertEqual([message["message-id"] for message in reader.live], ids)
        wait_until(lambda: self.figures()["ended"]["slow_consumer"] == before + 1, 10, "the stalled one to be cut")
        wait_until(lambda: self.figures()["closing"] == 0, 10, "its connection to be gone")
        if not SANITIZED:
            self.assertLess(self.backends[0].rss() - memory, 32 << 20)
        # It was given whole frames, in order, and then at most a Close: none of its backlog was flushed.
        wait_until(lambda: not stalled.socket.client.fill(), 10, "the end at the stalled reader")
        self.assertLess(len(stalled.socket.client.buffer), MESSAGES * 1000)
        for reader in readers:
            reader.close()

    def test_ch_07_a_stalled_reader_of_the_feed_is_cut(self):
        """By the backend, or by the balancer before it; others read on meanwhile."""
        self.scene(1, client_write_timeout="1s")
        for index in range(40):
            self.assertEqual(self.post(0, "x" * 60000, f"m{index}")[0].status, 201)
        balancer, _ = front(self, self.backends[0], client_write_timeout="1s")
        for port in (self.backends[0].port, balancer.port):
            with self.subTest(balanced=port == balancer.port), RawClient(port, receive_buffer=4096) as stalled:
                stalled.send("GET /feed HTTP/1.1|Host: a||")
                watch = select.poll()
                watch.register(stalled.sock, 0)
                wait_until(lambda: watch.poll(0), 20, "the stalled reader to be reset")
                self.assertEqual(json.loads(fetch(port, "/feed").body)["count"], 40)

    def reader(self, name, tls, **options):
        client = self.client(0, tls, **options)
        self.assertEqual(client.register(key_of("reader"), name)["type"], "registered")
        return client


if __name__ == "__main__":
    main()
