"""The page of a sweep, from its records: one file with its data, style and script in it, and the summary that stands on the
screen. Pure but for reading the parts of the page: from beside this file and from common/page/."""

import html as markup
import json
import os

import sweep_plan

HERE = os.path.dirname(os.path.abspath(__file__))
SHARED = os.path.join(os.path.dirname(HERE), "common", "page")  # with the dashboard and the report of a run
INTENDED = "from the intended time"  # of an open load: what a user would have seen who came on time
FIGURES = (("message.p50", "Messages, p50", "ms"), ("message.p95", "Messages, p95", "ms"), ("message.p99", "Messages, p99", "ms"),
           ("feed.p50", "Feeds, p50", "ms"), ("feed.p95", "Feeds, p95", "ms"), ("feed.p99", "Feeds, p99", "ms"),
           *((f"{kind}_intended.{name}", f"{title} {INTENDED}, {name}", "ms")
             for kind, title in (("message", "Messages"), ("feed", "Feeds")) for name in sweep_plan.PERCENTILES),
           ("throughput", "Throughput", "/s"), ("errors", "Errors", "%"),
           ("not_issued", "Not issued", "%"), ("imbalance", "Imbalance", "×"))


def page_data(plan, records, comparisons, report_of):
    """All that the page shows. `report_of(record)` gives what loadgen wrote."""
    order, settings = plan["order"], []
    usable = sweep_plan.usable(order, records)
    for setting in plan["settings"]:
        runs = sweep_plan.usable(order, records, setting["name"])
        settings.append({
            "name": setting["name"],
            "figures": {path: sweep_plan.spread(runs, path) for path, _, _ in FIGURES},
            "cpu": sweep_plan.mean_cpu(runs), "memory": peak_memory(runs),
            "verdict": sweep_plan.verdict_words(comparisons.get(setting["name"])),
            "kind": verdict_kind(comparisons.get(setting["name"])),
            "typical": sweep_plan.typical(runs),
            "runs": [run_data(record, report_of(record)) for record in runs],
        })
    limit, _ = sweep_plan.memory_limit_of(records.values(), plan["config"]["memory_limit"])
    config = {**plan["config"], "memory_limit": limit}
    states = [record["state"] for record in usable]
    return {
        "title": title_of(plan), "axis": plan["settings"][0]["kind"], "baseline": plan["baseline"],
        "overall": sweep_plan.overall(comparisons), "config": config, "settings": settings,
        "shown": [{"path": path, "title": title, "unit": unit} for path, title, unit in FIGURES
                  if any(setting["figures"][path] for setting in settings)],
        "order": [f"{run['round']}: {run['setting']}" for run in order],
        "started": min((record["started"] for record in records.values()), default=None),
        "runs_done": len(usable), "runs_planned": len(order), "busy": states.count("busy"),
        "left_out": sweep_plan.left_out(order, records),
        "notes": notes_of(comparisons, records.values()),
    }


def title_of(plan):
    kind = plan["settings"][0]["kind"]
    return {"threshold": "Thresholds of the policy score", "policy": "Policies"}.get(kind, "The same setting under two names")


def verdict_kind(comparison):
    if comparison is None:
        return "none"
    if comparison.get("error") or not comparison["judged"] or comparison["verdict"] == "not judged":
        return "warn"
    return {"same": "none", "better": "good", "worse": "bad"}.get(comparison["verdict"], "warn")


def peak_memory(records):
    """Largest memory of each system over the runs: of its cgroup's working set where it has one, else of its processes."""
    peaks = {}
    for record in records:
        for name, system in record.get("systems", {}).items():
            peaks[name] = max(peaks.get(name, 0), system.get("working_set_max", system["rss_max"]))
    return peaks


def run_data(record, report):
    return {"id": record["id"], "round": record["round"], "state": record["state"], "why": record["why"],
            "figures": record["figures"], "shares": record["shares"], "at": record["at"],
            "cpu": {name: system["cpu_percent"] for name, system in record["systems"].items()},
            "seconds": sweep_plan.seconds_of(report)}


def notes_of(comparisons, records):
    """What a reader has to know, each once."""
    notes = []
    for comparison in filter(None, comparisons.values()):
        found = list(comparison.get("warnings", []))
        if comparison["judged"] and comparison.get("by") == "seconds":
            found.append("one run a setting: the verdicts go by its seconds and know nothing of what differs from run to run")
        notes += [note for note in found if note not in notes]
    words = {record["memory_word"] for record in records if record.get("memory_word")}
    return notes + sorted(f"without memory cgroups: {word}" for word in words)


def number(value, unit=""):
    if value is None:
        return "–"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:.{digits}f}{unit}"


def cell(found):
    return "–" if found is None else f"{number(found['median'])} [{number(found['min'])}–{number(found['max'])}]"


def short_title(title):
    return title.replace("Messages, ", "").replace(f"Messages {INTENDED}, ", "intended ")


def summary_lines(data):
    """For the screen: medians with their spread, and the verdicts."""
    yield f"{data['title']}: {data['runs_done']} of {data['runs_planned']} runs, medians [smallest–largest]"
    columns = [row for row in data["shown"] if not row["path"].startswith("feed")]
    rows = [[data["axis"], *(f"{short_title(row['title'])} {row['unit']}" for row in columns), "verdict"]]
    for setting in data["settings"]:
        rows.append([setting["name"], *(cell(setting["figures"][row["path"]]) for row in columns), setting["verdict"]])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    for row in rows:
        yield "  ".join([text.ljust(width) for text, width in zip(row, widths)] + [row[-1]]).rstrip()
    yield ""
    yield data["overall"]
    if data["busy"]:
        yield f"note: {data['busy']} runs were disturbed by other programs (busy): prefer a quiet machine"
    for text in [*data["left_out"], *data["notes"]]:
        yield f"note: {text}"


def part(name, folder=HERE):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return file.read()


def html(data):
    # Inside a script element only `</` and `<!--` could end or change it.
    embedded = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return (part("sweep_page.html").replace("{{title}}", markup.escape(data["title"]))
            .replace("{{style}}", part("palette.css", SHARED) + part("sweep_page.css")).replace("{{data}}", embedded)
            .replace("{{script}}", part("dom.js", SHARED) + "\n" + part("sweep_page.js")))
