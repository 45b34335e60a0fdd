"""`loadgen chat` against real backends: what it sends is signed and stored once, what it prints is checked and harmless."""

import json
import os
import signal
import sqlite3
import stat
import subprocess
import threading

from case import Case, main
from programs import clean_environment, program, run
from waiting import TIME_FACTOR, wait_until


class Follower:
    """`loadgen chat --follow`, its lines gathered by a thread."""

    def __init__(self, arguments):
        self.process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, env=clean_environment(TZ="UTC"))
        self.lines, self.notes = [], []
        self.threads = [threading.Thread(target=self._gather, args=pair, daemon=True)
                        for pair in ((self.process.stdout, self.lines), (self.process.stderr, self.notes))]
        for thread in self.threads:
            thread.start()

    @staticmethod
    def _gather(source, lines):
        for line in source:
            lines.append(line.rstrip("\n"))

    def texts(self):
        return [line.split(": ", 1)[1] for line in self.lines]

    def wait_text(self, text):
        wait_until(lambda: text in self.texts(), 30, f"{text!r} to be printed; notes: {self.notes}")

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(20 * TIME_FACTOR)
        for thread in self.threads:
            thread.join(20)
        return code


class Terminal(Case):
    def setUp(self):
        super().setUp()
        self.backend = self.chat_backends(1, wss=True, ws_plain=True)[0]
        self.ca = os.path.join(self.folder, "data", "tls", "tls.crt")

    def arguments(self, name, *more, believe=True):
        return [program("loadgen"), "chat", "--url", f"wss://127.0.0.1:{self.backend.ws_port}/ws", "--username", name,
                "--key", os.path.join(self.folder, name + ".pem"), *(["--ca", self.ca] if believe else []), *more]

    def chat(self, name, *more, believe=True, lines=None, expect=0):
        done = subprocess.run(self.arguments(name, *more, believe=believe), input=lines or "", capture_output=True, text=True,
                              timeout=90 * TIME_FACTOR, env=clean_environment(TZ="UTC"), check=False)
        self.assertEqual(done.returncode, expect, done.stderr)
        return done

    def follow(self, name, *more):
        follower = Follower(self.arguments(name, "--follow", *more))
        self.addCleanup(follower.process.wait, 20)
        self.addCleanup(follower.process.kill)
        return follower

    def feed(self):
        return json.loads(self.backend.fetch("/feed").body)["messages"]

    def test_sends_signed_messages_under_a_lasting_key(self):
        self.chat("Alice", "--send", "from the command line")
        path = os.path.join(self.folder, "Alice.pem")
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        self.chat("Alice", lines="one\ntwo\n\nthree, and no newline")
        rows = self.feed()
        self.assertEqual([row["msg"] for row in rows], ["from the command line", "one", "two", "three, and no newline"])
        self.assertEqual({(row["client-name"], row["source"]) for row in rows}, {("Alice", "wss")})
        # Without TLS, where that is switched on.
        self.chat("Alice", "--url", f"ws://127.0.0.1:{self.backend.port}", "--send", "plain", believe=False)
        # Every PEM reader takes the key, and another key doesn't get the name.
        code, out, err = run(["openssl", "pkey", "-in", path, "-noout", "-text"])
        self.assertEqual((code, "2048 bit" in out), (0, True), err)
        os.rename(path, path + ".old")
        refused = self.chat("Alice", "--send", "not me", expect=1)
        self.assertIn("username_taken", refused.stderr)
        self.assertEqual([row["msg"] for row in self.feed()][4:], ["plain"])

    def test_history_is_printed_with_verdicts_and_escapes(self):
        self.chat("Alice", "--send", "signed")
        self.backend.post({"client-name": "Al\u202eice", "msg": "\x1b]0;x\x07red\n\u009b31m"})
        for number in range(130):
            self.backend.post({"client-name": "Bob", "msg": f"number {number}"})
        lines = self.chat("Reader", "--history", "132").stdout.split("\n")
        self.assertEqual(len(lines), 133, "more than a page, each once")
        self.assertRegex(lines[0], r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ✓ Alice: signed$")
        self.assertRegex(lines[1], r" - Al\\u\{202e\}ice: \\x1b\]0;x\\x07red\\n\\x9b31m$")
        self.assertTrue(lines[131].endswith(" - Bob: number 129"))
        self.assertEqual(self.chat("Reader", "--history", "2").stdout.count("\n"), 2)
        rows = [json.loads(line) for line in self.chat("Reader", "--history", "200", "--json").stdout.splitlines()]
        self.assertEqual([row["sequence"] for row in rows], sorted(row["sequence"] for row in rows))
        self.assertEqual((len(rows), rows[0]["verified"], rows[1]["verified"]), (132, True, None))

    def test_follows_over_a_restart_of_the_backend(self):
        self.chat("Alice", "--send", "before")
        follower = self.follow("Bob", "--history", "1")
        follower.wait_text("before")
        self.chat("Alice", "--send", "live")
        follower.wait_text("live")
        self.backend.kill()
        wait_until(lambda: follower.notes, 30, "the loss to be noted")
        self.backend.start()
        self.backend.post({"client-name": "Carol", "msg": "maybe in the gap"})
        follower.wait_text("maybe in the gap")
        self.chat("Alice", "--send", "after")
        follower.wait_text("after")
        self.assertEqual(follower.stop(), 0)
        self.assertEqual(follower.texts(), ["before", "live", "maybe in the gap", "after"], "each once")
        self.assertIn("✓ Alice: after", follower.lines[-1])

    def test_signatures_that_were_tampered_with_are_told(self):
        self.chat("Alice", lines="one\ntwo\n")
        self.backend.kill()
        database = sqlite3.connect(os.path.join(self.backend.data_dir, "chat.db"), timeout=20)
        with database:  # both have the first one's
            database.execute("UPDATE chat_messages SET signature = "
                             "(SELECT signature FROM chat_messages ORDER BY sequence LIMIT 1)")
        database.close()
        self.backend.start()
        lines = self.chat("Bob", "--history", "2").stdout.splitlines()
        self.assertEqual([line.split(" ", 2)[2] for line in lines], ["✓ Alice: one", "✗ Alice: two"])

    def test_what_is_not_stored_is_not_0(self):
        self.backend.kill()
        failed = self.chat("Alice", "--send", "nobody hears", "--timeout", "1s", expect=1)
        self.assertIn("ECONNREFUSED", failed.stderr)
        self.backend.start()
        stranger = self.chat("Alice", "--send", "to a stranger", believe=False, expect=1)
        self.assertIn("is not believed", stranger.stderr)
        self.chat("Alice", "--send", "to anyone", "--insecure", believe=False)
        self.chat("Alice", lines="fits\n" + "x" * 65537 + "\nfits too\n", expect=1)
        self.assertEqual([row["msg"] for row in self.feed()], ["to anyone", "fits", "fits too"])
        for arguments in (["--send", ""], ["--history", "x"], ["--key", os.path.join(self.folder, "no", "key.pem")]):
            self.chat("Alice", *arguments, expect=2)


if __name__ == "__main__":
    main()
