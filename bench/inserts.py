#!/usr/bin/env python3
"""How many messages a second are stored durably, through one backend and through three, beside what the same database takes
from one connection that only inserts (insert_limit.cc): same table, same lock, same cluster, fsync on, rounds interleaved.

  make all build/release/bench/insert_limit && bench/inserts.py [--rounds N] [--seconds S] [--bytes N] [--json FILE]

Figures are medians over the rounds with smallest and largest; ratios are taken within each round. All ends share this machine:
read the ratios, not the rates."""

import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile
import urllib.parse

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), ".."))
LIMIT = os.path.join(ROOT, "build", "release", "bench", "insert_limit")
NAMES = ("sys2", "sys3", "sys4")
TICKS = os.sysconf("SC_CLK_TCK")


class System:
    """PostgreSQL and backends that come and go, by deploy/local.sh; no balancer."""

    def __init__(self, folder, port_base):
        self.folder, self.base = folder, port_base
        self.local("up", "--port-base", str(port_base), "--backends", "3", "--store", "postgres", "--programs", ROOT)
        for name in (*NAMES, "lb"):
            self.local("kill", name)
        with open(os.path.join(folder, "database.env"), encoding="ascii") as file:
            self.url = file.read().strip().split("=", 1)[1].strip("'")
        self.running = ()

    def local(self, *arguments):
        done = subprocess.run([os.path.join(ROOT, "deploy", "local.sh"), *arguments, "--dir", self.folder],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise SystemExit(f"inserts: local.sh {' '.join(arguments)}: {done.stdout}")

    def query(self, sql):
        url = urllib.parse.urlsplit(self.url)
        environment = dict(os.environ, PGHOST=url.hostname, PGPORT=str(url.port), PGUSER=url.username, PGPASSWORD=url.password,
                           PGDATABASE=url.path[1:])
        return subprocess.run(["psql", "-X", "-A", "-t", "-q", "-c", sql], env=environment, check=True, stdout=subprocess.PIPE,
                              text=True).stdout.strip()

    def run_only(self, names):
        """An empty table, and just these backends, started anew."""
        for name in self.running:
            self.local("kill", name)
        self.query("truncate chat_messages restart identity")
        for name in names:
            self.local("start", name)
        self.running = names

    def backend_cpu(self):
        total = 0
        for name in self.running:
            with open(os.path.join(self.folder, name + ".pid"), encoding="ascii") as file:
                pid = int(file.read())
            with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                fields = file.read().rsplit(") ", 1)[1].split()
            total += (int(fields[11]) + int(fields[12])) / TICKS
        return total


def run_limit(system, arguments):
    system.run_only(())
    out = subprocess.run([LIMIT, str(arguments.seconds), "50", "4", str(arguments.bytes)], check=True, stdout=subprocess.PIPE,
                         env=dict(os.environ, DATABASE_URL=system.url), text=True).stdout
    rows, seconds, cpu = (float(word) for word in re.fullmatch(r"rows (\S+) seconds (\S+) cpu (\S+)\n", out).groups())
    return rows / seconds, cpu / rows * 1e6


def run_load(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode not in (0, 4):  # 4: faster than the generator; rows are counted in the database
        raise SystemExit("inserts: the load failed\n" + done.stdout)


def run_backends(system, arguments, names):
    system.run_only(names)
    urls = ",".join(f"http://127.0.0.1:{system.base + 11 + NAMES.index(name)}" for name in names)
    load = [os.path.join(ROOT, "loadgen", "loadgen"), "-url", urls, "-users", str(200 * len(names)), "-out-dir", "",
            "-message-min", str(arguments.bytes), "-message-max", str(arguments.bytes), "-seed", "1"]
    run_load([*load, "-duration", "1s"])  # warm
    before, cpu = int(system.query("select count(*) from chat_messages")), system.backend_cpu()
    run_load([*load, "-seed", "2", "-duration", f"{arguments.seconds}s"])
    rows = int(system.query("select count(*) from chat_messages")) - before
    return rows / arguments.seconds, (system.backend_cpu() - cpu) / rows * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--bytes", type=int, default=200)
    parser.add_argument("--port-base", type=int, default=19200)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    kinds = {"database alone": lambda system: run_limit(system, arguments),
             "one backend": lambda system: run_backends(system, arguments, NAMES[:1]),
             "three backends": lambda system: run_backends(system, arguments, NAMES)}
    figures = {name: [] for name in kinds}
    with tempfile.TemporaryDirectory(prefix="dlb-inserts-") as folder:
        os.chmod(folder, 0o711)  # the user postgres passes through
        system = System(folder, arguments.port_base)
        try:
            names = list(kinds)
            for turn in range(arguments.rounds):
                for name in names[turn % 3:] + names[:turn % 3]:
                    figures[name].append(kinds[name](system))
                    print(f"  round {turn + 1}: {name} {figures[name][-1][0]:.0f} rows/s", flush=True)
        finally:
            system.local("down")
    print(f"\nRows of {arguments.bytes} bytes stored, fsync on")
    for name, values in figures.items():
        rates = [rate for rate, _ in values]
        ratio = statistics.median(rate / limit[0] for rate, limit in zip(rates, figures["database alone"]))
        print(f"  {name:<15} {statistics.median(rates):8.0f} rows/s  [{min(rates):.0f} – {max(rates):.0f}]  {ratio:.2f}×  "
              f"CPU {statistics.median(cpu for _, cpu in values):.1f} µs a row")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=1)


main()
