#!/usr/bin/env python3
"""Profiles a running balancer or backend under a load; bench/profile.sh calls this. Each tool has a load of its own, so that
none is seen by another. Writes summary.txt, profile.json, flame.svg and the tools' own output to --out.
SIGINT, SIGTERM and SIGHUP are taken where something is waited for: the tool is detached before this ends. Killed outright,
the kernel tells the tool by the same SIGINT.

Exit codes: 0 done (what was missing is said), 1 nothing could be measured or the program went, 2 bad usage, 130 stopped."""

import argparse
import ctypes
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.request

import profile_parts as parts
import sweep_machine as machine
from sweep_run import ROOT, STOPS, Stopped, detached, environment, free_port_base, last_line

PROGRAMS = ("lb", "backend")
COUNTED = {"lb": "/lb/metrics", "backend": "/internal/stats"}  # where a program says how many requests it has had
TOP = 25


class Missing(Exception):
    """A tool, or the right to use it; the text says what to do."""


class Target:
    """The process, what it is, where load goes and where its requests are counted."""

    def __init__(self, arguments):
        self.pid, self.url, self.counter = self._find(arguments)
        try:
            with open(f"/proc/{self.pid}/comm", encoding="utf-8") as file:
                self.program = file.read().strip()
        except OSError:
            raise SystemExit(f"profile: no process {self.pid}") from None
        if self.program not in PROGRAMS:
            raise SystemExit(f"profile: process {self.pid} is {self.program}, neither a balancer nor a backend")
        self.counter = arguments.counter_url or (self.counter or self.url) + COUNTED[self.program]

    @staticmethod
    def _find(arguments):
        if arguments.target.isdigit():
            if not arguments.url:
                raise SystemExit("profile: a process needs --url, where its load goes")
            return int(arguments.target), arguments.url.rstrip("/"), None
        try:
            with open(os.path.join(arguments.dir, arguments.target + ".pid"), encoding="ascii") as file:
                pid = int(file.read())
            with open(os.path.join(arguments.dir, "settings"), encoding="utf-8") as file:
                base = int(re.search(r"^PORT_BASE=(\d+)$", file.read(), re.M).group(1))
        except (OSError, ValueError, AttributeError):
            raise SystemExit(f"profile: no {arguments.target} of deploy/local.sh in {arguments.dir}") from None
        balancer = f"http://127.0.0.1:{base}"
        number = re.fullmatch(r"sys(\d+)", arguments.target)
        return pid, arguments.url or balancer, f"http://127.0.0.1:{base + 9 + int(number[1])}" if number else None

    def requests(self):
        with urllib.request.urlopen(self.counter, timeout=10) as answer:
            return json.load(answer)["requests"]["total"]

    def alive(self):
        return machine.process_ticks(self.pid) is not None


def load(target_url, options, *more):
    """One run of loadgen, to its end; SystemExit when it could not be."""
    program = os.path.join(os.environ.get("DLB_PROGRAMS", ROOT), "loadgen", "loadgen")
    command = [program, "-url", target_url, "-out-dir", "", "-max-errors", "100%", *options, *more]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               errors="replace", preexec_fn=detached, env=environment())
    try:
        with STOPS.let_in():
            out, err = process.communicate()
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    if process.returncode in (1, 2):
        raise SystemExit(f"profile: loadgen: {last_line(err or out)}")


def need(tool, package):
    if not shutil.which(tool):
        raise Missing(f"{tool} is not installed (package {package})")


def sysctl(path):
    try:
        with open(os.path.join("/proc/sys", path), encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def told_when_we_end(number):
    """For a child: a session of its own, and this signal when we have ended, however that came."""
    def prepare():
        os.setsid()
        ctypes.CDLL(None).prctl(1, number)  # PR_SET_PDEATHSIG
    return prepare


class Attached:
    """strace or perf on the process, from __enter__ to __exit__, and never for longer than we live: either lets it go at
    SIGINT. Nothing of this is interrupted; the load within is."""

    def __init__(self, command):
        self.command, self.said = command, ""

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True, preexec_fn=told_when_we_end(signal.SIGINT))
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        self.said += self.process.communicate(timeout=120)[1]


def count_syscalls(target, arguments, out):
    need("strace", "strace")
    counts = []
    for number, requests in enumerate((arguments.requests, 4 * arguments.requests)):
        path = os.path.join(out, f"strace-{number + 1}.txt")
        try:
            with Attached(["strace", "-c", "-f", "-q", "-q", "-o", path, "-p", str(target.pid)]) as tracer:
                if not machine.wait_traced(target.pid, 10):
                    said = "no word" if tracer.process.poll() is None else tracer.process.stderr.read()
                    raise Missing(f"strace could not attach: {last_line(said)}")
                before = target.requests()
                load(target.url, arguments.load, "-requests", str(requests))
                after = target.requests()
        except Missing as error:
            scope = sysctl("kernel/yama/ptrace_scope")
            raise Missing(f"{error}; kernel.yama.ptrace_scope is {scope}: be root" if scope else str(error)) from None
        with open(path, encoding="utf-8", errors="replace") as file:
            counts.append((parts.strace_calls(file.read()), after - before))
    rows = parts.calls_per_request(*counts)
    if rows is None:
        raise Missing(f"the program counted no more requests in the second count: {counts[0][1]}, {counts[1][1]}")
    return {"requests": [count for _, count in counts], "calls": rows, "sum": sum(calls for _, calls in rows)}


def perf_help(text):
    level = sysctl("kernel/perf_event_paranoid")
    return f"perf: {text}; kernel.perf_event_paranoid is {level}: be root, or set it to 1"


def has_counters():
    command = ["perf", "stat", "-e", "instructions:u", "-x", ",", "true"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return bool(re.search(r"^\d+,,instructions:u", done.stderr, re.M))


def sample_stacks(target, arguments, out):
    need("perf", "linux-perf")
    raw = os.path.join(out, "perf.data")
    event = "cycles" if has_counters() else "cpu-clock"
    command = ["perf", "record", "-q", "-e", event, "-F", str(arguments.frequency), "-g", "--call-graph", "fp", "-o", raw,
               "-p", str(target.pid)]
    before, ticks = target.requests(), machine.process_ticks(target.pid)
    with Attached(command) as recorder:
        load(target.url, arguments.load, "-duration", f"{arguments.seconds:g}s")
    after, used = target.requests(), machine.process_ticks(target.pid) - ticks
    if not os.path.exists(raw):
        raise Missing(perf_help(last_line(recorder.said)))
    command = ["perf", "script", "-i", raw, "-F", "comm,ip,sym,dso"]
    with STOPS.let_in():
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    stacks = parts.stacks_of(done.stdout, target.program)
    if not stacks:
        raise Missing(perf_help(last_line(done.stderr) if done.stderr.strip() else "no samples"))
    title = f"{target.program} ({arguments.target}): {event}, loadgen {shlex.join(arguments.load)}"
    with open(os.path.join(out, "flame.svg"), "w", encoding="utf-8") as file:
        file.write(parts.flame_svg(stacks, title))
    with open(os.path.join(out, "stacks.txt"), "w", encoding="utf-8") as file:
        for stack, samples in sorted(stacks.items()):
            file.write(";".join(name.replace(";", ":") for name, _ in stack) + f" {samples}\n")
    own = parts.self_samples(stacks)
    total = sum(stacks.values())
    return {"event": event, "samples": total, "requests": after - before,
            "cpu_us_per_request": 1e6 * used / machine.TICK / max(1, after - before),
            "kinds": {kind: 100 * sum(n for _, k, n in own if k == kind) / total for kind in parts.KINDS},
            "top": [[name, kind, 100 * samples / total] for name, kind, samples in own[:TOP]]}


def count_instructions(target, arguments, out):
    """User instructions a request by the processor's counters, or by callgrind on a copy of the program where it has none."""
    need("perf", "linux-perf")
    if has_counters():
        counts = []
        for requests in (arguments.requests, 4 * arguments.requests):
            with Attached(["perf", "stat", "-e", "instructions:u", "-x", ",", "-p", str(target.pid)]) as counter:
                before = target.requests()
                load(target.url, arguments.load, "-requests", str(requests))
                after = target.requests()
            match = re.search(r"^(\d+),,instructions:u", counter.said, re.M)
            if not match:
                raise Missing(perf_help(last_line(counter.said)))
            counts.append((int(match[1]), after - before))
        return {"by": "perf", "per_request": (counts[1][0] - counts[0][0]) / max(1, counts[1][1] - counts[0][1])}
    if not arguments.callgrind:
        raise Missing("no hardware counters here: --callgrind counts them in a copy of the program")
    need("valgrind", "valgrind")
    return callgrind(target, arguments, out)


def copy_of(target, port, folder):
    """The command that starts a second one like it, on ports of its own."""
    with open(f"/proc/{target.pid}/cmdline", "rb") as file:
        command = [word.decode() for word in file.read().split(b"\0")[:-1]]
    if target.program == "lb":
        extra = ["--listen", f"127.0.0.1:{port}", "--tls-listen", "", "--tls-cert", "", "--tls-key", "",
                 "--wss-listen", "", "--admin-listen", "off", "--pid-file", ""]
    else:
        extra = ["--http-port", str(port), "--ws-port", str(port + 1), "--backend-id", "profiled"]
    out = os.path.join(folder, "callgrind.out")
    tool = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--log-file=" + os.path.join(folder, "callgrind.log")]
    return [*tool, os.readlink(f"/proc/{target.pid}/exe").removesuffix(" (deleted)"), *command[1:], *extra], out


def callgrind(target, arguments, folder):
    with open(f"/proc/{target.pid}/environ", "rb") as file:
        theirs = dict(item.decode().split("=", 1) for item in file.read().split(b"\0") if b"=" in item)
    counts = []
    for requests in (arguments.requests, 4 * arguments.requests):
        port = free_port_base()
        command, out = copy_of(target, port, folder)
        with open(os.path.join(folder, "copy.log"), "wb") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=theirs,
                                       cwd=f"/proc/{target.pid}/cwd", preexec_fn=told_when_we_end(signal.SIGTERM))
        try:
            url = f"http://127.0.0.1:{port}"
            with STOPS.let_in():
                answers = machine.wait_answer(url + COUNTED[target.program], 60)
            if not answers or process.poll() is not None:
                with open(log.name, encoding="utf-8", errors="replace") as file:
                    raise Missing(f"the copy under callgrind did not answer: {last_line(file.read())}")
            load(url, arguments.load, "-requests", str(requests), "-request-timeout", "60s")
            with urllib.request.urlopen(url + COUNTED[target.program], timeout=60) as answer:
                counted = json.load(answer)["requests"]["total"]
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(120)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        with open(out, encoding="utf-8", errors="replace") as file:
            total = re.search(r"^(?:summary|totals): (\d+)", file.read(), re.M)
        if not total:
            raise Missing("callgrind left no summary")
        counts.append((int(total[1]), counted))
    return {"by": "callgrind, on a copy", "requests": [count for _, count in counts],
            "per_request": (counts[1][0] - counts[0][0]) / max(1, counts[1][1] - counts[0][1])}


def summary(result):
    yield f"{result['program']} ({result['target']}, process {result['pid']}), load: loadgen {shlex.join(result['load'])}"
    if stacks := result.get("stacks"):
        yield ""
        yield (f"CPU: {stacks['cpu_us_per_request']:.1f} µs a request over {stacks['requests']} requests, "
               f"sampled by {stacks['event']} ({stacks['samples']} samples)")
        yield "  " + ", ".join(f"{share:.0f} % {kind}" for kind, share in stacks["kinds"].items())
    if instructions := result.get("instructions"):
        yield f"user instructions a request: {instructions['per_request']:,.0f} ({instructions['by']})"
    if calls := result.get("syscalls"):
        yield ""
        few, many = calls["requests"]
        yield f"system calls a request: {calls['sum']:.2f} (difference of {few} and {many} requests)"
        for name, count in calls["calls"]:
            if count >= 0.005:
                yield f"  {count:8.2f}  {name}"
    if stacks := result.get("stacks"):
        yield ""
        yield "functions that it stood in, percent of samples"
        for name, kind, share in stacks["top"]:
            yield f"  {share:6.2f}  {kind:<8} {parts.short_name(name)}"
    for word in result["missing"]:
        yield f"missing: {word}"


def arguments_of(argv):
    parser = argparse.ArgumentParser(prog="profile.sh", description=__doc__.split("\n", maxsplit=1)[0],
                                     formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("target", help="lb, sys2, … of a deploy/local.sh system, or a process")
    parser.add_argument("--dir", default=os.path.join(ROOT, "build", "local"), help="of the deploy/local.sh system")
    parser.add_argument("--url", help="where the load goes; without it to the system's balancer")
    parser.add_argument("--counter-url", help="the page whose requests.total counts; without it /lb/metrics or /internal/stats")
    parser.add_argument("--load", default="-users 50", type=shlex.split,
                        help="options of loadgen but -requests and -duration, which are set by the two options below")
    parser.add_argument("--seconds", type=float, default=10, help="of sampling")
    parser.add_argument("--requests", type=int, default=2000, help="of the shorter count; the longer one has four times as many")
    parser.add_argument("--frequency", type=int, default=499, help="samples a second")
    parser.add_argument("--callgrind", action="store_true",
                        help="where there are no hardware counters: count instructions in a copy of the program, half a minute")
    parser.add_argument("--skip", choices=("strace", "perf"), action="append", default=[])
    parser.add_argument("--out", default="results/profile", help="folder")
    arguments = parser.parse_args(argv)
    if arguments.requests < 100 or arguments.seconds <= 0:
        parser.error("--requests: at least 100; --seconds: more than 0")
    return arguments


def main(argv):
    arguments = arguments_of(argv)
    STOPS.install()
    try:
        return profile(arguments)
    except Stopped:
        print("profile: stopped; nothing is left on the process", file=sys.stderr)
        return 130


def profile(arguments):
    target = Target(arguments)
    out = os.path.abspath(arguments.out)
    os.makedirs(out, exist_ok=True)
    load(target.url, arguments.load, "-duration", "1s")  # warm
    result = {"schema": 1, "program": target.program, "target": arguments.target, "pid": target.pid, "load": arguments.load,
              "missing": []}
    steps = [("stacks", sample_stacks, "perf"), ("instructions", count_instructions, "perf"),
             ("syscalls", count_syscalls, "strace")]
    for key, step, tool in steps:
        if tool in arguments.skip:
            continue
        try:
            result[key] = step(target, arguments, out)
        except Missing as error:
            result["missing"].append(f"{key}: {error}")
        if not target.alive():
            print(f"profile: process {target.pid} has gone", file=sys.stderr)
            return 1
    with open(os.path.join(out, "profile.json"), "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
    text = "\n".join(summary(result)) + "\n"
    with open(os.path.join(out, "summary.txt"), "w", encoding="utf-8") as file:
        file.write(text)
    print(text + f"\nin {out}: summary.txt, profile.json" + (", flame.svg" if "stacks" in result else ""))
    return 0 if any(key in result for key, _, _ in steps) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
