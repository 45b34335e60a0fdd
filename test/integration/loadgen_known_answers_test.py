"""The generator against a server whose answers are known beforehand: each operation in its bucket, as many as the server
itself has counted, and latencies that are the server's."""

import glob
import json
import os

from case import Case, main
from fixture_server_test import Fixture
from ports import free_port
from programs import program, run


class KnownAnswers(Case):
    def setUp(self):
        super().setUp()
        self.fixture = self.keep(Fixture(self.folder, seed=7))

    def load(self, *arguments):
        """Runs the generator; returns its exit code and report."""
        results = os.path.join(self.folder, "results")
        code, out, err = run([program("loadgen"), "-url", self.fixture.url, "-out-dir", results, "-seed", "7", *arguments], 60)
        files = glob.glob(os.path.join(results, "*.json"))
        self.assertEqual(len(files), 1, out + err)
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
        self.assertEqual(code, 0, report["failures"])
        self.expect_buckets(report, {"ok": 400})
        latency = report["operations"]["message"]["latency_ms"]
        self.assertEqual(latency["count"], 400)
        # Little's law: the users' time is that of their operations, in which nobody spends more than there is.
        busy = latency["mean"] / 1000 * 400 / (20 * report["elapsed_seconds"])
        self.assertLessEqual(busy, 1.0)
        self.assertGreater(busy, 0.3)

    def test_failures_are_those_that_the_server_counted(self):
        cases = (("5xx", 503, ("-feed-percent", "30")), ("reset", 0, ("-feed-percent", "100")))
        for bucket, status, arguments in cases:
            with self.subTest(bucket):
                before = json.loads(self.fixture.change(fail_share=0.3, fail_status=status)[1])
                code, report = self.load("-users", "10", "-requests", "500", "-fail", "errors<1%; ok>0", *arguments)
                after = self.fixture.counters()
                failed = after["failed"] - before["failed"]
                self.assertEqual(after["requests"] - before["requests"], 500)
                self.assertGreater(failed, 0)
                self.expect_buckets(report, {"ok": 500 - failed, bucket: failed})
                self.assertEqual(code, 3)
                self.assertEqual([t["held"] for t in report["thresholds"]], [False, True])

    def test_a_server_that_never_answers(self):
        self.fixture.change(hang="true")
        code, report = self.load("-users", "20", "-requests", "40", "-request-timeout", "200ms", "-fail",
                                 "time_out==40, errors==100%, p99(post)<1h")
        self.expect_buckets(report, {"time_out": 40})
        self.assertEqual(report["operations"]["message"]["latency_ms"]["count"], 0)
        self.assertEqual([t["held"] for t in report["thresholds"]], [True, True, False], "no latency was measured")
        self.assertEqual(code, 3)

    def test_usage_and_no_server_are_exit_code_2(self):
        for arguments, word in ((("-url", f"http://127.0.0.1:{free_port()}"), "nothing answers"),
                                (("-fail", "p99(post)<50"), "column 11")):
            code, out, err = run([program("loadgen"), "-out-dir", "", *arguments])
            self.assertEqual(code, 2, out + err)
            self.assertIn(word, err)


if __name__ == "__main__":
    main()
