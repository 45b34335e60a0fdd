"""The load generator's page in headless Chromium, opened from its file: `make clients`, or this file by itself. It has the
figures of the JSON report beside it, those of the chat too, complains of nothing, asks nobody for anything, and reads well on a
phone and a desktop, in light and dark."""

import copy
import glob
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from chromium import Chromium, find_chromium  # noqa: E402
from dashboard_test import DIM, SIDEWAYS  # noqa: E402
from lb_case import LbCase, main  # noqa: E402
from programs import program, run  # noqa: E402

FAILING_SHARE = 7  # each seventh message of one backend
REQUESTS = "performance.getEntriesByType('resource').length"


SHOWN = """[...document.querySelectorAll('main figcaption h2')].filter(one => one.checkVisibility())
  .map(one => one.firstChild.textContent.trim())"""
FACTS = """Object.fromEntries([...document.querySelectorAll('#chat-facts div')]
  .map(one => [...one.children].map(part => part.textContent)))"""
BAD = """[...document.querySelectorAll('#chat-faults td[data-kind=bad], #chat-groups td[data-kind=bad]')]
  .map(one => one.textContent)"""


def drawn(*charts):
    """How many lines are in them."""
    lines = ", ".join(f"#{chart} .line" for chart in charts)
    return f"[...document.querySelectorAll('{lines}')].filter(one => one.getAttribute('d')).length"


def text_of(name):
    return f"document.getElementById('{name}').textContent"


def cells(table):
    """A table as lists of texts."""
    return f"""[...document.querySelectorAll('#{table} tbody tr')].map(row => [...row.children].map(cell => cell.textContent))"""


class LoadReport(LbCase):
    def setUp(self):
        super().setUp()
        self.assertIsNotNone(find_chromium(), "chromium: apt-get install chromium")
        self.browser = Chromium(self.folder)
        self.addCleanup(self.browser.stop)

    def load(self, url, *arguments):
        """Runs the generator; its report and the path of its page."""
        folder = os.path.join(self.folder, "results")
        run([program("loadgen"), "-url", url, "-out-dir", folder, "-experiment", "page", *arguments])
        (path,) = glob.glob(os.path.join(folder, "page-*.json"))
        with open(path, encoding="utf-8") as file:
            return json.load(file), path.replace(".json", "-report.html")

    def test_it_shows_what_was_measured(self):
        backends = [self.scripted(name=name) for name in ("sys2", "sys3", "sys4</script><b>")]
        seen = []

        def sometimes(connection, request):
            seen.append(request)
            connection.reply(503 if len(seen) % FAILING_SHARE == 0 else 201)

        backends[1].handler = sometimes
        balancer = self.balancer(*backends, policy="round_robin")
        report, path = self.load(f"http://127.0.0.1:{balancer.port}", "-users", "5", "-duration", "2500ms",
                                 "-interval-min", "10ms", "-metrics-interval", "200ms", "-fail", "errors<50%, p99(post)<1us")
        with open(path, encoding="utf-8") as file:
            source = file.read()
        self.assertEqual(source.count("</script>"), 2)
        buckets = report["operations"]["buckets"]
        self.assertGreater(buckets["5xx"], 0)

        page = self.browser.open("file://" + path, width=1200, height=900)
        page.wait("document.body.dataset.ready === 'yes'")
        tiles = page.run("document.getElementById('tiles').textContent")
        self.assertIn(f"{buckets['ok']:,}", tiles)
        self.assertEqual(page.run("document.getElementById('badges').textContent"), "FAILED")
        self.assertIn("p99(post)", page.run("document.getElementById('reasons').textContent"))
        shares = {row[0]: row[1] for row in page.run(cells("shares"))}
        self.assertEqual(shares, {one["id"]: f"{one['responses']:,}" for one in report["backends"]})
        self.assertIn("sys4</script><b>", shares)
        self.assertIn(["5xx", f"{buckets['5xx']:,}"], [row[:2] for row in page.run(cells("errors"))])
        self.assertEqual([row[2] for row in page.run(cells("thresholds"))], ["held", "not held"])
        self.assertEqual([row[0].split()[0] for row in page.run(cells("systems"))], ["Sys1", "Sys2", "Sys3", "Sys4"])
        names = page.run("[...document.querySelectorAll('#time .name')].map(one => one.firstChild.textContent)")
        self.assertEqual(names[:4], ["Response time", "Operations a second", "Errors a second", "Share per backend"])
        self.assertIn("CPU", names)
        self.assertGreaterEqual(page.run(drawn("time", "curve")), 3 + 1 + 1 + 3 + 1 + 1)
        page.call("Input.dispatchMouseEvent", type="mouseMoved", x=600, y=300)
        page.wait("document.getElementById('time-note').textContent.startsWith('0:0')", "the values of a moment")
        self.assertEqual(page.run(REQUESTS), 0)
        self.assertEqual(page.problems, [])

        self.reads_well(path, (360, 768, 1600))

    def reads_well(self, path, widths):
        for width in widths:
            for dark in (False, True):
                with self.subTest(width=width, dark=dark):
                    page = self.browser.open("file://" + path, width=width, height=800, phone=width < 400, dark=dark)
                    page.wait("document.body.dataset.ready === 'yes'")
                    self.assertEqual(page.run(SIDEWAYS), 0)
                    self.assertEqual(page.run(DIM), [])
                    self.assertEqual(page.problems, [])
                    self.browser.call("Target.closeTarget", targetId=page.target)

    def opened(self, path):
        page = self.browser.open("file://" + path, width=1200, height=900)
        page.wait("document.body.dataset.ready === 'yes'")
        self.assertEqual(page.problems, [])
        return page

    def with_report(self, path, report):
        """The page at `path` as if the run had ended so; the path of the copy."""
        with open(path, encoding="utf-8") as file:
            source = file.read()
        head, rest = source.split('id="data">', 1)
        data, tail = rest.split("</script>", 1)
        text = json.dumps({**json.loads(data), "report": report}).replace("<", "\\u003c")
        other = os.path.join(self.folder, "other.html")
        with open(other, "w", encoding="utf-8") as file:
            file.write(f'{head}id="data">{text}</script>{tail}')
        return other

    def test_it_shows_the_chat(self):
        (backend,) = self.chat_backends(1, ws_plain=True, ws_message_rate=1000)
        chats = f"ws://127.0.0.1:{backend.port}/ws"
        report, path = self.load(f"http://127.0.0.1:{backend.port}", "-profile", "chat", "-wss-url", f"{chats},{chats}?second",
                                 "-users", "8", "-publishers", "2", "-rate", "100", "-requests", "120", "-verify-feed",
                                 "-reconnect-percent", "50", "-lb-url", "none")
        chat = report["chat"]
        self.assertTrue(chat["passed"], chat)
        page = self.opened(path)
        tiles = page.run(text_of("tiles"))
        self.assertIn("each once, in order", tiles)
        self.assertIn(f"100 % of {chat['expected']:,}", tiles)
        self.assertEqual(page.run(text_of("chat-note")), "8 subscribers, 2 of them publish 100 a second")
        self.assertEqual(page.run("document.querySelector('#chat-verdict .badge').dataset.kind"), "good")
        self.assertEqual({row[1] for row in page.run(cells("chat-faults"))}, {"0"})
        self.assertEqual(page.run("document.querySelectorAll('#chat [data-kind=bad]').length"), 0)
        times = {row[0]: row[1:] for row in page.run(cells("chat-times"))}
        self.assertEqual(times["fan-out, from the intended time"][0], f"{chat['fanout_ms']['count']:,}")
        self.assertEqual(times["joining, before the run"][0], "8")
        self.assertEqual([row[:4] for row in page.run(cells("chat-groups"))],
                         [[one["url"], "4", f"{one['expected']:,}", f"{one['delivered']:,}"] for one in chat["groups"]])
        self.assertEqual(page.run(FACTS)["sessions resumed"], str(chat["resumed"]))
        self.assertGreaterEqual(page.run(drawn("chat-curve")), 3)
        self.assertIn("Chat by url", page.run(SHOWN))
        self.assertNotIn("Share per backend", page.run(SHOWN))
        self.assertNotIn("Systems", page.run(SHOWN))
        self.assertEqual(page.run(REQUESTS), 0)

        wrong = copy.deepcopy(report)
        wrong["chat"].update(passed=False, missed=3, examples=[f"missed {number}<b>" for number in range(7)])
        wrong["chat"]["groups"][1].update(missed=3)
        wrong_path = self.with_report(path, wrong)
        page = self.opened(wrong_path)
        self.assertEqual(page.run(text_of("chat-verdict")), "FAILED")
        self.assertEqual(page.run(BAD), ["3", "3"])
        self.assertIn("missed 0<b>", page.run(text_of("chat-examples")))
        self.reads_well(wrong_path, (360, 1200))

        # A run by HTTP has none of it.
        del wrong["chat"]
        wrong["config"]["profile"] = ""
        page = self.opened(self.with_report(path, wrong))
        self.assertFalse([name for name in page.run(SHOWN) if name.startswith("Chat")])
        self.assertIn("Share per backend", page.run(SHOWN))


if __name__ == "__main__":
    main()
