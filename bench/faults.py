#!/usr/bin/env python3
"""One of three backends fails at once, turns ten times slower, hangs, or drops SYNs, under every policy, for real: what
clients see before, during and after. All policies at the same time, each with a balancer of its own, before the same backends.

  bench/faults.py [--faults errors,slow,hang,drop] [--policies score,adaptive] [--rate 60] [--json FILE]

Arrivals are Poisson, `--rate` a second for each balancer; times of service exponential, 20 ms in the mean. The fault comes
after 5 s and lasts 12 s, then there are 8 s without it. `success` is of what was asked from one second after it began to the
end of the run; a 5xx and no answer at all are failures. p99 is of answers, in ms, by when they were asked for. The exit code is
1 when a success is under 99 %. The balancers have their defaults, --balancer 'backend-timeout=2s' changes one.

`make lb fixture_server` first, and give it the machine."""

import argparse
import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "simulate"))
from measure import ROOT, Run, Servers, free_port, lb_metrics, percentile  # noqa: E402

BEFORE, DURING, AFTER = 5, 12, 8
SETTLED = 1  # seconds after the fault began from which success counts
FAULTS = ("errors", "slow", "hang", "drop")
GOAL = 99.0


def policies():
    words = subprocess.run([os.path.join(ROOT, "lb", "lb"), "--help-markdown"], stdout=subprocess.PIPE, text=True, check=True)
    row = next(line for line in words.stdout.splitlines() if line.startswith("| `policy`"))
    return re.findall(r"[a-z_]+", row.replace("\\|", " ").split("|")[3])


def scenario(fault):
    server = {"count": 3, "service": "exponential 20ms"}
    if fault != "drop":
        server["episode"] = [{"kind": fault, "server": 0, "from": f"{BEFORE}s", "for": f"{DURING}s"}]
    return {"duration": f"{BEFORE + DURING + AFTER}s", "servers": [server]}


class SilentPort:
    """Kills the server and takes its port with a backlog that is full: connects get no answer."""

    def __init__(self, servers):
        self.servers = servers
        self.port = servers.all[0][1]
        self.listener, self.fillers = None, []

    def begin(self):
        self.servers.all[0][0].kill()
        self.servers.all[0][0].wait()
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", self.port))
        self.listener.listen(0)
        for _ in range(8):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", self.port))
            self.fillers.append(filler)

    def end(self):
        for one in [*self.fillers, self.listener]:
            one.close()
        words = [os.path.join(ROOT, "bench", "fixture_server"), "--service", "exponential 20ms",
                 "--listen", f"127.0.0.1:{self.port}"]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        process.stdout.readline()
        self.servers.all[0] = (process, self.port)

    async def play(self, start):
        for when, change in ((BEFORE, self.begin), (BEFORE + DURING, self.end)):
            await asyncio.sleep(max(0, start + when - time.monotonic()))
            await asyncio.to_thread(change)


def start_balancer(folder, policy, servers, options):
    port = free_port()
    lines = [f'listen = "127.0.0.1:{port}"', f'policy = "{policy}"', 'admin-listen = "off"', 'lb-max-socket-bytes = "0"',
             'log-level = "error"']
    lines += ["{} = {}".format(*option.split("=", 1)) if option.split("=", 1)[1].isdigit() else
              '{} = "{}"'.format(*option.split("=", 1)) for option in options]
    for one, (_, backend) in zip(servers.ids, servers.all):
        lines += ["[[backend]]", f'id = "{one}"', f'url = "http://127.0.0.1:{backend}"']
    path = os.path.join(folder, f"{policy}.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    tomllib.loads("\n".join(lines))
    return subprocess.Popen([os.path.join(ROOT, "lb", "lb"), "-c", path]), port


def wait_healthy(port):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/lb/health", timeout=10) as response:
                if response.status == 200:
                    return
        except OSError:
            time.sleep(0.05)
    sys.exit(f"the balancer at port {port} does not come up")


async def play_all(runs, rate, episodes, silent):
    tasks = [asyncio.create_task(run.play({"rate": rate}, episodes if index == 0 else []))
             for index, run in enumerate(runs)]
    if silent:
        tasks.append(asyncio.create_task(silent.play(time.monotonic())))
    await asyncio.gather(*tasks)


def outcome(run, metrics):
    def part(begin, end):
        return [result for result in run.results if begin <= result[0] < end]

    def p99(results):
        return percentile(sorted(took * 1000 for _, took, status, _ in results if 0 < status < 500), 99)
    judged = part(BEFORE + SETTLED, float("inf"))
    good = sum(1 for _, _, status, _ in judged if 0 < status < 500)
    first = part(BEFORE, BEFORE + SETTLED)
    return {"success_percent": 100 * good / max(1, len(judged)), "requests": len(judged), "failed": len(judged) - good,
            "failed_in_first_second": sum(1 for _, _, status, _ in first if not 0 < status < 500),
            "p99_before_ms": p99(part(0, BEFORE)), "p99_during_ms": p99(part(BEFORE + SETTLED, BEFORE + DURING)),
            "p99_after_ms": p99(part(BEFORE + DURING + SETTLED, float("inf"))), "ejections": metrics["ejections"]["total"],
            "retries": metrics.get("retries", {}).get("total", 0) if isinstance(metrics.get("retries"), dict) else
            metrics.get("retries", 0)}


def play(fault, names, rate, options):
    servers = Servers(scenario(fault))
    balancers = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            balancers = [start_balancer(folder, policy, servers, options) for policy in names]
            for _, port in balancers:
                wait_healthy(port)
            runs = [Run(scenario(fault), port) for _, port in balancers]
            asyncio.run(play_all(runs, rate, servers.episodes, SilentPort(servers) if fault == "drop" else None))
            return [outcome(run, lb_metrics(port)) for run, (_, port) in zip(runs, balancers)]
    finally:
        for process, _ in balancers:
            process.terminate()
        for process, _ in balancers:
            process.wait()
        servers.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", default=",".join(FAULTS))
    parser.add_argument("--policies", default="")
    parser.add_argument("--rate", type=float, default=60)
    parser.add_argument("--balancer", action="append", default=[], metavar="OPTION=VALUE")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    names = arguments.policies.split(",") if arguments.policies else policies()
    found, short = {}, False
    for fault in arguments.faults.split(","):
        found[fault] = dict(zip(names, play(fault, names, arguments.rate, arguments.balancer)))
        print(f"\n{fault}\n  {'policy':22}{'success %':>10}{'failed':>8}{'first s':>9}{'p99 before':>12}{'during':>9}{'after':>9}"
              f"{'retries':>9}{'ejected':>9}")
        for name, one in found[fault].items():
            short = short or one["success_percent"] < GOAL
            print(f"  {name:22}{one['success_percent']:10.3f}{one['failed']:8}{one['failed_in_first_second']:9}"
                  f"{one['p99_before_ms']:12.1f}{one['p99_during_ms']:9.1f}{one['p99_after_ms']:9.1f}{one['retries']:9}"
                  f"{one['ejections']:9}", flush=True)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)
    sys.exit(1 if short else 0)


if __name__ == "__main__":
    main()
