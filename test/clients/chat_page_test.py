"""The chat page in headless Chromium, against real backends over one store: `make clients`, or this file by itself."""

import contextlib
import json
import os
import sqlite3
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from case import Case, main  # noqa: E402
from chromium import Chromium, find_chromium  # noqa: E402
from ports import free_port  # noqa: E402
from programs import clean_environment, program  # noqa: E402
from waiting import wait_until  # noqa: E402

READY = "document.getElementById('state').dataset.kind === 'ok' && !document.getElementById('chat').hidden"
WELCOME = "!document.getElementById('welcome').hidden"
SHOWN = "[...document.querySelectorAll('#log .message')]"
FINGERPRINT = "(document.getElementById('open-settings').click(), document.getElementById('fingerprint').textContent)"
PENDING = "document.querySelectorAll('#outbox li').length"


class ChatPage(Case):
    def setUp(self):
        super().setUp()
        self.assertIsNotNone(find_chromium(), "chromium: apt-get install chromium")
        self.pages = []

    def browser(self, *flags, **more):
        browser = Chromium(self.folder, *flags, **more)
        self.addCleanup(browser.stop)
        return browser

    def open(self, browser, url, **more):
        page = browser.open(url, **more)
        self.pages.append(page)
        return page

    def join(self, page, name):
        page.wait(WELCOME)
        page.run("document.getElementById('name').value = ''")
        page.type("#name", name, enter=True)
        page.wait(READY, f"{name} to be in", timeout=40)

    def say(self, page, text):
        page.type("#text", text, enter=True)

    def shown(self, page, text, verdict=None, times=1, timeout=40):
        """Until a message is there so many times, with that verdict on its signature."""
        condition = f"m.querySelector('.what').textContent === {text!r}"
        if verdict:
            condition += f" && m.dataset.verdict === {verdict!r}"
        page.wait(f"{SHOWN}.filter(m => {condition}).length === {times}", f"{text!r}, {verdict}", timeout)

    def stored(self, backend, text):
        return sum(row["msg"] == text for row in json.loads(backend.fetch("/feed").body)["messages"])

    def no_problems(self):
        """Connections that could not be made are the story's; what else the console complains of is not."""
        problems = [problem for page in self.pages for problem in page.problems
                    if not any(word in problem for word in ("WebSocket connection", "net::ERR_", "503"))]
        self.assertEqual(problems, [])

    def test_two_people_on_two_backends(self):
        one, two = self.chat_backends(2, wss=True)
        for number in range(120):
            one.post({"client-name": "Old", "msg": f"old {number}"})
        browser = self.browser()
        # One by TLS at the ws-port, one by plain HTTP on this host, which learns the ws-port from /info.
        alice = self.open(browser, f"https://127.0.0.1:{one.ws_port}/")
        self.join(alice, "Alice")
        bob = self.open(browser, two.url + "/", dark=True, phone=True, width=390, height=760)
        bob.wait(WELCOME)
        bob.type("#name", "Alice", enter=True)
        bob.wait("document.getElementById('join-error').textContent.includes('another key')")
        self.join(bob, "Bob")

        self.say(alice, "hello <b>Bob</b>")
        self.shown(bob, "hello <b>Bob</b>", "signed")
        self.shown(alice, "hello <b>Bob</b>", "signed")
        self.say(bob, "hi Alice")
        self.shown(alice, "hi Alice", "signed")
        one.post({"client-name": "Alice", "msg": "in her name"})
        for page in (alice, bob):
            self.shown(page, "in her name", "unsigned")
        alice.wait("document.querySelectorAll('#people-side li').length === 2")
        self.assertEqual(bob.run(f"{SHOWN}.filter(m => m.matches('.own')).length"), 1, "only what Bob has signed is his")

        # History upward, by pages, each message once and in order.
        self.assertLess(alice.run(f"{SHOWN}.length"), 100)
        alice.wait(f"(document.getElementById('scroller').scrollTop = 0, {SHOWN}.length === 123)", "all the history")
        sequences = alice.run(f"{SHOWN}.map(m => Number(m.dataset.sequence))")
        self.assertEqual(sequences, sorted(set(sequences)))

        # The key, the name and the history outlive a reload.
        fingerprint = alice.run(FINGERPRINT)
        alice.reload()
        alice.wait(READY)
        self.shown(alice, "hi Alice", "signed")
        self.assertEqual(alice.run(FINGERPRINT), fingerprint)
        alice.run("document.getElementById('settings').close()")
        self.say(alice, "still me")
        self.shown(bob, "still me", "signed")
        self.no_problems()

    def test_nothing_is_lost_or_doubled_over_a_restart(self):
        one, two = self.chat_backends(2, wss=True)
        browser = self.browser()
        alice = self.open(browser, f"https://127.0.0.1:{one.ws_port}/")
        bob = self.open(browser, f"https://127.0.0.1:{two.ws_port}/")
        self.join(alice, "Alice")
        self.join(bob, "Bob")
        self.say(alice, "before")
        self.shown(bob, "before", "signed")
        one.kill()
        alice.wait("document.getElementById('state').dataset.kind === 'off'")
        for text in ("first while away", "second while away"):
            self.say(alice, text)
        alice.wait(f"{PENDING} === 2")
        self.say(bob, "in the gap")
        self.shown(bob, "in the gap", "signed")
        one.start()
        alice.wait(READY, timeout=60)
        alice.wait(f"{PENDING} === 0", "all to be delivered", timeout=60)
        for page in (alice, bob):
            for text in ("before", "first while away", "second while away", "in the gap"):
                self.shown(page, text, "signed")
        for text in ("first while away", "second while away"):
            self.assertEqual(self.stored(two, text), 1)

        # Written while away, and the page is loaded anew before it is back: it is kept by the browser.
        one.kill()
        alice.wait("document.getElementById('state').dataset.kind === 'off'")
        self.say(alice, "kept by the browser")
        alice.wait(f"{PENDING} === 1")
        one.start()
        alice.reload()
        alice.wait(READY, timeout=60)
        self.shown(bob, "kept by the browser", "signed")
        alice.wait(f"{PENDING} === 0")
        self.assertEqual(self.stored(two, "kept by the browser"), 1)
        self.no_problems()

    def test_a_saved_key_goes_on_elsewhere(self):
        backend, = self.chat_backends(1, wss=True)
        passed_through = free_port()
        self.balancer(backend, wss_listen=f"127.0.0.1:{passed_through}", wss_backends=[f"127.0.0.1:{backend.ws_port}"])
        browser = self.browser()
        alice = self.open(browser, f"https://127.0.0.1:{passed_through}/")  # page and chat through the balancer's wss-listen
        self.join(alice, "Alice")
        browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=self.folder, browserContextId=alice.context)
        alice.click("#export-key")
        path = os.path.join(self.folder, "dlb-Alice.pem")
        wait_until(lambda: os.path.exists(path) and os.path.getsize(path) > 0, 20, "the saved key")
        os.chmod(path, 0o600)
        other = self.open(browser, f"http://127.0.0.1:{backend.port}/")
        other.wait(WELCOME)
        node = other.call("Runtime.evaluate", expression="document.getElementById('key-file')")["result"]["objectId"]
        other.call("DOM.setFileInputFiles", files=[path], objectId=node)
        other.wait(READY, "the key to open the chat, with its name")
        self.say(other, "Alice elsewhere")
        self.shown(alice, "Alice elsewhere", "signed")
        done = subprocess.run([program("loadgen"), "chat", "--url", f"wss://127.0.0.1:{backend.ws_port}", "--insecure",
                               "--username", "Alice", "--key", path, "--send", "Alice on a terminal"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, env=clean_environment(),
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.shown(alice, "Alice on a terminal", "signed")
        self.no_problems()

    def test_through_the_balancer(self):
        """The page that came by plain HTTP through the balancer chats by its wss-listen, on the host that it came from."""
        passed_through = free_port()
        one, two = self.chat_backends(2, wss=True, public_wss_url=f"wss://localhost:{passed_through}/ws")
        balancer = self.balancer(one, two, wss_listen=f"127.0.0.1:{passed_through}",
                                 wss_backends=[f"127.0.0.1:{backend.ws_port}" for backend in (one, two)])
        browser = self.browser("--host-resolver-rules=MAP chat.test 127.0.0.1")
        alice = self.open(browser, f"http://127.0.0.1:{balancer.port}/")
        bob = self.open(browser, f"https://127.0.0.1:{passed_through}/")
        for page, name in ((alice, "Alice"), (bob, "Bob")):
            self.join(page, name)
        self.say(alice, "hello Bob")
        self.shown(bob, "hello Bob", "signed")
        self.say(bob, "hi Alice")
        self.shown(alice, "hi Alice", "signed")
        self.assertGreaterEqual(balancer.metrics()["connections"]["client"]["tunnel"], 2)
        alice.reload()
        alice.wait(READY)
        for text in ("hello Bob", "hi Alice"):
            self.shown(alice, text, "signed")
        elsewhere = self.open(browser, f"http://chat.test:{balancer.port}/")
        elsewhere.wait("!document.getElementById('notice').hidden")
        self.assertEqual(elsewhere.run("document.getElementById('notice-link').href"), f"https://chat.test:{passed_through}/")

        def sessions():
            return sum(json.loads(backend.fetch("/metrics?format=json").body)["ws"]["sessions"] for backend in (one, two))

        # Who leaves the page is not online any more, though the browser keeps it; and is back with it.
        alice.run("location.href = 'about:blank'")
        wait_until(lambda: sessions() == 1, 20, "Alice to have left")
        self.say(bob, "where are you?")
        self.shown(bob, "where are you?", "signed")
        alice.run("history.back()")
        alice.wait(READY)
        self.shown(alice, "where are you?", "signed")
        for page in (alice, bob):
            browser.call("Target.closeTarget", targetId=page.target)
        wait_until(lambda: sessions() == 0, 20, "both to have left")
        self.no_problems()

    def test_tampered_signatures_and_an_emptied_table(self):
        backend, = self.chat_backends(1, wss=True)
        page = self.open(self.browser(), f"https://127.0.0.1:{backend.ws_port}/")
        self.join(page, "Alice")
        for text in ("one", "two"):
            self.say(page, text)
            self.shown(page, text, "signed")
        backend.kill()
        path = f"{backend.data_dir}/chat.db"
        with contextlib.closing(sqlite3.connect(path, timeout=20)) as database, database:  # both have the first one's
            database.execute("UPDATE chat_messages SET signature = "
                             "(SELECT signature FROM chat_messages ORDER BY sequence LIMIT 1)")
        backend.start()
        page.reload()
        page.wait(READY, timeout=60)
        self.shown(page, "one", "signed")
        self.shown(page, "two", "bad")
        with contextlib.closing(sqlite3.connect(path, timeout=20)) as database, database:
            database.execute("DELETE FROM chat_messages")
            database.execute("DELETE FROM sqlite_sequence WHERE name = 'chat_messages'")
        page.wait(f"{SHOWN}.length === 0 && !document.getElementById('empty').hidden", "the reset", timeout=40)
        self.say(page, "anew")
        self.shown(page, "anew", "signed")
        self.no_problems()

    def test_without_websocket_it_posts_and_reads_by_http(self):
        backend, = self.chat_backends(1)
        page = self.open(self.browser(), backend.url + "/")
        self.join(page, "Carol")
        self.say(page, "by HTTP")
        self.shown(page, "by HTTP", "unsigned")
        backend.post({"client-name": "Dave", "msg": "also"})
        self.shown(page, "also", "unsigned")
        page.reload()
        page.wait(READY)
        self.shown(page, "by HTTP", "unsigned")
        self.no_problems()

    def test_off_this_host_plain_http_points_to_tls(self):
        backend, = self.chat_backends(1, wss=True)
        browser = self.browser("--host-resolver-rules=MAP chat.test 127.0.0.1")
        page = self.open(browser, f"http://chat.test:{backend.port}/")
        page.wait("!document.getElementById('notice').hidden")
        link = page.run("document.getElementById('notice-link').href")
        self.assertEqual(link, f"https://chat.test:{backend.ws_port}/")
        self.assertEqual(page.run(f"[{WELCOME}, {READY}]"), [False, False])
        page.go(link)
        self.join(page, "Erin")
        self.say(page, "by TLS")
        self.shown(page, "by TLS", "signed")
        self.no_problems()

    def test_a_certificate_that_is_not_believed_has_a_way_out(self):
        backend, = self.chat_backends(1, wss=True)
        page = self.open(self.browser(believing=False), backend.url + "/")
        page.wait(WELCOME)
        page.type("#name", "Frank", enter=True)
        page.wait("!document.getElementById('notice').hidden", timeout=60)
        self.assertEqual(page.run("document.getElementById('notice-link').href"), f"https://127.0.0.1:{backend.ws_port}/")
        page.click("#notice-action")
        page.wait(READY)
        self.say(page, "unsigned, then")
        self.shown(page, "unsigned, then", "unsigned")
        self.no_problems()


if __name__ == "__main__":
    main()
