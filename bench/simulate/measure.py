#!/usr/bin/env python3
"""Plays a scenario for real: fixture servers, the balancer and an open-loop client on this machine, and writes what came of
it as `simulate --json` does, for the page (`simulate --beside FILE`).

  bench/simulate/measure.py bench/scenarios/real_slow.toml --policies score,adaptive > measured.json

Arrivals are Poisson by `rate`; of episodes slow, errors, hang and unhealthy. `make lb fixture_server` first. Give it the
machine: at a few hundred requests a second this client is a good part of a core."""

import argparse
import asyncio
import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
BUCKETS = 120
IDLE_MAX = 2  # seconds; the balancer closes what idles for five
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
REQUEST = b"GET / HTTP/1.1\r\nHost: measure\r\n\r\n"


def seconds(text):
    return sum(float(value) * UNITS[unit] for value, unit in re.findall(r"([\d.]+)(us|ms|s|m|h)", str(text)))


def percentile(values, percent):
    return values[max(1, math.ceil(percent / 100 * len(values))) - 1] if values else 0


class Servers:
    """The scenario's servers as processes, in its order."""

    def __init__(self, scenario):
        self.all, self.ids, self.episodes = [], [], []
        for group in scenario["servers"]:
            for index in range(group.get("count", 1)):
                words = [os.path.join(ROOT, "bench", "fixture_server"), "--service", group.get("service", "fixed 0s"),
                         "--capacity", str(group.get("capacity", 0)), "--seed", str(len(self.all) + 1)]
                process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
                port = int(process.stdout.readline().split()[1])
                name = group.get("id", "")
                self.ids.append((name or "s") + (str(len(self.all) + 1) if not name or group.get("count", 1) > 1 else ""))
                self.all.append((process, port))
                for episode in group.get("episode", []):
                    if episode.get("server", index) == index:
                        begin = seconds(episode.get("from", "0s")) + index * seconds(episode.get("stagger", "0s"))
                        self.episodes.append((begin, port, self.change(episode, True)))
                        self.episodes.append((begin + seconds(episode["for"]), port, self.change(episode, False)))

    @staticmethod
    def change(episode, begins):
        changes = {"slow": ("slow", episode.get("factor", 10), 1), "errors": ("fail-share", episode.get("share", 1), 0),
                   "hang": ("hang", "true", "false"), "unhealthy": ("health", "down", "up")}
        name, on, off = changes[episode["kind"]]
        return f"/fixture?{name}={on if begins else off}"

    def stop(self):
        for process, _ in self.all:
            process.terminate()
        for process, _ in self.all:
            process.wait()


class Run:
    def __init__(self, scenario, port):
        self.port, self.duration = port, seconds(scenario["duration"])
        self.judged_from = seconds(scenario.get("judged-from", "0s"))
        self.idle, self.tasks, self.results = [], [], []

    async def ask(self, begin):
        """One request by a kept connection; its latency counts from when it was due."""
        status = 0
        try:
            while self.idle and time.monotonic() - self.idle[-1][2] > IDLE_MAX:
                self.idle.pop()[1].close()
            kept = self.idle.pop()[:2] if self.idle else None
            reader, writer = kept or await asyncio.open_connection("127.0.0.1", self.port)
            writer.write(REQUEST)
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head, re.I)
            await reader.readexactly(int(length[1]) if length else 0)
            status, backend = int(head[9:12]), re.search(rb"x-load-balancer-backend: (\S+)", head, re.I)
            self.results.append((begin, time.monotonic() - self.start - begin, status, backend and backend[1].decode()))
            if b"connection: close" in head.lower():
                writer.close()
            else:
                self.idle.append((reader, writer, time.monotonic()))
        except (OSError, asyncio.IncompleteReadError):
            self.results.append((begin, 0, status, None))

    async def change_at(self, when, port, target):
        await asyncio.sleep(max(0, self.start + when - time.monotonic()))
        request = urllib.request.Request(f"http://127.0.0.1:{port}{target}", method="POST")
        await asyncio.to_thread(lambda: urllib.request.urlopen(request, timeout=10).read())

    async def play(self, arrivals, episodes):
        self.start = time.monotonic()
        changes = [asyncio.create_task(self.change_at(*episode)) for episode in episodes]
        draw, due = random.Random(1), 0.0
        while True:
            due += draw.expovariate(arrivals["rate"])
            if due >= self.duration:
                break
            await asyncio.sleep(max(0, self.start + due - time.monotonic()))
            self.tasks.append(asyncio.create_task(self.ask(due)))
        await asyncio.gather(*self.tasks, *changes)
        for _, writer, _ in self.idle:
            writer.close()

    def outcome(self, scenario, name, policy, ids):
        judged = [result for result in self.results if result[0] >= self.judged_from]
        good = sorted(took * 1000 for _, took, status, _ in judged if 0 < status < 500)
        buckets = [{"requests": 0, "failed": 0, "picks": [0] * len(ids), "good": []} for _ in range(BUCKETS)]
        for begin, took, status, backend in self.results:
            bucket = buckets[min(BUCKETS - 1, int(begin / self.duration * BUCKETS))]
            bucket["requests"] += 1
            if 0 < status < 500:
                bucket["good"].append(took * 1000)
            else:
                bucket["failed"] += 1
            if backend in ids:
                bucket["picks"][ids.index(backend)] += 1
        for bucket in buckets:
            values = sorted(bucket.pop("good"))
            bucket.update(p50_ms=percentile(values, 50), p99_ms=percentile(values, 99))
        servers = [{"id": one, "requests": sum(bucket["picks"][index] for bucket in buckets)} for index, one in enumerate(ids)]
        return {"scenario": name, "about": scenario.get("about", ""), "policy": policy + ", measured",
                "duration_seconds": self.duration, "requests": len(judged), "succeeded": len(good),
                "success_percent": 100 * len(good) / max(1, len(judged)), "retries": 0, "queued": 0, "ejections": 0,
                "mean_ms": sum(good) / max(1, len(good)), "p50_ms": percentile(good, 50), "p99_ms": percentile(good, 99),
                "p999_ms": percentile(good, 99.9), "max_ms": percentile(good, 100), "servers": servers, "buckets": buckets}


def lb_metrics(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/lb/metrics", timeout=10) as response:
        return json.load(response)


def free_port():
    import socket  # only for this
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def play(scenario, name, policy):
    servers = Servers(scenario)
    balancer = None
    try:
        port = free_port()
        lines = [f'listen = "127.0.0.1:{port}"', f'policy = "{policy}"', 'admin-listen = "off"', 'lb-max-socket-bytes = "0"',
                 'log-level = "error"']
        lines += [f"{key} = {json.dumps(value)}" for key, value in scenario.get("balancer", {}).items()]
        for one, (_, backend) in zip(servers.ids, servers.all):
            lines += ["[[backend]]", f'id = "{one}"', f'url = "http://127.0.0.1:{backend}"']
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write("\n".join(lines) + "\n")
            file.flush()
            balancer = subprocess.Popen([os.path.join(ROOT, "lb", "lb"), "-c", file.name])
            run = Run(scenario, port)
            while True:
                try:
                    if urllib.request.urlopen(f"http://127.0.0.1:{port}/lb/health", timeout=10).status == 200:
                        break
                except OSError:
                    time.sleep(0.05)
            asyncio.run(run.play(scenario["arrivals"][0], servers.episodes))
            outcome = run.outcome(scenario, name, policy, servers.ids)
            metrics = lb_metrics(port)
            outcome["ejections"] = metrics["ejections"]["total"]
            return outcome
    finally:
        if balancer:
            balancer.terminate()
            balancer.wait()
        servers.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario")
    parser.add_argument("--policies", default="score,adaptive,least_conn")
    arguments = parser.parse_args()
    with open(arguments.scenario, "rb") as file:
        scenario = tomllib.load(file)
    name = os.path.splitext(os.path.basename(arguments.scenario))[0]
    outcomes = []
    for policy in arguments.policies.split(","):
        outcomes.append(play(scenario, name, policy))
        one = outcomes[-1]
        print(f"{policy}: {one['success_percent']:.3f} %, mean {one['mean_ms']:.1f}, p50 {one['p50_ms']:.1f}, "
              f"p99 {one['p99_ms']:.1f}, p99.9 {one['p999_ms']:.1f} ms", file=sys.stderr)
    json.dump(outcomes, sys.stdout)


if __name__ == "__main__":
    main()
