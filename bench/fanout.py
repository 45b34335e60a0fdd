#!/usr/bin/env python3
"""One publisher and many subscribers of the chat: deliveries a second, CPU of the backend a delivery, memory of an idle
session, and the time from a commit to its deliveries, on one backend and from one to another; in clear and by TLS.

  make all build/release/bench/chat_fanout
  bench/fanout.py [--rounds N] [--subscribers N] [--store sqlite|postgres] [--realtime] [--json FILE]

Backends run on core 0, the clients (chat_fanout.cc) and PostgreSQL on core 1. CPU is the backends' own (schedstat). `burst`:
all messages are published at once; `paced`: --rate a second, where times are looked at."""

import argparse
import base64
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), ".."))
sys.path.insert(0, os.path.join(ROOT, "test", "support"))
from programs import ChatBackend, PostgresServer  # noqa: E402
from servers import cpu_ns, spread  # noqa: E402

CLIENT = os.path.join(ROOT, "build", "release", "bench", "chat_fanout")
BURST_RATE = 10**9


def private_bytes(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        return sum(int(line.split()[1]) * 1024 for line in file if line.startswith(("Private_Dirty:", "Private_Clean:")))


class Scene:
    def __init__(self, folder, store, count, tls, realtime):
        self.tls = tls
        data = os.path.join(folder, "data")
        os.mkdir(data)
        files = {"tls_cert": f"{folder}/tls.crt", "tls_key": f"{folder}/tls.key"}
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-days", "2", "-subj", "/CN=localhost", "-keyout", files["tls_key"], "-out", files["tls_cert"]],
                       check=True, stderr=subprocess.DEVNULL)
        self.backends = []
        for number in range(count):
            backend = ChatBackend(folder, f"b{number}", data, store, wss=True, ws_plain=True, ws_message_rate=0,
                                  drain_notice="0", client_max_connections=4000, **files)
            if number == 0 and store is not None:
                self.make_key(backend)
            backend.start()
            subprocess.run(["taskset", "-a", "-p", "-c", "0", str(backend.pid)], check=True, stdout=subprocess.DEVNULL)
            if realtime:
                subprocess.run(["chrt", "-a", "-f", "-p", "10", str(backend.pid)], check=True, stdout=subprocess.DEVNULL)
            self.backends.append(backend)

    @staticmethod
    def make_key(backend):
        with open(os.open(backend.key_file, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            file.write(base64.urlsafe_b64encode(os.urandom(32)).decode() + "\n")

    def url(self, backend):
        return f"wss://127.0.0.1:{backend.ws_port}/ws" if self.tls else f"ws://127.0.0.1:{backend.port}/ws"

    def run(self, subscribers, messages, rate, size):
        """Figures of one run, and the growth of the last backend's memory by the subscribers (bytes each)."""
        last = self.backends[-1]
        before = private_bytes(last.pid)
        command = ["taskset", "-c", "1", CLIENT, str(subscribers), str(messages), str(rate), str(size),
                   ",".join(self.url(backend) for backend in self.backends)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
            if client.stdout.readline() != "ready\n":
                raise SystemExit("fanout: the clients could not register")
            session = (private_bytes(last.pid) - before) / subscribers
            cpu = sum(cpu_ns(backend.pid) for backend in self.backends)
            client.stdin.write("\n")
            client.stdin.flush()
            line = client.stdout.readline()
            cpu = sum(cpu_ns(backend.pid) for backend in self.backends) - cpu
        words = [float(word) for word in re.findall(r"[\d.]+", line)]
        if client.returncode != 0 or len(words) != 10 or words[1] != 0:
            raise SystemExit(f"fanout: the run failed: {line}")
        names = ("deliveries", "missing", "seconds", "client_cpu", "ack_p50", "ack_p99", "delivery_p50", "delivery_p99",
                 "after_p50", "after_p99")
        return {**dict(zip(names, words)), "cpu_us": cpu / words[0] / 1e3, "session_bytes": session}

    def turns_over_5ms(self):
        text = "".join(backend.fetch("/metrics").body.decode() for backend in self.backends)
        return sum(float(value) for value in re.findall(r"^dlb_backend_loop_slow_turns_total(?:\{[^}]*\})? (\S+)", text, re.M))

    def end(self):
        for backend in self.backends:
            problem = backend.finish()
            if problem:
                raise SystemExit(problem)


def measure(store, count, tls, arguments):
    with tempfile.TemporaryDirectory(prefix="dlb-fanout-", dir="/dev/shm") as folder:
        if store is not None:
            store.fresh_database()
        scene = Scene(folder, store, count, tls, arguments.realtime)
        # Warms up, and is the only one that meets fresh memory.
        first = scene.run(arguments.subscribers, 10, arguments.rate, arguments.bytes)
        burst, paced = [], []
        for _ in range(arguments.rounds):
            burst.append(scene.run(arguments.subscribers, arguments.messages, BURST_RATE, arguments.bytes))
            paced.append(scene.run(arguments.subscribers, arguments.messages, arguments.rate, arguments.bytes))
        print(f"\n{count} backend{'s' * (count > 1)}, {'TLS' if tls else 'clear'}, 1 × {arguments.subscribers}, "
              f"{arguments.bytes} B")
        print(f"  burst: deliveries/s, thousands    {spread([r['deliveries'] / r['seconds'] / 1e3 for r in burst])}")
        print(f"  burst: CPU µs a delivery          {spread([r['cpu_us'] for r in burst])}")
        print(f"  paced: CPU µs a delivery          {spread([r['cpu_us'] for r in paced])}")
        for name, title in (("ack", "sent → acknowledged"), ("delivery", "sent → delivered"),
                            ("after", "acknowledged → delivered")):
            print(f"  paced: {title:<24} ms p50 {spread([r[name + '_p50'] / 1e3 for r in paced])}"
                  f"   p99 {spread([r[name + '_p99'] / 1e3 for r in paced])}")
        print(f"  an idle session, bytes of memory  {first['session_bytes']:9.0f}")
        print(f"  loop turns over 5 ms              {scene.turns_over_5ms():9.0f}", flush=True)
        scene.end()
        return {"first": first, "burst": burst, "paced": paced}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--subscribers", type=int, default=1000)
    parser.add_argument("--messages", type=int, default=200)
    parser.add_argument("--rate", type=int, default=50)
    parser.add_argument("--bytes", type=int, default=200)
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="postgres")
    parser.add_argument("--realtime", action="store_true",
                        help="nothing else on their core puts the backends off: turns over 5 ms are then their own work")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    store = PostgresServer.shared() if arguments.store == "postgres" else None
    result = {}
    for count in (1, 2):
        for tls in (False, True):
            result[f"{count}-{'tls' if tls else 'clear'}"] = measure(store, count, tls, arguments)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)


main()
