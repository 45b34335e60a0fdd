#!/usr/bin/env python3
"""Measures the balancer beside its peers; bench/peers.sh builds what is needed and calls this. Proxies run on core 0,
origins and clients on core 1. Rounds are interleaved (A B C, A B C, …), figures are medians with their spread, ratios
are taken round by round."""

import argparse
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile

from servers import NGINX, Server, free_port

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ORIGINS = 3
SIZES = {"256": 256, "64k": 64 * 1024, "1m": 1 << 20, "16m": 16 << 20}

HAPROXY = """global
  nbthread 1
  maxconn 9000
defaults
  mode http
  timeout connect 2s
  timeout client 600s
  timeout server 60s
  timeout http-keep-alive 600s
frontend f
  bind 127.0.0.1:{port}
  default_backend b
backend b
  balance leastconn
  http-reuse always
{servers}
"""


def start_origins(folder):
    www = os.path.join(folder, "www")
    os.mkdir(www)
    for name, size in SIZES.items():
        with open(os.path.join(www, name), "wb") as file:
            file.write(b"x" * size)
    os.chmod(folder, 0o755)
    ports = [free_port() for _ in range(ORIGINS)]
    listens = "".join(f"listen 127.0.0.1:{port}; " for port in ports)
    inner = ("sendfile on; tcp_nopush on; open_file_cache max=100; "
             f"server {{ {listens} root {www}; location = /health {{ return 200; }} }}")
    path = os.path.join(folder, "origin.conf")
    with open(path, "w", encoding="ascii") as file:
        file.write(NGINX.format(folder=folder, name="origin", inner=inner))
    return Server("origin", ports[0], ["nginx", "-c", path], 1, folder), ports


def start_dlb(name, program, origins, folder):
    port = free_port()
    urls = ",".join(f"http://127.0.0.1:{origin}" for origin in origins)
    command = [program, "--listen", f"127.0.0.1:{port}", "--backends", urls, "--stats-path", "", "--policy", "least_conn",
               "--client-idle-timeout", "600s", "--proxy-idle-timeout", "30s", "--client-max-connections", "20000",
               # The guard would count the sockets of the peers and of the clients, and shed.
               "--lb-max-socket-bytes", "0", "--log-level", "error"]
    return Server(name, port, command, 0, folder)


def start_haproxy(origins, folder):
    port = free_port()
    servers = "".join(f"  server s{i} 127.0.0.1:{origin}\n" for i, origin in enumerate(origins))
    path = os.path.join(folder, "haproxy.conf")
    with open(path, "w", encoding="ascii") as file:
        file.write(HAPROXY.format(port=port, servers=servers))
    return Server("haproxy", port, ["haproxy", "-db", "-f", path], 0, folder)


def start_nginx(origins, folder):
    port = free_port()
    servers = " ".join(f"server 127.0.0.1:{origin};" for origin in origins)
    inner = (f"upstream u {{ least_conn; {servers} keepalive 64; keepalive_requests 1000000000; }} "
             f"server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://u; proxy_http_version 1.1; "
             "proxy_set_header Connection ''; proxy_max_temp_file_size 0; } }")
    path = os.path.join(folder, "nginx.conf")
    with open(path, "w", encoding="ascii") as file:
        file.write(NGINX.format(folder=folder, name="nginx", inner=inner))
    return Server("nginx", port, ["nginx", "-c", path], 0, folder)


def start_limit(name, extra, origins, folder):
    port = free_port()
    command = [os.path.join(ROOT, "build/release/bench/limit_relay"), str(port), ",".join(map(str, origins))] + extra
    return Server(name, port, command, 0, folder)


def wrk(port, path, connections, seconds, extra=()):
    """Requests answered in `seconds`; every answer has to be a good one."""
    command = ["taskset", "-c", "1", "wrk", "-t1", f"-c{connections}", f"-d{seconds}s", *extra,
               f"http://127.0.0.1:{port}/{path}"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    count = re.search(r"(\d+) requests in", out)
    if not count or "Non-2xx" in out or re.search(r"Socket errors:.*(?:connect|read|write) [1-9]", out):
        raise SystemExit(f"peers: failed requests:\n{out}")
    return int(count.group(1))


class KeepAliveClient:
    """One connection that counts: exactly as many requests as asked for."""

    REQUEST = b"GET /256 HTTP/1.1\r\nHost: a\r\n\r\n"

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))

    def send(self):
        self.socket.sendall(self.REQUEST)

    def receive(self):
        data = b""
        while b"\r\n\r\n" not in data:
            data += self.socket.recv(65536)
        head, _, body = data.partition(b"\r\n\r\n")
        length = int(re.search(rb"(?i)content-length: *(\d+)", head).group(1))
        if not head.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"peers: {head[:100]!r}")
        while len(body) < length:
            body += self.socket.recv(65536)


def counted_requests(clients, rounds):
    for _ in range(rounds):
        for client in clients:
            client.send()
        for client in clients:
            client.receive()


def syscalls_per_request(server):
    """By strace -c, as the difference of two counts, so that start and end cancel out."""
    clients = [KeepAliveClient(server.port) for _ in range(64)]
    counted_requests(clients, 5)
    totals = []
    for rounds in (10, 40):
        with tempfile.NamedTemporaryFile("r", suffix=".strace") as out:
            tracer = subprocess.Popen(["strace", "-c", "-f", "-o", out.name, "-p", str(server.worker)],
                                      stderr=subprocess.PIPE)
            tracer.stderr.readline()  # "Process N attached"
            counted_requests(clients, rounds)
            tracer.send_signal(signal.SIGINT)
            tracer.wait()
            tracer.stderr.close()
            totals.append(int(re.search(r"^100\.00\s+\S+\s+\S+\s+(\d+)", out.read(), re.M).group(1)))
    for client in clients:
        client.socket.close()
    return (totals[1] - totals[0]) / (30 * 64)


def bytes_per_idle_client(server, count):
    warm = [KeepAliveClient(server.port) for _ in range(64)]
    counted_requests(warm, 3)
    before = server.private_bytes()
    clients = []
    for _ in range(count // 50):
        batch = [KeepAliveClient(server.port) for _ in range(50)]
        counted_requests(batch, 1)
        clients += batch
    used = server.private_bytes() - before
    for client in clients + warm:
        client.socket.close()
    return used / len(clients)


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def measure_cpu(servers, title, path, connections, rounds, seconds, per, extra=()):
    """CPU of each server per request (µs) or per gigabyte (ms), and its ratio to haproxy in the same round."""
    figures = {server.name: [] for server in servers}
    for turn in range(rounds):
        order = servers[turn % len(servers):] + servers[:turn % len(servers)]
        for server in order:
            before = server.cpu_ns()
            requests = wrk(server.port, path, connections, seconds, extra)
            used = server.cpu_ns() - before
            amount = requests * 1e3 if per == "request" else requests * SIZES[path] / 1e9 * 1e6
            figures[server.name].append(used / amount)
    result = {}
    for name, values in figures.items():
        result[name] = spread(values)
        if "haproxy" in figures:
            result[name]["ratio"] = statistics.median(mine / theirs for mine, theirs in zip(values, figures["haproxy"]))
    unit = "µs/request" if per == "request" else "ms/GB"
    print(f"\n{title} (CPU, {unit})")
    for name, row in result.items():
        ratio = f"  {row['ratio']:.2f}×" if "ratio" in row else ""
        print(f"  {name:<12} {row['median']:8.1f}  [{row['min']:.1f} – {row['max']:.1f}]{ratio}", flush=True)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--seconds", type=int, default=1)
    parser.add_argument("--idle", type=int, default=5000, help="clients of the memory measurement")
    parser.add_argument("--only", default="", help="of: small, many, fresh, 64k, 1m, 16m, syscalls, idle")
    parser.add_argument("--json", default="")
    parser.add_argument("--dlb", action="append", default=[], metavar="LABEL=PROGRAM",
                        help="a further balancer, to compare two builds")
    arguments = parser.parse_args()
    chosen = set(filter(None, arguments.only.split(",")))
    os.environ["PATH"] += ":/usr/sbin"
    results, servers = {}, []
    with tempfile.TemporaryDirectory(prefix="dlb-peers-") as folder:
        try:
            origin, ports = start_origins(folder)
            servers.append(origin)
            proxies = [start_dlb("dlb", os.path.join(ROOT, "lb/lb"), ports, folder)]
            proxies += [start_dlb(*one.split("=", 1), ports, folder) for one in arguments.dlb]
            proxies += [start_haproxy(ports, folder), start_nginx(ports, folder)]
            limits = [start_limit("limit", [], ports, folder)]
            large = [start_limit("limit-splice", ["--splice", "--block", "262144"], ports, folder)]
            servers += proxies + limits + large
            wanted = lambda name: not chosen or name in chosen  # noqa: E731
            rows = (("small", "GET 256 B, 64 connections", "256", 64, "request", limits, ()),
                    ("many", "GET 256 B, 512 connections", "256", 512, "request", limits, ()),
                    ("fresh", "GET 256 B, a connection each, 64 at a time", "256", 64, "request", [],
                     ("-H", "Connection: close")),
                    ("64k", "GET 64 KiB, 16 connections", "64k", 16, "gigabyte", limits + large, ()),
                    ("1m", "GET 1 MiB, 8 connections", "1m", 8, "gigabyte", limits + large, ()),
                    ("16m", "GET 16 MiB, 4 connections", "16m", 4, "gigabyte", limits + large, ()))
            for name, title, path, connections, per, more, extra in rows:
                if wanted(name):
                    results[name] = measure_cpu(proxies + more, title, path, connections, arguments.rounds,
                                                arguments.seconds, per, extra)
            if wanted("syscalls"):
                print("\nSyscalls a request, 64 keep-alive connections")
                results["syscalls"] = {}
                for server in proxies + limits:
                    results["syscalls"][server.name] = syscalls_per_request(server)
                    print(f"  {server.name:<12} {results['syscalls'][server.name]:8.2f}", flush=True)
            if wanted("idle"):
                print(f"\nUser memory of an idle client, after one request each of {arguments.idle} (bytes)")
                results["idle"] = {}
                for server in proxies:
                    results["idle"][server.name] = bytes_per_idle_client(server, arguments.idle)
                    print(f"  {server.name:<12} {results['idle'][server.name]:8.0f}", flush=True)
        finally:
            for server in reversed(servers):
                server.stop()
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
