#!/usr/bin/env python3
"""Sweeps a setting of the balancer over the whole system; bench/sweep.sh builds what is needed and calls this.

Exit codes: 0 done, 1 it could not be done, 2 bad usage, 3 (--self-check) equal settings came out different too often,
130 stopped: what it had started is ended, and the same call goes on."""

import argparse
import json
import os
import shlex
import subprocess
import sys
import time

import sweep_page
import sweep_plan
import sweep_run
from sweep_store import OtherSweep, Store

THRESHOLDS = "55,60,65,70,75"
# 300 closed users on three backends: in-flight, CPU and latency add up to scores about the thresholds.
LOAD = "-users 300 -feed-percent 1 -verify-feed -max-errors 100%"
MODES = {"quick": ("-warmup 1s -duration 3s", 3, 1.5), "normal": ("-warmup 2s -duration 15s", 3, 30.0),
         "full": ("-warmup 5s -duration 45s", 7, 120.0)}  # times, rounds, seconds that a quiet machine is waited for
LEAST_SAME = 0.9  # of the repeats of a self-check


def words(text):
    return [word for word in text.replace(",", " ").split() if word]


def arguments_of(argv):
    parser = argparse.ArgumentParser(prog="sweep.sh", description=__doc__.split("\n", maxsplit=1)[0],
                                     formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--thresholds", default=THRESHOLDS, help="values of the balancer's threshold (policy score), by commas")
    parser.add_argument("--policies", help="these policies instead, by commas")
    parser.add_argument("--baseline", help="what the others are compared with; without it 75, score, or the first")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--quick", action="store_true", help="under 3 minutes: 3 rounds of 3 s")
    mode.add_argument("--full", action="store_true", help="7 rounds of 45 s; without either 3 rounds of 15 s")
    mode.add_argument("--plot-only", action="store_true", help="the page and the verdicts again, of what is in --out")
    mode.add_argument("--self-check", type=int, metavar="N", help="N times the same setting under two names: what comes out?")
    parser.add_argument("--out", default="results/sweep", help="folder of the runs and the page; it is also what goes on")
    parser.add_argument("--rounds", type=int, help="repetitions of each setting")
    parser.add_argument("--seed", type=int, default=1, help="of the load and of the order")
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--backends", type=int, default=3)
    parser.add_argument("--load", help="options of loadgen instead of the mode's own, in one word")
    parser.add_argument("--systems", action="store_true", help="each system in a memory cgroup of --memory-limit")
    parser.add_argument("--memory-limit", default="512M")
    parser.add_argument("--busy", type=float, default=20, help="percent of the machine from which on others disturb a run")
    parser.add_argument("--quiet-within", type=float, help="seconds that a quiet machine is waited for before each run")
    parser.add_argument("--run-seconds", type=float, default=1800, help="no run takes longer")
    arguments = parser.parse_args(argv)
    if arguments.rounds is not None and not 1 <= arguments.rounds <= 99:
        parser.error("--rounds: 1 to 99")
    if not 1 <= arguments.backends <= 19:
        parser.error("--backends: 1 to 19")
    if arguments.self_check is not None and not 1 <= arguments.self_check <= 99:
        parser.error("--self-check: 1 to 99")
    try:
        thresholds = [float(word) for word in words(arguments.thresholds)]
    except ValueError:
        parser.error("--thresholds: numbers from 0 to 100, by commas")
    policies = words(arguments.policies or "")
    if len(set(policies or thresholds)) != len(policies or thresholds) or not (policies or thresholds):
        parser.error("settings: at least one, each once")
    if not policies and not all(0 <= value <= 100 for value in thresholds):
        parser.error("--thresholds: numbers from 0 to 100")
    settings = sweep_plan.settings_of(thresholds, policies, bool(arguments.self_check))
    names = [setting["name"] for setting in settings]
    if arguments.baseline is not None and not arguments.plot_only and arguments.baseline not in names:
        parser.error(f"--baseline: one of the settings, {', '.join(names)}")
    return arguments, settings


def config_of(arguments):
    """(what decides the figures: kept in the folder; what doesn't)."""
    mode = "quick" if arguments.quick or arguments.self_check else "full" if arguments.full else "normal"
    times, rounds, quiet_within = MODES[mode]
    load = shlex.split(arguments.load) if arguments.load is not None else shlex.split(f"{LOAD} {times}")
    fixed = {"load": load, "seed": arguments.seed, "store": arguments.store, "backends": arguments.backends,
             "memory_limit": arguments.memory_limit if arguments.systems else None,
             "rounds": arguments.rounds or rounds}
    loose = {"busy": arguments.busy, "sample_interval": 0.5, "run_seconds": arguments.run_seconds,
             "quiet_within": quiet_within if arguments.quiet_within is None else arguments.quiet_within}
    return fixed, loose


def say(text):
    print(text, flush=True)


def compare_with_baseline(plan, records, store):
    """setting -> what `loadgen compare` says of it beside the baseline; None for the baseline."""
    program = os.path.join(os.environ.get("DLB_PROGRAMS", sweep_run.ROOT), "loadgen", "loadgen")
    order, baseline = plan["order"], plan["baseline"]
    files = {setting["name"]: [store.path(record["report"]) for record in sweep_plan.usable(order, records, setting["name"])]
             for setting in plan["settings"]}
    found = {}
    for name in files:
        if name == baseline:
            found[name] = None
        elif not files[name] or not files[baseline]:
            found[name] = {"error": "no usable run", "judged": 0, "verdict": "not judged"}
        else:
            command = [program, "compare", "-json", "-comparisons", str(max(1, len(files) - 1)), ",".join(files[baseline]),
                       ",".join(files[name])]
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=sweep_run.environment())
            found[name] = (json.loads(done.stdout) if done.returncode in (0, 3, 4) else
                           {"error": sweep_run.last_line(done.stderr), "judged": 0, "verdict": "not judged"})
    return found


def execute(settings, fixed, loose, store, baseline):
    """Runs what is left of the sweep in this folder; gives (plan, records)."""
    order = sweep_plan.order_of(settings, fixed["rounds"], fixed["seed"])
    plan = {"schema": sweep_plan.SCHEMA, "settings": settings, "order": order, "baseline": baseline, "config": fixed}
    store.begin(plan)
    if store.left_active():
        say(f"ending what an earlier sweep left running in {store.left_active()}")
        sweep_run.end_system(store.left_active())
        store.set_active(None)
    records = store.records()
    if records:
        say(f"going on: {len(records)} runs are there already")
    while (following := sweep_plan.next_run(order, records)) is not None:
        run, attempt = following
        setting = next(setting for setting in settings if setting["name"] == run["setting"])
        started = time.monotonic()
        limit, decided = sweep_plan.memory_limit_of(records.values(), fixed["memory_limit"])
        config = {**fixed, **loose, "memory_limit": limit, "memory_decided": decided}
        record = sweep_run.one_run(run, attempt, setting, config, store, say)
        store.add(record)
        records[run["id"], attempt] = record
        say(run_line(record, len(order), len(records), time.monotonic() - started))
    return plan, records


def run_line(record, planned, done, took):
    again = ", again" if record["attempt"] > 1 else ""
    text = f"[{done}/{planned}] round {record['round']}, {record['setting']}{again}: "
    if "figures" in record:
        message = record["figures"]["message"] or {}
        text += " ".join(f"{name} {message.get(name, float('nan')):.1f}" for name in sweep_plan.PERCENTILES)
        text += f" ms, {record['figures']['throughput']:.0f}/s, {record['figures']['errors']:.2f} % errors, "
    why = f": {record['why']}" if record["why"] else ""
    return text + f"{record['state']}{why} ({took:.1f} s)"


def finish(plan, records, store):
    """The summary on the screen and the page."""
    comparisons = compare_with_baseline(plan, records, store)
    path = store.path("index.html")
    data = sweep_page.page_data(plan, records, comparisons, store.report)
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(sweep_page.html(data))
    os.replace(path + ".new", path)
    say("")
    for line in sweep_page.summary_lines(data):
        say(line)
    say(f"\npage: {path}")
    return comparisons


def self_check(count, settings, fixed, loose, out):
    """The same setting under two names, `count` times: how often is it called a difference?"""
    same = 0
    for number in range(1, count + 1):
        store = Store(os.path.join(out, f"check-{number:02}"))
        plan, records = execute(settings, {**fixed, "seed": fixed["seed"] + number - 1}, loose, store, "A")
        comparison = finish(plan, records, store)["B"]
        verdict = "no difference" if comparison["verdict"] == "same" and comparison["judged"] else comparison["verdict"]
        same += verdict == "no difference"
        say(f"== repeat {number} of {count}: {verdict}\n")
    say(f"{same} of {count} repeats of the same setting under two names came out as no difference")
    return 0 if same >= LEAST_SAME * count else 3


def main(argv):
    arguments, settings = arguments_of(argv)
    sweep_run.STOPS.install()
    fixed, loose = config_of(arguments)
    store = Store(arguments.out)
    try:
        if arguments.plot_only:
            plan = store.plan()
            if arguments.baseline not in (None, *(setting["name"] for setting in plan["settings"])):
                print(f"sweep: --baseline {arguments.baseline} is not among its settings", file=sys.stderr)
                return 2
            plan["baseline"] = arguments.baseline or plan["baseline"]
            finish(plan, store.records(), store)
            return 0
        if arguments.self_check:
            return self_check(arguments.self_check, settings, fixed, loose, arguments.out)
        baseline = sweep_plan.baseline_of(settings, arguments.baseline)
        say(f"{len(settings)} settings × {fixed['rounds']} rounds, baseline {baseline}; load: {shlex.join(fixed['load'])}")
        plan, records = execute(settings, fixed, loose, store, baseline)
        finish(plan, records, store)
        return 0
    except OtherSweep as error:
        print(f"sweep: {error}", file=sys.stderr)
        return 2
    except (OSError, sweep_run.RunFailed) as error:
        print(f"sweep: {error}", file=sys.stderr)
        return 1
    except sweep_run.Stopped:
        print("sweep: stopped; the same call goes on from here", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
