"""A hundred subscribers that drop and come back again and again while 500 messages a second come in, at three backends on
PostgreSQL, directly and through the balancer: each sees each message once, in order (B9, B10; CH-24). Run by `make soak`."""

import json
import random
import re
import threading
import time

from case import main
from chat_case import Chat
from chat_client import ChatClient, key_of, registration
from raw import fetch
from websocket_case import front

SECONDS, SUBSCRIBERS = 20, 100
SEQUENCE = re.compile(rb'"sequence":(\d+)[,}]')  # of a row: nothing else that a session gets has that field


class Reconnects(Chat):
    store = "postgres"

    def connect_any(self, number):
        """A third through the balancer's wss-listen, the others at a backend, by TLS or plain."""
        if number % 3 == 0:
            return self.through["lb wss"](timeout=60)
        return self.connect(number % 2, number % 3 == 1, timeout=60)

    def subscribe(self, number, seen, last, sessions):
        """Until it has seen the row `last[0]`, once that is known."""
        chance = random.Random(number)
        message = dict(self.registration)
        while not last or not seen or seen[-1] < last[0]:
            client = ChatClient(self.connect_any(number + len(seen)))
            try:
                message["after_sequence"] = seen[-1] if seen else 0
                client.say(**message)
                assert client.read_until("registered", "error")["type"] == "registered"
                sessions.append(number)
                raw, leave = client.socket.client, time.monotonic() + chance.uniform(0.2, 3)
                while True:
                    found = list(SEQUENCE.finditer(raw.buffer))
                    seen.extend(int(one.group(1)) for one in found)
                    raw.buffer = raw.buffer[found[-1].end():] if found else raw.buffer
                    if time.monotonic() > leave or (last and seen and seen[-1] >= last[0]):
                        break
                    if not raw.fill():
                        break
            finally:
                client.close()

    def test_ch_24_a_hundred_subscribers(self):
        self.scene(3)
        _, self.through = front(self, *self.backends)
        self.registration = registration(key_of("Subscriber"), "Subscriber")
        seen, last, sessions = [[] for _ in range(SUBSCRIBERS)], [], []
        threads = [threading.Thread(target=self.subscribe, args=(number, mine, last, sessions), daemon=True)
                   for number, mine in enumerate(seen)]
        for thread in threads:
            thread.start()
        out = self.load("-users", "100", "-interval-min", "150ms", "-interval-max", "250ms", "-duration", f"{SECONDS}s",
                        timeout=SECONDS + 60)
        last.append(self.post(0, "the last one", "last")[1]["message"]["sequence"])  # which wakes who waits
        feed = [row["sequence"] for row in json.loads(fetch(self.backends[0].port, "/feed", timeout=60).body)["messages"]]
        for thread in threads:
            thread.join(60)
            self.assertFalse(thread.is_alive(), "a subscriber hangs")
        for number, sequences in enumerate(seen):
            self.assertEqual(sequences, feed, f"subscriber {number}")
        print(f"{len(feed)} messages, {len(seen)} subscribers saw all of them once, in order, in {len(sessions)} sessions\n" +
              "\n".join(line for line in out.splitlines() if line.startswith(("message", "   "))))


if __name__ == "__main__":
    main()
