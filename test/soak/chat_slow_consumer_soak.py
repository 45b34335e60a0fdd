"""CH-07 at its full size: 50,000 messages of 1 KB to a hundred readers in clear, by TLS and through the balancer, beside some
that stop reading: those are cut at their bound, the others get all in order, and memory stays within the bounds. Run by
`make soak`; the readers are bench/chat_fanout.cc."""

import json
import os
import subprocess

from case import main
from chat_case import Chat
from chat_client import key_of
from waiting import wait_until
from websocket_case import front

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
CLIENT = os.path.join(ROOT, "build", "release", "bench", "chat_fanout")
ROUNDS, READERS, MESSAGES, RATE, BYTES = 10, 100, 5000, 1500, 1000  # a round's messages are signed ahead
STALLED, CAP, CACHE = 8, 1 << 20, 8 << 20


class SlowConsumers(Chat):
    store = "postgres"

    def figures(self):
        return json.loads(self.backends[0].fetch("/metrics?format=json").body)["ws"]

    def publish(self, url):
        """A round; its figures."""
        with subprocess.Popen([CLIENT, *(str(number) for number in (READERS, MESSAGES, RATE, BYTES)), url],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as readers:
            self.assertEqual(readers.stdout.readline(), "ready\n")
            readers.stdin.write("\n")
            readers.stdin.flush()
            line = readers.stdout.readline()
        self.assertEqual(readers.returncode, 0, line)
        self.assertEqual(line.split()[:4], ["deliveries", str(READERS * MESSAGES), "missing", "0"])
        return line

    def test_ch_07_fifty_thousand_messages(self):
        self.scene(1, ws_message_rate=0, ws_queue_max_bytes=CAP, feed_cache_max_bytes=CACHE, db_write_queue_max=4000)
        balancer, through = front(self, self.backends[0])
        backend = self.backends[0]
        for way, url in (("clear", f"ws://127.0.0.1:{backend.port}/ws"), ("TLS", f"wss://127.0.0.1:{backend.ws_port}/ws"),
                         ("lb", f"ws://127.0.0.1:{balancer.port}/ws")):
            with self.subTest(way=way):
                before, memory = self.figures()["ended"]["slow_consumer"], backend.rss()
                for number in range(STALLED):
                    connection = through["lb"](receive_buffer=4096) if way == "lb" else \
                        self.connect(0, way == "TLS", receive_buffer=4096)
                    answer = self.client(connection=connection).register(key_of("stalled"), f"stalled {way} {number}")
                    self.assertEqual(answer["type"], "registered")
                for _ in range(ROUNDS):
                    line = self.publish(url)
                wait_until(lambda: self.figures()["ended"]["slow_consumer"] == before + STALLED, 20, "the stalled ones to be cut")
                growth = backend.rss() - memory
                self.assertLess(growth, CAP * (STALLED + READERS) + 2 * CACHE)
                print(f"{way}: {line.strip()}; RSS grew by {growth >> 20} MiB")


if __name__ == "__main__":
    main()
