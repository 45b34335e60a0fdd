#!/usr/bin/env python3
"""What the feed costs: bytes a second and CPU of a long history beside nginx with the same bytes in a file, the first byte,
memory with readers that read nothing, and what one new row costs behind short and long histories. SQLite; the feed is the
same on PostgreSQL.

  make all && bench/feed.py [--rounds N] [--seconds S] [--mb N] [--only speed,first,stalled,refresh] [--json FILE]

The server runs on core 0, clients on core 1. CPU is the server's own (schedstat)."""

import argparse
import contextlib
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), ".."))
sys.path.insert(0, os.path.join(ROOT, "test", "support"))
from programs import ChatBackend  # noqa: E402
from servers import NGINX, Server, cpu_ns, free_port, spread  # noqa: E402

MESSAGE = 1000  # bytes of text in the long history
PARTS = ("speed", "first", "stalled", "refresh")


def fill(backend, rows, size, seed):
    done = subprocess.run([os.path.join(ROOT, "loadgen", "loadgen"), "-url", backend.url, "-users", "200", "-requests", str(rows),
                           "-message-min", str(size), "-message-max", str(size), "-seed", str(seed), "-out-dir", ""],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode not in (0, 4):  # 4: faster than the generator; nothing is measured here
        raise SystemExit("feed: filling failed\n" + done.stdout)


def start(folder, name, data, **options):
    backend = ChatBackend(folder, name, data, drain_notice="0", client_max_connections=4000, **options)
    backend.start()
    subprocess.run(["taskset", "-a", "-p", "-c", "0", str(backend.pid)], check=True, stdout=subprocess.DEVNULL)
    return backend


def wrk(port, path, connections, seconds, header=()):
    """Bytes received."""
    done = subprocess.run(["taskset", "-c", "1", "wrk", "-t1", f"-c{connections}", f"-d{seconds}s", *header,
                           f"http://127.0.0.1:{port}{path}"], stdout=subprocess.PIPE, text=True, check=True)
    amount, unit = re.search(r"in [\d.]+\w+, ([\d.]+)(\w+) read", done.stdout).groups()
    if re.search(r"Non-2xx|Socket errors: (?!connect 0, read 0, write 0)", done.stdout):
        raise SystemExit("feed: wrk saw errors\n" + done.stdout)
    return float(amount) * {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}[unit]


def measure_speed(folder, data, rounds, seconds):
    backend, tuned = start(folder, "small", data), start(folder, "tuned", data, http_socket_write_buffer_bytes=0)
    body = backend.fetch("/feed", timeout=120).body
    os.mkdir(os.path.join(folder, "www"))
    with open(os.path.join(folder, "www", "feed"), "wb") as file:
        file.write(body)
    os.chmod(folder, 0o755)
    port = free_port()
    inner = f"sendfile on; tcp_nopush on; server {{ listen 127.0.0.1:{port}; root {folder}/www; }}"
    with open(os.path.join(folder, "nginx.conf"), "w", encoding="ascii") as file:
        file.write(NGINX.format(folder=folder, name="nginx", inner=inner))
    nginx = Server("nginx", port, ["nginx", "-c", os.path.join(folder, "nginx.conf")], 0, folder)
    packed = ("-H", "Accept-Encoding: gzip")
    kinds = {"backend": (lambda: backend.pid, backend.port, ()), "its buffers tuned": (lambda: tuned.pid, tuned.port, ()),
             "backend, gzip": (lambda: backend.pid, backend.port, packed), "nginx, a file": (lambda: nginx.worker, port, ())}
    figures = {name: [] for name in kinds}
    for name in kinds:
        wrk(kinds[name][1], "/feed", 8, 1, kinds[name][2])  # warm
    for turn in range(rounds):
        names = list(kinds)
        for name in names[turn % 4:] + names[:turn % 4]:
            pid, at, header = kinds[name]
            before, began = cpu_ns(pid()), time.monotonic()
            got = wrk(at, "/feed", 8, seconds, header)
            figures[name].append((got / (time.monotonic() - began) / 1e9, (cpu_ns(pid()) - before) / got * 1e3))
    print(f"\nA feed of {len(body) / 1e6:.0f} MB to 8 clients: GB/s, CPU ms a GB on the wire")
    for name, values in figures.items():
        print(f"  {name:<18} {spread([v[0] for v in values])}   {spread([v[1] for v in values])}")
    for server in (backend, tuned, nginx):
        server.finish() if server is not nginx else server.stop()
    return figures


def measure_first_byte(backend, count=200):
    waits = []
    for _ in range(count):
        with socket.create_connection(("127.0.0.1", backend.port)) as client:
            began = time.monotonic()
            client.sendall(b"GET /feed HTTP/1.1\r\nHost: b\r\n\r\n")
            client.recv(1)
            waits.append((time.monotonic() - began) * 1e3)
    print(f"\nFirst byte of a warm feed, ms: median {statistics.median(waits):.2f}, p99 {sorted(waits)[-count // 100]:.2f}")
    return waits


def post_waits(backend, count):
    waits = []
    with backend.client() as client:
        for number in range(count):
            body = json.dumps({"client-name": "bench", "msg": f"{time.time_ns()} {number}"}).encode()
            began = time.monotonic()
            client.send(b"POST /message HTTP/1.1\r\nHost: b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                        % (len(body), body))
            assert client.read_response("POST").status == 201
            waits.append((time.monotonic() - began) * 1e3)
    return waits


def measure_stalled(backend, count=150):
    alone, before = post_waits(backend, 500), backend.rss()
    with contextlib.ExitStack() as readers:
        sockets = []
        for _ in range(count):
            client = readers.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", backend.port))
            client.sendall(b"GET /feed HTTP/1.1\r\nHost: b\r\n\r\n")
            sockets.append(client)
        for client in sockets:
            client.recv(1)
        grown = backend.rss() - before
        beside = post_waits(backend, 500)
        later = backend.rss() - before
    print(f"\n{count} readers of the whole feed that read one byte: memory +{grown / 2**20:.1f} MiB "
          f"(+{later / 2**20:.1f} after 500 more posts) on {before / 2**20:.0f}")
    for name, waits in (("without them", alone), ("beside them", beside)):
        waits.sort()
        print(f"  a post {name:<13} ms: median {statistics.median(waits):.2f}, p99 {waits[-5]:.2f}, longest {waits[-1]:.2f}")
    return {"rss_before": before, "grown": grown, "after_posts": later, "alone_ms": alone, "beside_ms": beside}


def measure_refresh(folder, data, rounds):
    """Each cycle posts one message and asks for the page behind the one before it, which has that message."""
    figures, rows = {}, 0
    backend = start(folder, "growing", data)
    print("\nOne more row: a post and the page of the feed that has it; CPU µs, wait of the page in ms")
    for target in (1_000, 100_000, 1_000_000):
        fill(backend, target - rows, 60, target)
        rows = target
        values = []
        for _ in range(rounds):
            cpu, waits, cycles = cpu_ns(backend.pid), [], 300
            with backend.client() as reader, backend.client() as writer:
                for number in range(cycles):
                    body = json.dumps({"client-name": "bench", "msg": f"{number} {time.time_ns()}"}).encode()
                    writer.send(b"POST /message HTTP/1.1\r\nHost: b\r\nContent-Type: application/json\r\n"
                                b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
                    sequence = json.loads(writer.read_response("POST").body)["message"]["sequence"]
                    began = time.monotonic()
                    reader.send(b"GET /feed?after=%d HTTP/1.1\r\nHost: b\r\n\r\n" % (sequence - 1))
                    assert json.loads(reader.read_response().body)["count"] == 1
                    waits.append((time.monotonic() - began) * 1e3)
            rows += cycles
            values.append(((cpu_ns(backend.pid) - cpu) / cycles / 1e3, statistics.median(waits)))
        figures[target] = values
        print(f"  {target:>9,} rows   {spread([v[0] for v in values])}   {spread([v[1] for v in values])}", flush=True)
    backend.finish()
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--mb", type=int, default=100, help="size of the history")
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--json")
    arguments = parser.parse_args()
    wanted, result = arguments.only.split(","), {}
    with tempfile.TemporaryDirectory(prefix="dlb-feed-", dir="/dev/shm") as folder:
        data = os.path.join(folder, "data")
        os.mkdir(data)
        if {"speed", "first", "stalled"} & set(wanted):
            backend = start(folder, "filled", data)
            fill(backend, arguments.mb * 1_000_000 // (MESSAGE + 170), MESSAGE, 1)
            size = len(backend.fetch("/feed", timeout=120).body)
            print(f"history of {size / 1e6:.0f} MB", flush=True)
            if "first" in wanted:
                result["first_byte_ms"] = measure_first_byte(backend)
            if "stalled" in wanted:
                result["stalled"] = measure_stalled(backend)
            backend.finish()
            if "speed" in wanted:
                result["speed"] = measure_speed(folder, data, arguments.rounds, arguments.seconds)
        if "refresh" in wanted:
            fresh = os.path.join(folder, "fresh")
            os.mkdir(fresh)
            result["refresh"] = measure_refresh(folder, fresh, arguments.rounds)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)


main()
