"""The load on a backend's memory: slow readers of a long history beside messages, in a real memory cgroup where one can be
made. In a short form in the tests, in full in `make soak`."""

import base64
import json
import os
import tempfile
import threading
import time

from chat_case import Chat
from chat_client import key_of, registration
from memory_cgroup import MIB, MemoryCgroup
from programs import SANITIZED
from raw import RawClient
from waiting import wait_until


class SlowReaders(Chat):
    """READERS of the whole feed (every other one by gzip) and REPLAYS by WSS that stop reading, each of another state of the
    feed, in a cgroup of 64 MiB. No OOM kill; meanwhile messages are taken and told, and who reads gets all. In the end all
    feed readers read on, slowly, and what they get is whole, with `FINISH`."""

    READERS, REPLAYS, HISTORY, FINISH, REPORT = 40, 5, 6 * MIB, False, False
    LIMIT = (512 if SANITIZED else 64) * MIB
    TEXT = 60000

    def setUp(self):
        self.cgroup = MemoryCgroup.make(self.LIMIT)
        if self.cgroup:
            self.addCleanup(self.cgroup.remove)  # after the backend has ended
        usual, tempfile.tempdir = tempfile.tempdir, "/var/tmp"  # files in memory would count as the backend's own
        try:
            super().setUp()
        finally:
            tempfile.tempdir = usual

    def fill(self, backend):
        """History of random texts; returns how many rows it has."""
        count = self.HISTORY // self.TEXT + 1
        with backend.client(timeout=60) as client:
            for _ in range(count):
                text = base64.b64encode(os.urandom(self.TEXT * 3 // 4)).decode()
                body = json.dumps({"client-name": "History", "msg": text})
                client.send(f"POST /message HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
                self.assertEqual(client.read_response().status, 201)
        return count

    def stall(self, backend, number):
        reader = RawClient(backend.port, receive_buffer=4096, timeout=240)
        self.addCleanup(reader.close)
        coding = "Accept-Encoding: gzip\r\n" if number % 2 else ""
        reader.send(f"GET /feed HTTP/1.1\r\nHost: a\r\n{coding}\r\n".encode())
        return reader

    def read_on(self, reader, whole):
        response = reader.read_response(sink=lambda data: None)
        if response.complete and response.status == 200:
            whole.append(response.body_size)

    def test_slow_readers_of_a_long_history(self):
        self.scene(1, start=False, client_write_timeout="5m")
        backend = self.backends[0].launch(within=self.cgroup.procs if self.cgroup else "").wait_healthy()
        count = self.fill(backend)
        watcher = self.person("Watcher")
        replay = registration(key_of("Replay"), "Replay", after_sequence=0)
        readers, times = [], []
        for number in range(self.READERS):
            readers.append(self.stall(backend, number))
            if number < self.REPLAYS:
                client = self.client(tls=number % 2 == 0, receive_buffer=4096)
                self.assertEqual(client.ask("registered", **replay)["type"], "registered")
            started = time.monotonic()
            self.assertEqual(self.post(0, f"between {number}", f"b{number}")[0].status, 201)
            times.append(time.monotonic() - started)
        self.assertEqual([row["message-id"] for row in watcher.read_live(self.READERS)],
                         [f"b{number}" for number in range(self.READERS)])
        feed = json.loads(backend.fetch("/feed", timeout=60).body)
        self.assertEqual(feed["count"], count + self.READERS)
        whole, started = [], time.monotonic()
        if self.FINISH:
            threads = [threading.Thread(target=self.read_on, args=(reader, whole), daemon=True) for reader in readers]
            for thread in threads:
                thread.start()
            for number in range(20):
                self.assertEqual(self.post(0, f"while they read {number}", f"w{number}")[0].status, 201)
            for thread in threads:
                thread.join(240)
            self.assertEqual(len(whole), self.READERS, "readers that got all")
        peak = self.peak(backend)
        self.assertLessEqual(peak, self.LIMIT)
        if self.cgroup:
            self.assertEqual(self.cgroup.oom_kills(), 0)
        for reader in readers:
            reader.close()
        wait_until(lambda: json.loads(backend.fetch("/metrics?format=json").body)["connections"]["open"] < 10, 30,
                   "them to be gone")
        if self.REPORT:
            took = time.monotonic() - started
            print(f"{'cgroup' if self.cgroup else 'no cgroup'} of {self.LIMIT // MIB} MiB, history of {self.HISTORY // MIB} MiB, "
                  f"{self.READERS} feed readers and {self.REPLAYS} replays: peak {peak / MIB:.1f} MiB, RSS "
                  f"{backend.rss() / MIB:.1f} MiB, a message meanwhile took {max(times) * 1000:.0f} ms at most; "
                  f"{sum(whole) / MIB:.0f} MiB read in {took:.1f} s")

    def peak(self, backend):
        """Of the cgroup, page cache and all, or of the process alone."""
        peak = self.cgroup.peak() if self.cgroup else -1
        if peak < 0:
            with open(f"/proc/{backend.pid}/status", encoding="ascii") as file:
                peak = next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM"))
        return peak
