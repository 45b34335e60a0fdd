"""The load generator's page in headless Chromium, opened from its file: `make clients`, or this file by itself. It has the
figures of the JSON report beside it, complains of nothing, asks nobody for anything, and reads well on a phone and a desktop, in
light and dark."""

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
        drawn = "[...document.querySelectorAll('#time .line, #curve .line')].filter(one => one.getAttribute('d')).length"
        self.assertGreaterEqual(page.run(drawn), 3 + 1 + 1 + 3 + 1 + 1)
        page.call("Input.dispatchMouseEvent", type="mouseMoved", x=600, y=300)
        page.wait("document.getElementById('time-note').textContent.startsWith('0:0')", "the values of a moment")
        self.assertEqual(page.run(REQUESTS), 0)
        self.assertEqual(page.problems, [])

        for width, phone in ((360, True), (768, False), (1600, False)):
            for dark in (False, True):
                with self.subTest(width=width, dark=dark):
                    page = self.browser.open("file://" + path, width=width, height=800, phone=phone, dark=dark)
                    page.wait("document.body.dataset.ready === 'yes'")
                    self.assertEqual(page.run(SIDEWAYS), 0)
                    self.assertEqual(page.run(DIM), [])
                    self.assertEqual(page.problems, [])
                    self.browser.call("Target.closeTarget", targetId=page.target)


if __name__ == "__main__":
    main()
