"""The generator against a server whose answers are known beforehand: each operation in its bucket, as many as the
server itself has counted, and latencies that are the server's."""

import glob
import json
import os
import re
import signal
import subprocess

from case import Case, main
from fixture_server_test import Fixture
from ports import free_port
from programs import LOADGEN_RIGHT, clean_environment, program, run
from waiting import TIME_FACTOR, wait_until

FAILED = (3, 4)  # 4: this machine was too busy for a generator, which comes before thresholds that do not hold


class KnownAnswers(Case):
    def setUp(self):
        super().setUp()
        self.results = os.path.join(self.folder, "results")
        self.fixture = self.keep(Fixture(self.folder, seed=7))

    def start_load(self, *arguments):
        """Starts the generator, whose output goes to a file; returns it and a reader of the time that it has shown."""
        path = os.path.join(self.folder, "loadgen.log")
        with open(path, "w", encoding="utf-8") as log:
            command = [program("loadgen"), "-url", self.fixture.url, "-out-dir", self.results, "-seed", "7",
                       "-metrics-interval", "50ms", "-lb-url", "none", *arguments]
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       env=clean_environment())
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)

        def elapsed():
            with open(path, encoding="utf-8") as log:
                return max((float(found) for found in re.findall(r"^(\d+\.\d)s users ", log.read(), re.M)), default=0)

        return process, elapsed

    def load(self, *arguments):
        """Runs the generator; returns its exit code and report."""
        process, _ = self.start_load(*arguments)
        return self.finish_load(process)

    def finish_load(self, process):
        code = process.wait(60 * TIME_FACTOR)
        with open(os.path.join(self.folder, "loadgen.log"), encoding="utf-8") as log:
            out = log.read()
        files = glob.glob(os.path.join(self.results, "*.json"))
        self.assertEqual(len(files), 1, out)
        with open(files[0], encoding="utf-8") as file:
            report = json.load(file)
        os.unlink(files[0])
        self.assertEqual(report["exit_code"], code)
        operations = report["operations"]
        self.assertEqual(sum(operations["buckets"].values()), operations["planned"])
        return code, report

    def expect_buckets(self, report, expected):
        self.assertEqual({name: count for name, count in report["operations"]["buckets"].items() if count}, expected)

    def test_fixed_service_time(self):
        self.fixture.change(service="fixed+10ms")
        code, report = self.load("-users", "20", "-requests", "400", "-fail", "p50(post)>=9.9ms, errors==0; ok==400")
        self.assertIn(code, LOADGEN_RIGHT)
        self.assertEqual(report["failures"], [])
        self.expect_buckets(report, {"ok": 400})
        latency = report["operations"]["message"]["latency_ms"]
        self.assertEqual(latency["count"], 400)
        # Little's law: the users' time is that of their operations, in which nobody spends more than there is.
        busy = latency["mean"] / 1000 * 400 / (20 * report["elapsed_seconds"])
        self.assertLessEqual(busy, 1.0)
        self.assertGreater(busy, 0.3)

    def test_failures_are_those_that_the_server_counted(self):
        cases = (("5xx", "status", "30"), ("reset", "close", "100"), ("reset", "reset", "100"), ("short_body", "short", "100"))
        for bucket, how, feeds in cases:
            with self.subTest(how):
                before = json.loads(self.fixture.change(fail_share=0.3, fail_status=503, fail_how=how)[1])
                code, report = self.load("-users", "10", "-requests", "500", "-fail", "errors<1%; ok>0",
                                         "-feed-percent", feeds)
                after = self.fixture.counters()
                failed = after["failed"] - before["failed"]
                self.assertEqual(after["requests"] - before["requests"], 500)
                self.assertGreater(failed, 0)
                self.expect_buckets(report, {"ok": 500 - failed, bucket: failed})
                self.assertIn(code, FAILED)
                self.assertEqual([t["held"] for t in report["thresholds"]], [False, True])

    def test_a_server_that_never_answers(self):
        self.fixture.change(hang="true")
        code, report = self.load("-users", "20", "-requests", "40", "-request-timeout", "200ms", "-fail",
                                 "time_out==40, errors==100%, p99(post)<1h")
        self.expect_buckets(report, {"time_out": 40})
        self.assertEqual(report["operations"]["message"]["latency_ms"]["count"], 0)
        self.assertEqual([t["held"] for t in report["thresholds"]], [True, True, False], "no latency was measured")
        self.assertIn(code, FAILED)

    def test_a_queue_shows_what_its_server_measured(self):
        """Poisson arrivals at one exponential server: theory's figures are held by a unit test in virtual time and by the
        README in real time; here the generator must agree with the server, which keeps its own account."""
        self.fixture.change(service="exponential+3ms", capacity=1)
        code, report = self.load("-users", "300", "-rate", "200", "-arrival", "poisson", "-requests", "300",
                                 "-feed-percent", "100")
        self.assertIn(code, LOADGEN_RIGHT, report["failures"])
        self.expect_buckets(report, {"ok": 300})
        server = self.fixture.counters()["sojourn_ms"]
        self.assertEqual(server["count"], 300)
        feed = report["operations"]["feed"]
        for name in ("mean", "p50", "p90"):
            served, seen, wished = server[name], feed["latency_ms"][name], feed["intended_latency_ms"][name]
            self.assertGreaterEqual(seen, 0.99 * served, name)
            self.assertGreaterEqual(wished, 0.99 * served, name)
            self.assertLess(seen, served + 100 * TIME_FACTOR, name)
        self.assertGreater(server["mean"], 3, "requests waited for each other")

    def test_a_server_that_freezes_shows_from_the_intended_time_on(self):
        """Two seconds at 300 a second: eight users can be caught in it, six hundred operations should have begun."""
        self.fixture.change(service="fixed+10ms")
        process, elapsed = self.start_load("-users", "8", "-rate", "300", "-requests", "1200", "-fail",
                                           "p95(post)<500ms; p95(post,intended)<500ms; max(post)>1.9s; not_issued==0")
        wait_until(lambda: elapsed() >= 0.5, 20, "the load to run")
        frozen_at = elapsed()
        self.fixture.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: elapsed() >= frozen_at + 2.1, 20, "two seconds of the generator's time")
        self.fixture.process.send_signal(signal.SIGCONT)
        code, report = self.finish_load(process)
        self.expect_buckets(report, {"ok": 1200})
        message = report["operations"]["message"]
        self.assertEqual(message["intended_latency_ms"]["count"], 1200)
        self.assertGreaterEqual(message["intended_latency_ms"]["p95"], 1000)
        self.assertEqual([t["held"] for t in report["thresholds"]], [True, False, True, True], report["thresholds"])
        self.assertIn(code, FAILED)

    def test_a_generator_that_was_late_says_invalid(self):
        process, elapsed = self.start_load("-users", "50", "-rate", "200", "-requests", "600", "-fail", "ok==600")
        wait_until(lambda: elapsed() >= 0.3, 20, "the load to run")
        process.send_signal(signal.SIGSTOP)
        code, out, err = run([program("loadgen"), "-url", self.fixture.url, "-users", "1", "-interval-min", "100ms",
                              "-duration", "1s", "-out-dir", ""])  # a second in which the other stands still
        process.send_signal(signal.SIGCONT)
        self.assertIn(code, LOADGEN_RIGHT, out + err)
        code, report = self.finish_load(process)
        self.assertEqual(code, 4)
        self.assertIn("schedule lag", report["invalid"][0])
        self.assertGreaterEqual(report["generator"]["schedule_lag_ms"]["max"], 900)
        self.expect_buckets(report, {"ok": 600})

    def test_over_the_bound_of_the_queue_nothing_is_issued(self):
        self.fixture.change(hang="true")
        code, report = self.load("-users", "3", "-rate", "1000", "-requests", "100", "-queue-max", "7",
                                 "-request-timeout", "2s", "-duration", "900ms",
                                 "-fail", "errors==3, time_out==3, not_issued==97")
        self.expect_buckets(report, {"time_out": 3, "not_issued": 97})
        self.assertEqual(report["operations"]["queue_full"], 90)
        self.assertIn(code, LOADGEN_RIGHT)

    def test_stages_and_held_connections_from_addresses_of_their_own(self):
        code, report = self.load("-stages", "users=3 requests=30; name=peak users=6 rate=200 requests=60",
                                 "-held-new-connections", "4", "-held-new-stage", "peak", "-held-new-age", "100ms",
                                 "-source-addresses", "127.4.0.0/16", "-requests-per-connection", "5", "-duplicate-percent", "10")
        self.assertIn(code, LOADGEN_RIGHT, report["failures"])
        self.expect_buckets(report, {"ok": 90})
        self.assertEqual([(stage["name"], stage["operations"]["buckets"]["ok"]) for stage in report["stages"]],
                         [("stage-1", 30), ("peak", 60)])
        self.assertGreater(report["operations"]["repeats"], 0)
        self.assertGreaterEqual(report["connections"]["opened"], 18)
        held = report["held"]
        self.assertEqual((held["stage"], held["wanted"], held["opened"], held["answered"]), ("peak", 4, 4, 4))
        self.assertEqual(self.fixture.counters()["requests"], 94)

    def test_usage_and_no_server_are_exit_code_2(self):
        for arguments, word in ((("-url", f"http://127.0.0.1:{free_port()}"), "nothing answers"),
                                (("-url", self.fixture.url.replace("http:", "https:")), "no TLS with https://127"),
                                (("-url", self.fixture.url, "-source-addresses", "192.0.2.1"), "bind 192.0.2.1: EADDRNOTAVAIL"),
                                (("-stages", "users=5 duration=1s; user=7"), "column 22"),
                                (("-fail", "p99(post)<50"), "column 11")):
            code, out, err = run([program("loadgen"), "-out-dir", "", *arguments])
            self.assertEqual(code, 2, out + err)
            self.assertIn(word, err)


if __name__ == "__main__":
    main()
