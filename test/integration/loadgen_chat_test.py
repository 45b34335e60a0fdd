"""loadgen's chat users and their oracle: a run that is right passes; each planted fault is found, named and fails it."""

import glob
import json
import os
import signal
import subprocess

from altering_proxy import AlteringProxy
from case import Case, main
from programs import LOADGEN_RIGHT, program, run


class ChatRun(Case):
    def setUp(self):
        super().setUp()
        self.backends = self.chat_backends(2, ws_plain=True, ws_message_rate=1000)
        self.proxy = AlteringProxy(self.backends[1].port)
        self.addCleanup(self.proxy.close)
        self.key = os.path.join(self.folder, "load.pem")
        self.urls = [f"http://127.0.0.1:{port}" for port in (self.backends[0].port, self.proxy.port)]
        self.chats = ",".join(url.replace("http:", "ws:") + "/ws" for url in self.urls)
        self.runs = 0

    def loadgen(self, *arguments):
        """(exit code, text, report) of a run; each sends other messages."""
        self.runs += 1
        results = os.path.join(self.folder, f"results{self.runs}")
        arguments = ("-url", self.urls[0], "-wss-url", self.chats, "-chat-key", self.key, "-out-dir", results,
                     "-lb-url", "none", "-settle-timeout", "10s", *arguments)
        if "-seed" not in arguments:
            arguments += ("-seed", str(self.runs))
        code, out, err = run([program("loadgen"), *arguments], timeout=120)
        files = glob.glob(os.path.join(results, "*.json"))
        self.assertEqual(len(files), 1, out + err)
        with open(files[0], encoding="utf-8") as file:
            return code, out + err, json.load(file)

    def http_run(self, feed=None, frames=None):
        """An HTTP load with two subscribers at each backend; the faults are planted at the second one."""
        self.proxy.plant(feed, frames)
        return self.loadgen("-users", "2", "-requests", "12", "-subscribers", "4", "-verify-urls", self.urls[1])

    def check_stream(self, report, kind):
        """Only at one of the two groups, once, and named."""
        good, bad = report["chat"]["groups"]
        for name in ("missed", "duplicated", "reordered", "altered", "phantom"):
            self.assertEqual(good[name], 0, report["chat"])
            self.assertEqual(bad[name], 1 if name == kind else 0, report["chat"])
        self.assertTrue([text for text in report["chat"]["examples"]
                         if text.startswith(kind + " ") and bad["url"] in text], report["chat"]["examples"])

    def check_feed(self, report, kind):
        good, bad = report["verification"]["feed"], report["verification"]["backends"][0]
        for name in ("lost", "duplicated", "altered", "out_of_order"):
            self.assertEqual(good[name], 0, good)
            self.assertEqual(bad[name], 1 if name == kind else 0, bad)
        self.assertTrue(bad["examples"], bad)

    def test_of_all(self):
        """One scene, since starting it costs more than what is done in it."""
        self.planted_faults_are_found()
        self.compared()
        self.profile_chat()
        self.signal_while_signing()

    def planted_faults_are_found(self):
        code, out, report = self.http_run()
        self.assertIn(code, LOADGEN_RIGHT, out)
        chat = report["chat"]
        self.assertTrue(chat["passed"], out)
        self.assertEqual((chat["accepted"], chat["expected"], chat["delivered"]), (12, 48, 48), out)
        self.assertGreater(chat["fanout_ms"]["count"], 0)

        held = []

        def swap(number, text):
            if number == 5:
                held.append(text)
                return []
            return [text, held[0]] if number == 6 else [text]

        def altered(key):
            return lambda rows: rows[-6].update({key: rows[-6][key] + "x"})

        faults = [  # in a feed, and in a stream of the same run
            ("lost", lambda rows: rows.pop(-6), "missed", lambda number, text: [] if number == 5 else [text]),
            ("duplicated", lambda rows: rows.insert(-6, rows[-6]), "duplicated",
             lambda number, text: [text] * (2 if number == 5 else 1)),
            ("out_of_order", lambda rows: rows.insert(-6, rows.pop(-8)), "reordered", swap),
            ("altered", altered("msg"), "altered",
             lambda number, text: [text.replace(b'"msg":"', b'"msg":"x') if number == 5 else text]),
            ("altered", altered("client-name"), None, None),
        ]
        for in_feed, feed, in_stream, frames in faults:
            with self.subTest(in_feed):
                code, out, report = self.http_run(feed, frames)
                self.assertEqual(code, 3, out)
                self.check_feed(report, in_feed) if in_feed != "duplicated" else self.assertEqual(
                    report["verification"]["backends"][0]["duplicated"], 1, out)
                if in_stream:
                    self.check_stream(report, in_stream)
                else:
                    self.assertTrue(report["chat"]["passed"], out)

        # A deployment with such a fault does not pass `verify`.
        self.proxy.plant(frames=lambda number, text: [text] * 2)
        code, out, err = run([program("loadgen"), "verify", "-url", self.urls[0], "-wss-url", self.chats.split(",")[1],
                              "-key", self.key, "-json"], timeout=60)
        self.assertEqual(code, 3, out + err)
        failed = [check["name"] for check in json.loads(out)["checks"] if check["outcome"] == "fail"]
        self.assertIn("all get a signed message once", failed, out)

    def compared(self):
        """Of the first two runs the second one's subscribers have missed something."""
        good, bad = (glob.glob(os.path.join(self.folder, f"results{number}", "*.json"))[0] for number in (1, 2))
        code, out, err = run([program("loadgen"), "compare", "-force", good, bad])
        self.assertEqual(code, 3, out + err)
        self.assertRegex(out, r"chat missed +0 a run +1 a run .* worse")
        self.assertIn("B is worse", out)
        self.assertIn("`series` has no seconds of the chat", out)
        with open(bad.replace(".json", "-report.html"), encoding="utf-8") as file:
            self.assertIn('"fanout":[[', file.read())

    def signal_while_signing(self):
        """A report is there all the same."""
        results = os.path.join(self.folder, "cut")
        arguments = ("-profile", "chat", "-wss-url", self.chats, "-chat-key", self.key, "-out-dir", results,
                     "-requests", "400000", "-metrics-interval", "50ms")
        with subprocess.Popen([program("loadgen"), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as cut:
            self.addCleanup(cut.kill)
            self.assertTrue(cut.stderr.readline().startswith("signed "))
            cut.send_signal(signal.SIGINT)
            out, err = cut.communicate(timeout=60)
        self.assertEqual(cut.returncode, 130, out + err)
        self.assertIn(f" at {self.chats}: chat", out)
        self.assertIn("INTERRUPTED", out)
        with open(glob.glob(os.path.join(results, "*.json"))[0], encoding="utf-8") as file:
            report = json.load(file)
        self.assertTrue(report["interrupted"])
        self.assertGreater(report["chat"]["signed_ahead"], 0)

    def profile_chat(self):
        self.proxy.plant()
        arguments = ("-profile", "chat", "-users", "6", "-publishers", "2", "-rate", "40", "-requests", "40", "-seed", "77",
                     "-verify-feed", "-reconnect-percent", "50", "-fail", "lost==0,missed==0,duplicated==0,p99(fanout)<100s")
        code, out, report = self.loadgen(*arguments)
        self.assertIn(code, LOADGEN_RIGHT, out)
        operations, chat = report["operations"], report["chat"]
        self.assertEqual(sum(operations["buckets"].values()), operations["planned"])
        self.assertEqual((operations["planned"], operations["buckets"]["ok"]), (40, 40), out)
        self.assertEqual((chat["subscribers"], chat["publishers"], chat["signed_ahead"]), (6, 2, 40))
        self.assertEqual((chat["expected"], chat["delivered"], chat["fanout_ms"]["count"]), (240, 240, 240), out)
        self.assertEqual((chat["planned_drops"], chat["resumed"], chat["catch_up_ms"]["count"]), (2, 2, 2), out)
        self.assertTrue(all(threshold["held"] for threshold in report["thresholds"]), out)

        # With key and seed the same again: stored before, so nobody gets anything, and the feed has each once.
        code, out, report = self.loadgen(*arguments[:-2])
        self.assertIn(code, LOADGEN_RIGHT, out)
        self.assertEqual((report["chat"]["duplicate_acks"], report["chat"]["rows"]), (40, 0), out)
        self.assertTrue(report["chat"]["passed"] and report["verification"]["feed"]["passed"], out)


if __name__ == "__main__":
    main()
