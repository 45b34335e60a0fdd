"""The pure part of a sweep: which settings, in which order they run, what is left of it after a stop, and what the runs
that are there amount to. Values in, values out: no process, no clock; files are sweep_store.py's.

  planned ──▶ done ok | busy            (busy: the machine had something else to do; kept, and said)
     └──────▶ invalid | failed ──▶ once more at the end ──▶ ok | busy, or left out with a word"""

import random
import statistics

SCHEMA = 1
DONE = ("ok", "busy")
DEFAULT_BASELINES = ("75", "score")
PERCENTILES = ("p50", "p95", "p99")


def settings_of(thresholds=(), policies=(), self_check=False):
    """The settings of a sweep: each with its name and what the balancer gets in its environment."""
    if self_check:
        return [{"name": name, "kind": "the same setting", "environment": {}} for name in ("A", "B")]
    if policies:
        return [{"name": name, "kind": "policy", "environment": {"LB_POLICY": name}} for name in policies]
    return [{"name": f"{value:g}", "kind": "threshold", "environment": {"LB_POLICY": "score", "LB_THRESHOLD": f"{value:g}"}}
            for value in thresholds]


def baseline_of(settings, wanted=None):
    """The setting that the others are compared with."""
    names = [setting["name"] for setting in settings]
    for name in (wanted, *DEFAULT_BASELINES, names[0]):
        if name in names:
            return name
    return names[0]


def order_of(settings, rounds, seed):
    """Every setting once a round, in an order that the seed alone decides; each round has its own."""
    runs = []
    for number in range(1, rounds + 1):
        names = [setting["name"] for setting in settings]
        random.Random(f"{seed}/{number}").shuffle(names)
        runs += [{"id": f"{number:02}-{name}", "round": number, "setting": name} for name in names]
    return runs


def next_run(order, records):
    """(run, attempt) that is to come, or None. `records`: (id, attempt) -> record of what has run."""
    for run in order:
        if (run["id"], 1) not in records:
            return run, 1
    for run in order:
        if records[run["id"], 1]["state"] not in DONE and (run["id"], 2) not in records:
            return run, 2
    return None


def standing(order, records):
    """The last record of each planned run that has one, in the order in which they were planned."""
    found = (records.get((run["id"], 2)) or records.get((run["id"], 1)) for run in order)
    return [record for record in found if record]


def usable(order, records, setting=None):
    return [record for record in standing(order, records)
            if record["state"] in DONE and setting in (None, record["setting"])]


def left_out(order, records):
    """A sentence for each run that is in no figure."""
    return [f"round {record['round']}, {record['setting']}: {record['state']}, {record['why']}"
            for record in standing(order, records) if record["state"] not in DONE]


def imbalance(shares):
    """Largest share of a backend over the mean: 1 is even."""
    counts = [count for count in shares.values() if count is not None]
    return max(counts) * len(counts) / sum(counts) if counts and sum(counts) else None


def shares_of(report, backends):
    """Responses per backend, those without any among them."""
    shares = {name: 0 for name in backends}
    for row in report.get("backends", []):
        if row["id"] in shares:
            shares[row["id"]] += row["responses"]
    return shares


def memory_limit_of(records, wanted):
    """(limit, decided): the memory limit that the runs have had, which all further ones have, too: what a first one could not
    have, none gets. `wanted`, not decided, while none has run."""
    for record in records:
        if "memory_limit" in record:
            return record["memory_limit"], True
        if "figures" in record:  # of a sweep that kept only why there was none
            return None if record.get("memory_word") else wanted, True
    return wanted, False


def latency_of(report, kind, which="latency_ms"):
    found = report["operations"][kind].get(which)
    return {name: found[name] for name in PERCENTILES} if found and found["count"] else None


def figures_of(report, shares):
    """What a run is shown by."""
    operations = report["operations"]
    intended = {kind: latency_of(report, kind, "intended_latency_ms") for kind in ("message", "feed")}
    open_load = any(intended.values())
    unissued = operations["buckets"].get("not_issued", 0)
    return {"message": latency_of(report, "message"), "feed": latency_of(report, "feed"),
            "message_intended": intended["message"], "feed_intended": intended["feed"],
            "not_issued": 100 * unissued / operations["planned"] if (open_load or unissued) and operations["planned"] else None,
            "throughput": operations["throughput_per_second"], "done": operations["done"],
            "errors": 100 * operations["failed"] / operations["done"] if operations["done"] else 100,
            "imbalance": imbalance(shares)}


def pick(record, path):
    """`message.p99` of a record's figures; None where it has none."""
    value = record["figures"]
    for part in path.split("."):
        value = None if value is None else value.get(part)
    return value


def spread(records, path):
    """Median, smallest and largest over repetitions, and all of them; None without any."""
    values = [value for value in (pick(record, path) for record in records) if value is not None]
    if not values:
        return None
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "all": values}


def mean_cpu(records):
    """Mean CPU of each system over the runs, in percent of a core."""
    sums = {}
    for record in records:
        for name, system in record.get("systems", {}).items():
            sums.setdefault(name, []).append(system["cpu_mean"])
    return {name: statistics.fmean(values) for name, values in sums.items()}


def typical(records):
    """The run whose p99 of messages is the middle one: its seconds are shown first."""
    ranked = sorted((record for record in records if pick(record, "message.p99") is not None),
                    key=lambda record: pick(record, "message.p99"))
    return ranked[(len(ranked) - 1) // 2]["id"] if ranked else None


def verdict_words(comparison):
    """A cell of the table: what differs from the baseline, or that nothing does."""
    if comparison is None:
        return "baseline"
    if comparison.get("error"):
        return comparison["error"]
    if not comparison["judged"]:
        return "not judged: too few runs"
    if comparison["verdict"] == "not judged":
        return "not judged: a side stood still or was wrong"
    words = [f"{figure['name']} {figure['verdict']} ({change_words(figure)})" for figure in comparison["figures"]
             if figure["verdict"] in ("better", "worse")]
    return "; ".join(words) if words else "no difference"


def change_words(figure):
    if "ratio" in figure:
        if figure["ratio"] is None:
            return "no ratio"
        low, high = figure["interval"]
        return f"× {figure['ratio']:.2f}, {low:.2f} to {high:.2f}"
    change = figure["difference"]
    return f"{change:+.2f} {figure['unit']}"


def overall(comparisons):
    """One sentence for the sweep. `comparisons`: setting -> comparison with the baseline, None for itself."""
    judged = {name: found for name, found in comparisons.items() if found is not None}
    if any(found.get("error") or not found["judged"] or found["verdict"] == "not judged" for found in judged.values()):
        return "Not all settings could be judged."
    apart = [name for name, found in judged.items() if found["verdict"] != "same"]
    if not apart:
        return "No difference between the settings."
    return "Different from the baseline: " + ", ".join(f"{name} ({judged[name]['verdict']})" for name in apart) + "."


def seconds_of(report):
    """The seconds of the counted stages; None where the report has none."""
    series = report.get("series")
    if not series or not series.get("second"):
        return None
    return {"second": series["second"], "ok": series["ok"], "failed": series["failed"],
            **{name: series[name + "_ms"] for name in PERCENTILES}}
