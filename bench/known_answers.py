#!/usr/bin/env python3
"""What load generators report of a server whose answers are known: loadgen, wrk, hey, ab and h2load, one after the other,
each against a fixture_server of its own, which counts what it did. A table a case, as Markdown: what the server did, what
the tool says of it, and the exit code. A tool that isn't installed is left out.

Twenty connections in all cases, GET /feed. Whoever takes a number of requests gets 2,000 (40 of them when nothing
answers); wrk runs for three seconds. In the freeze everybody runs for eight seconds and the server stands still from the
third to the fifth: loadgen, hey and h2load at 1,000 a second, wrk and ab as fast as they can."""

import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
USERS, REQUESTS = 20, 2000
HANGING = 40

CASES = (
    ("fixed", "Every answer after 10 ms", ["--service", "fixed 10ms"]),
    ("freeze", "10 ms, frozen for 2 s of 8", ["--service", "fixed 10ms"]),
    ("503", "30 % of the answers are 503", ["--service", "fixed 2ms", "--fail-share", "0.3", "--fail-status", "503"]),
    ("close", "30 % closed without an answer", ["--service", "fixed 2ms", "--fail-share", "0.3", "--fail-how", "close"]),
    ("reset", "30 % reset without an answer", ["--service", "fixed 2ms", "--fail-share", "0.3", "--fail-how", "reset"]),
    ("short", "30 % end in the middle of the body", ["--service", "fixed 2ms", "--fail-share", "0.3", "--fail-how", "short"]),
    ("hang", "Nothing is ever answered (time-out 1 s)", ["--service", "fixed 1h"]),
)


class Server:
    def __init__(self, arguments):
        self.process = subprocess.Popen([os.path.join(ROOT, "bench/fixture_server"), "--seed", "7", *arguments],
                                        stdout=subprocess.PIPE, text=True)
        self.url = f"http://127.0.0.1:{self.process.stdout.readline().split()[1]}"

    def counters(self):
        with urllib.request.urlopen(self.url + "/fixture", timeout=20) as answer:
            return json.load(answer)

    def freeze(self, after, lasts):
        time.sleep(after)
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(lasts)
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


def number(pattern, text):
    """The sum of all that the pattern finds."""
    return sum(int(found) for found in re.findall(pattern, text))


def milliseconds(value, unit):
    return float(value) * {"us": 0.001, "ms": 1, "s": 1000, "m": 60000}[unit]


def loadgen(url, case, folder):
    command = [os.path.join(ROOT, "loadgen/loadgen"), "-url", url, "-users", str(USERS), "-feed-percent", "100", "-seed", "1",
               "-out-dir", folder, "-experiment", "known", "-lb-url", "none",
               "-request-timeout", "1s" if case == "hang" else "10s"]
    command += {"freeze": ["-rate", "1000", "-requests", "8000"], "hang": ["-requests", str(HANGING)]}.get(
        case, ["-requests", str(REQUESTS)])
    code, _ = run(command)
    path = max((os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".json")), key=os.path.getmtime)
    with open(path, encoding="utf-8") as file:
        operations = json.load(file)["operations"]
    buckets = operations["buckets"]
    bad = ", ".join(f"{name} {count}" for name, count in buckets.items() if count and name != "ok")
    rows = [("loadgen", "latency_ms")]
    if case == "freeze":
        rows.append(("loadgen, from the intended time", "intended_latency_ms"))
    return [(name, buckets["ok"], bad or "0", operations["feed"][which], code) for name, which in rows]


def wrk(url, case, _):
    seconds = 8 if case == "freeze" else 3
    command = ["wrk", "-t1", f"-c{USERS}", f"-d{seconds}s", "--latency"] + (["--timeout", "1s"] if case == "hang" else [])
    code, out = run(command + [url + "/feed"])
    percentiles = {f"p{name}": milliseconds(value, unit) for name, value, unit in
                   re.findall(r"^ +(50|99)% +([\d.]+)(us|ms|s|m)$", out, re.M)}
    found = re.search(r"^    Latency +\S+ +\S+ +([\d.]+)(us|ms|s|m)", out, re.M)
    percentiles["max"] = milliseconds(*found.groups()) if found else 0
    done, non_2xx = number(r"(\d+) requests in", out), number(r"Non-2xx or 3xx responses: (\d+)", out)
    socket = re.search(r"Socket errors: (.*)", out)
    bad = ([f"non-2xx {non_2xx}"] if non_2xx else []) + ([socket[1]] if socket else [])
    return [("wrk", done - non_2xx, "; ".join(bad) or "0", percentiles, code)]


def hey(url, case, _):
    command = ["hey", "-c", str(USERS), "-t", "1" if case == "hang" else "10"]
    command += {"freeze": ["-z", "8s", "-q", str(1000 // USERS)], "hang": ["-n", str(HANGING)]}.get(
        case, ["-n", str(REQUESTS)])
    code, out = run(command + [url + "/feed"])
    percentiles = {f"p{name}": float(value) * 1000 for name, value in re.findall(r"(50|99)% in ([\d.]+) secs", out)}
    slowest = re.search(r"Slowest:\s+([\d.]+) secs", out)
    percentiles["max"] = float(slowest[1]) * 1000 if slowest else 0
    good = number(r"\[200\]\s+(\d+) responses", out)
    bad = [f"{status} {count}" for status, count in re.findall(r"\[([345]\d\d)\]\s+(\d+) responses", out)]
    errors = sum(int(count) for count in re.findall(r"^\s+\[(\d+)\]\s+[A-Z]", out, re.M))
    return [("hey", good, "; ".join(bad + ([f"errors {errors}"] if errors else [])) or "0", percentiles, code)]


def ab(url, case, _):
    command = ["ab", "-q", "-k", "-r", "-c", str(USERS), "-s", "1" if case == "hang" else "10"]
    command += {"freeze": ["-t", "8", "-n", "1000000"], "hang": ["-n", str(HANGING)]}.get(case, ["-n", str(REQUESTS)])
    code, out = run(command + [url + "/feed"])
    percentiles = {f"p{name}": float(value) for name, value in re.findall(r"^ +(50|99)% +(\d+)$", out, re.M)}
    slowest = re.search(r"^ +100% +(\d+)", out, re.M)
    percentiles["max"] = float(slowest[1]) if slowest else 0
    done, failed = number(r"Complete requests: +(\d+)", out), number(r"Failed requests: +(\d+)", out)
    non_2xx = number(r"Non-2xx responses: +(\d+)", out)
    kinds = re.search(r"\(Connect: (\d+), Receive: (\d+), Length: (\d+), Exceptions: (\d+)\)", out)
    bad = [f"failed {failed}"] if failed else []
    if kinds:
        bad[0] += " (" + ", ".join(f"{name} {count}" for name, count in
                                   zip(("connect", "receive", "length", "exceptions"), kinds.groups()) if count != "0") + ")"
    if non_2xx:
        bad.append(f"non-2xx {non_2xx}")
    if not re.search(r"Complete requests", out):
        bad.append("no report: " + out.strip().splitlines()[-1][:60])
    return [("ab -k -r", done - failed, "; ".join(bad) or "0", percentiles, code)]


def h2load(url, case, folder):
    log = os.path.join(folder, "h2load.log")
    command = ["h2load", "--h1", "-c", str(USERS), "-t1", f"--log-file={log}"]
    command += {"freeze": ["-D", "8s", f"--rps={1000 // USERS}"], "hang": ["-n", str(HANGING), "-N", "1s"]}.get(
        case, ["-n", str(REQUESTS)])
    code, out = run(command + [url + "/feed"])
    with open(log, encoding="ascii") as file:
        times = sorted(int(row.split("\t")[2]) / 1000 for row in file)
    os.unlink(log)
    percentiles = {"p50": statistics.median(times), "p99": times[int(len(times) * 0.99)], "max": times[-1]} if times else {}
    good = number(r"status codes: (\d+) 2xx", out)
    bad = [f"{name} {count}" for count, name in re.findall(r"(\d+) (failed|errored|timeout)", out) if count != "0"]
    bad += [f"{name} {count}" for count, name in re.findall(r"(\d+) ([345]xx)", out) if count != "0"]
    return [("h2load --h1", good, "; ".join(bad) or "0", percentiles, code)]


TOOLS = {"loadgen": loadgen, "wrk": wrk, "hey": hey, "ab": ab, "h2load": h2load}


def play(tool, case, arguments, folder):
    server = Server(arguments)
    try:
        freezer = threading.Thread(target=server.freeze, args=(3, 2))
        if case == "freeze":
            freezer.start()
        rows = TOOLS[tool](server.url, case, folder)
        if case == "freeze":
            freezer.join()
        did = server.counters()
    finally:
        server.stop()
    truth = f"{did['sojourn_ms']['count']} of {did['requests']}"
    for name, ok, bad, latency, code in rows:
        figures = " / ".join(f"{latency[key]:.1f}" if latency.get(key) else "–" for key in ("p50", "p99", "max"))
        print(f"| {name} | {truth} | {ok} | {bad} | {figures} | {code} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cases: " + ", ".join(case for case, *_ in CASES))
    parser.add_argument("--tools", default=",".join(TOOLS))
    options = parser.parse_args()
    chosen = set(filter(None, options.only.split(",")))
    with tempfile.TemporaryDirectory(prefix="dlb-known-") as folder:
        for case, title, arguments in CASES:
            if chosen and case not in chosen:
                continue
            print(f"\n**{title}**\n\n| | the server answered | it says ok | not ok | p50 / p99 / max ms | exit |")
            print("|---|---|---|---|---|---|")
            for tool in options.tools.split(","):
                if tool == "loadgen" or shutil.which(tool):
                    play(tool, case, arguments, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
