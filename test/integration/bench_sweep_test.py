"""bench/sweep.py: what decides, from canned records, and one tiny sweep of a real system that is stopped and goes on."""

import copy
import json
import os
import shutil
import signal
import subprocess
import sys

from case import Case, main
from programs import PROGRAMS, ROOT, clean_environment, program, run
from waiting import TIME_FACTOR, wait_until

sys.path.insert(0, os.path.join(ROOT, "bench"))
import sweep_machine  # noqa: E402
import sweep_page  # noqa: E402
import sweep_plan  # noqa: E402
import sweep_run  # noqa: E402
from sweep_store import Damaged, OtherSweep, Store  # noqa: E402


def record_of(run, attempt=1, state="ok", p99=40.0, **more):
    cpu = {"cpu_percent": [10.0, 30.0], "cpu_mean": 20.0, "rss_bytes": [1 << 20] * 2, "rss_max": 1 << 20}
    record = {"id": run["id"], "round": run["round"], "setting": run["setting"], "attempt": attempt, "state": state,
              "why": "" if state == "ok" else "because", "started": "2026-01-01T00:00:00+00:00"}
    if state in sweep_plan.DONE:
        record.update(figures={"message": {"p50": p99 / 4, "p95": p99 / 2, "p99": p99}, "feed": None, "throughput": 1000.0,
                               "errors": 0.0, "imbalance": 1.1, "done": 100}, shares={"sys2": 6, "sys3": 4},
                      at=[-0.5, 0.5], systems={"Sys1": cpu, "Sys2": cpu}, report="reports/x.json", **more)
    return record


def report_of(_):
    return {"series": {"second": [0], "ok": [1000], "failed": [0], "p50_ms": [10.0], "p95_ms": [20.0], "p99_ms": [None]}}


SAME = {"judged": 5, "verdict": "same", "by": "runs", "warnings": [], "figures": []}
WORSE = {"judged": 5, "verdict": "worse", "by": "runs", "warnings": ["</script><b>"],
         "figures": [{"name": "message p99", "verdict": "worse", "ratio": 1.5, "interval": [1.2, 1.9]},
                     {"name": "errors", "verdict": "worse", "difference": 0.5, "unit": "%", "interval": [0.2, 0.8]}]}


class Plan(Case):
    settings = sweep_plan.settings_of([55, 60, 75])

    def test_order_is_every_setting_once_a_round_and_decided_by_the_seed(self):
        order = sweep_plan.order_of(self.settings, 20, 1)
        rounds = [[run["setting"] for run in order if run["round"] == number] for number in range(1, 21)]
        self.assertTrue(all(sorted(names) == ["55", "60", "75"] for names in rounds))
        self.assertGreater(len({tuple(names) for names in rounds}), 3)
        self.assertEqual(order, sweep_plan.order_of(self.settings, 20, 1))
        self.assertNotEqual(order, sweep_plan.order_of(self.settings, 20, 2))
        self.assertEqual(len({run["id"] for run in order}), 60)

    def test_settings_and_their_baseline(self):
        self.assertEqual(self.settings[0]["environment"], {"LB_POLICY": "score", "LB_THRESHOLD": "55"})
        self.assertEqual(sweep_plan.baseline_of(self.settings), "75")
        self.assertEqual(sweep_plan.baseline_of(self.settings, "60"), "60")
        policies = sweep_plan.settings_of(policies=["adaptive", "score"])
        self.assertEqual(sweep_plan.baseline_of(policies), "score")
        self.assertEqual(policies[0]["environment"], {"LB_POLICY": "adaptive"})
        same = sweep_plan.settings_of(self_check=True)
        self.assertEqual((same[0]["environment"], sweep_plan.baseline_of(same)), (same[1]["environment"], "A"))

    def test_a_sweep_goes_on_and_repeats_invalid_runs_once_at_the_end(self):
        order = sweep_plan.order_of(self.settings, 1, 1)
        records = {}
        for state in ("ok", "invalid", "busy"):
            run, attempt = sweep_plan.next_run(order, records)
            self.assertEqual(attempt, 1)
            records[run["id"], 1] = record_of(run, state=state)
        run, attempt = sweep_plan.next_run(order, records)
        self.assertEqual((run["id"], attempt), (order[1]["id"], 2))
        self.assertEqual(len(sweep_plan.usable(order, records)), 2)
        self.assertEqual(len(sweep_plan.left_out(order, records)), 1)
        records[run["id"], 2] = record_of(run, 2, "invalid")
        self.assertIsNone(sweep_plan.next_run(order, records), "never a third time")
        records[run["id"], 2] = record_of(run, 2)
        self.assertEqual(len(sweep_plan.usable(order, records)), 3)

    def test_figures(self):
        self.assertEqual(sweep_plan.imbalance({"a": 10, "b": 10}), 1)
        self.assertEqual(sweep_plan.imbalance({"a": 30, "b": 0, "c": 0}), 3)
        self.assertIsNone(sweep_plan.imbalance({"a": 0}))
        runs = [record_of(run, p99=p99) for run, p99 in zip(sweep_plan.order_of(self.settings, 1, 1), (10, 50, 30))]
        self.assertEqual(sweep_plan.spread(runs, "message.p99"), {"median": 30, "min": 10, "max": 50, "all": [10, 50, 30]})
        self.assertIsNone(sweep_plan.spread(runs, "feed.p99"))
        self.assertEqual(sweep_plan.typical(runs), runs[2]["id"])
        self.assertEqual(sweep_plan.overall({"a": None, "b": SAME}), "No difference between the settings.")
        self.assertIn("b (worse)", sweep_plan.overall({"a": None, "b": WORSE}))
        stalled = {**SAME, "verdict": "not judged"}
        self.assertIn("Not all", sweep_plan.overall({"a": None, "b": stalled}))
        self.assertIn("not judged", sweep_plan.verdict_words(stalled))

    def test_an_open_load_is_shown_from_the_intended_time_too(self):
        def report(intended, unissued):
            part = {"latency_ms": {"count": 9, "p50": 1, "p95": 2, "p99": 3}, "intended_latency_ms": intended}
            return {"operations": {"message": part, "feed": {"latency_ms": {"count": 0}}, "throughput_per_second": 9.0,
                                   "done": 10, "failed": 1, "planned": 40, "buckets": {"not_issued": unissued}}}

        figures = sweep_plan.figures_of(report({"count": 9, "p50": 10, "p95": 20, "p99": 3000}, 30), {})
        self.assertEqual((figures["message"]["p99"], figures["message_intended"]["p99"]), (3, 3000))
        self.assertEqual((figures["feed_intended"], figures["not_issued"], figures["errors"]), (None, 75, 10))
        order = sweep_plan.order_of(self.settings[:1], 1, 1)
        record = record_of(order[0])
        record["figures"] = figures
        plan = {"settings": self.settings[:1], "order": order, "baseline": "55", "config": {"memory_limit": None}}
        lines = sweep_page.summary_lines(sweep_page.page_data(plan, {(order[0]["id"], 1): record}, {"55": None}, report_of))
        self.assertRegex("\n".join(lines), r"intended p99 ms(.|\n)*3000")
        closed = sweep_plan.figures_of(report({"count": 0}, 0), {})
        self.assertIsNone(closed["message_intended"])
        self.assertIsNone(closed["not_issued"])

    def test_the_memory_limit_is_decided_by_the_first_run(self):
        run = sweep_plan.order_of(self.settings, 1, 1)[0]
        failed = record_of(run, state="failed")  # before its systems were there
        self.assertEqual(sweep_plan.memory_limit_of([failed], "512M"), ("512M", False))
        self.assertEqual(sweep_plan.memory_limit_of([failed, record_of(run, memory_limit=None)], "512M"), (None, True))
        self.assertEqual(sweep_plan.memory_limit_of([record_of(run, memory_limit="512M")], "512M"), ("512M", True))
        self.assertEqual(sweep_plan.memory_limit_of([record_of(run, memory_word="no")], "512M"), (None, True))
        asked = []

        class Local(sweep_run.LocalSystem):
            @staticmethod
            def _local(command, extra=None):
                asked.append("--memory-limit" in command)
                return "no cgroup", sweep_run.NO_CGROUPS if asked[-1] else 1

        for may, tried in ((True, [True, False]), (False, [True])):
            system = Local("sqlite", 1, "512M", may)
            with self.assertRaises(sweep_run.RunFailed):
                system.up({}, lambda folder: self.addCleanup(shutil.rmtree, folder, ignore_errors=True))
            self.assertEqual(asked, tried)
            self.assertEqual(system.memory_word, "no cgroup" if may else None)
            asked.clear()

    def test_a_baseline_is_one_of_the_settings(self):
        sweep = [sys.executable, os.path.join(ROOT, "bench", "sweep.py"), "--out", self.folder, "--baseline"]
        code, _, err = run([*sweep, "66"])
        self.assertEqual(code, 2)
        self.assertIn("55, 60, 65, 70, 75", err)

    def test_the_folder_keeps_what_ran_and_refuses_another_sweep(self):
        store = Store(os.path.join(self.folder, "out"))
        order = sweep_plan.order_of(self.settings, 1, 1)
        plan = {"settings": self.settings, "order": order, "config": {"seed": 1}}
        store.begin(plan)
        store.add(record_of(order[0]))
        store.add(record_of(order[0], 2))
        with open(store.path("runs", "half.json.new"), "w", encoding="ascii") as file:
            file.write('{"id"')  # killed while it was written
        again = Store(store.folder)
        with self.assertRaisesRegex(OtherSweep, "at work"):
            again.begin(copy.deepcopy(plan))
        store.lock.close()
        again.begin(copy.deepcopy(plan))
        self.assertEqual(set(again.records()), {(order[0]["id"], 1), (order[0]["id"], 2)})
        with self.assertRaisesRegex(OtherSweep, "config"):
            again.begin({**plan, "config": {"seed": 2}})
        os.truncate(store.path("runs", order[0]["id"] + ".json"), 9)
        with self.assertRaisesRegex(Damaged, order[0]["id"] + ".json is damaged .*: remove it"):
            again.records()
        with self.assertRaisesRegex(Damaged, "there is no sweep in"):
            Store(self.folder).plan()

    def test_what_the_machine_says(self):
        before = sweep_machine.cpu_line("cpu  100 0 100 1000 0 50 50 0 7 7\ncpu0 1 2\n")
        after = sweep_machine.cpu_line("cpu  150 0 130 1080 20 60 60 20 7 7\n")
        self.assertEqual(sweep_machine.share_percent(before, after), 100 * 100 / 220)
        self.assertEqual(sweep_machine.share_percent(before, after, ours=200), 0)
        tick = sweep_machine.TICK
        rows = [(100.0 + i, [i * tick // 2, i * tick // 10], [1, 2], [None, None]) for i in range(4)]
        at, systems = sweep_machine.utilisation(["Sys1", "Sys2"], rows, 101.0, 110.0)
        self.assertEqual(at, [-0.5, 0.5, 1.5])
        self.assertEqual(systems["Sys1"]["cpu_percent"], [50.0] * 3)
        self.assertEqual(systems["Sys2"]["cpu_mean"], 10.0)
        idle = [*rows, (104.0, rows[-1][1], [9, 9], [None, None])]  # the load is over
        self.assertEqual(sweep_machine.utilisation(["Sys1", "Sys2"], idle, 101.0, 103.0)[1]["Sys1"]["cpu_mean"], 50.0)
        inside = sweep_machine.utilisation(["Sys1", "Sys2"], rows, 101.1, 101.3)[1]  # shorter than an interval
        self.assertEqual(inside["Sys1"]["cpu_mean"], 50.0)
        across = [*rows[:2], (102.0, rows[1][1], [1, 2], [None, None])]  # a quarter of it at work
        self.assertEqual(sweep_machine.utilisation(["Sys1", "Sys2"], across, 100.75, 101.75)[1]["Sys1"]["cpu_mean"], 12.5)

    def test_only_the_process_that_was_meant_is_killed(self):
        with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:  # waits for what nobody writes
            self.addCleanup(process.kill)
            system = sweep_machine.System("Sys2", [process.pid])
            began = system.started[process.pid]
            system.started[process.pid] -= 1  # an earlier one of this number
            system.kill()
            self.assertIsNone(process.poll())
            system.started[process.pid] = began
            system.kill()
            self.assertEqual(process.wait(), -signal.SIGKILL)
        system.kill()
        self.assertIsNone(sweep_machine.start_time(process.pid))

    def test_a_run_is_judged_with_its_reason(self):
        report = {"invalid": [], "interrupted": False, "operations": {"buckets": {"ok": 5}}}
        quiet = {"busy_percent": 3.0, "waited_seconds": 0.5}

        def judged(code=0, others=1.0, before=quiet, **changes):
            return sweep_run.judge({**report, **changes}, code, others, before, 20)[0]

        self.assertEqual(judged(), "ok")
        self.assertEqual(judged(code=3), "ok")  # errors are figures
        self.assertEqual(judged(code=4), "invalid")
        self.assertEqual(judged(interrupted=True), "invalid")
        self.assertEqual(judged(operations={"buckets": {"ok": 0}}), "failed")
        self.assertEqual(judged(others=30.0), "busy")
        self.assertEqual(judged(before={"busy_percent": 90.0, "waited_seconds": 60.0}), "busy")

    def test_the_page_and_the_summary(self):
        order = sweep_plan.order_of(self.settings, 2, 1)
        records = {(run["id"], 1): record_of(run, state="busy" if run["round"] == 2 else "ok") for run in order[:-1]}
        records[order[-1]["id"], 1] = record_of(order[-1], state="failed")
        records[order[-1]["id"], 2] = record_of(order[-1], 2, "failed")
        plan = {"settings": self.settings, "order": order, "baseline": "75",
                "config": {"load": ["-users", "9"], "seed": 1, "store": "sqlite", "backends": 3, "memory_limit": "512M"}}
        records[order[0]["id"], 1].update(memory_limit=None, memory_word="none can be made")
        data = sweep_page.page_data(plan, records, {"55": SAME, "60": WORSE, "75": None}, report_of)
        text = "\n".join(sweep_page.summary_lines(data))
        self.assertIn("message p99 worse (× 1.50, 1.20 to 1.90); errors worse (+0.50 %)", text)
        self.assertIn("no difference", text)
        self.assertIn("2 runs were disturbed", text)
        self.assertIn("without memory cgroups: none can be made", text)
        self.assertIsNone(data["config"]["memory_limit"], "what the runs had, not what was asked for")
        self.assertIn(f"round 2, {order[-1]['setting']}: failed, because", text)
        page = sweep_page.html(data)
        self.assertNotIn("</script><b>", page)
        self.assertNotIn("{{", page)
        for outside in ("src=", "href=", "@import", "url("):
            self.assertNotIn(outside, page)
        embedded = page.split('id="data">')[1].split("</script>")[0]
        self.assertEqual(json.loads(embedded), json.loads(json.dumps(data)))
        self.assertEqual(sum(len(setting["runs"]) for setting in data["settings"]), 5)


class Sweep(Case):
    """Two thresholds, one round, one backend: stopped in the middle, and called again."""

    def sweep(self, out):
        command = [sys.executable, os.path.join(ROOT, "bench", "sweep.py"), "--thresholds", "60,75", "--rounds", "1",
                   "--backends", "1", "--quiet-within", "0", "--out", out, "--load",
                   "-users 10 -duration 500ms -feed-percent 2 -verify-feed"]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env=clean_environment(DLB_PROGRAMS=PROGRAMS, TMPDIR=self.folder))

    def finish(self, process):
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        out, _ = process.communicate(timeout=120 * TIME_FACTOR)
        return process.returncode, out

    def left_running(self):
        """Processes whose command line names our folder."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read()
            except OSError:
                continue
            if os.path.join(self.folder, "dlb-sweep-").encode() in words:
                found.append(words)
        return found

    def test_stopped_it_leaves_nothing_and_goes_on(self):
        out = os.path.join(self.folder, "out")
        process = self.sweep(out)
        store = Store(out)
        wait_until(lambda: len(store.records()) == 1 and store.left_active(), 120, "the second run")
        process.send_signal(signal.SIGINT)
        code, text = self.finish(process)
        self.assertEqual(code, 130, text)
        self.assertEqual(self.left_running(), [])
        self.assertIsNone(store.left_active())
        self.assertEqual(len(store.records()), 1)

        code, text = self.finish(self.sweep(out))
        self.assertEqual(code, 0, text)
        self.assertIn("1 runs are there already", text)
        records = list(store.records().values())
        self.assertEqual(sorted(record["setting"] for record in records), ["60", "75"], text)
        for record in records:
            self.assertIn(record["state"], sweep_plan.DONE, text)
            self.assertEqual(set(record["systems"]), {"Sys1", "Sys2"})
            self.assertGreater(record["systems"]["Sys1"]["cpu_mean"], 0)
            self.assertTrue(store.report(record)["verification"]["passed"])
        with open(store.path("index.html"), encoding="utf-8") as file:
            self.assertIn("Thresholds of the policy score", file.read())
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("dlb-sweep")], [])
        self.compared(store, records)

    def compared(self, store, records):
        """`loadgen compare` by itself, on what the sweep has left."""
        first, second = (store.path(record["report"]) for record in records)
        code, out, err = run([program("loadgen"), "compare", first, second])
        self.assertEqual(code, 4, err)  # too short to be judged
        self.assertIn("nothing could be judged", out)
        report = store.report(records[0])
        again = os.path.join(self.folder, "again.json")  # a file stands once on a side
        with open(again, "w", encoding="utf-8") as file:
            json.dump(report, file)
        both = f"{first},{again}"
        code, out, err = run([program("loadgen"), "compare", "-json", both, both])
        self.assertEqual((code, json.loads(out)["verdict"]), (0, "same"), err)
        for change, word in (({"schema": 1}, "schema 1"), ({"invalid": ["late"]}, "INVALID: late")):
            other = os.path.join(self.folder, "other.json")
            with open(other, "w", encoding="utf-8") as file:
                json.dump({**report, **change}, file)
            code, _, err = run([program("loadgen"), "compare", first, other])
            self.assertEqual(code, 2)
            self.assertIn(word, err)
        self.assertEqual(run([program("loadgen"), "compare", "--force", first, other])[0], 4)
        self.assertEqual(run([program("loadgen"), "compare", first])[0], 2)


if __name__ == "__main__":
    main()
