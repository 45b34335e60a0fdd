"""The page of bench/sweep.sh and the flame graph of bench/profile.sh in headless Chromium, of canned runs: `make clients`, or
this file by itself."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "integration")]

from case import Case, main  # noqa: E402
from chromium import Chromium, find_chromium  # noqa: E402
import bench_profile_test as flame  # noqa: E402
import bench_sweep_test as canned  # noqa: E402
from bench_sweep_test import sweep_page, sweep_plan  # noqa: E402
from dashboard_test import DIM, SIDEWAYS  # noqa: E402

# Texts of a chart that reach out of it.
CUT = """[...document.querySelectorAll('svg[role=img]')].flatMap(svg => {
  const box = svg.getBoundingClientRect();
  return [...svg.querySelectorAll('text')].filter(text => {
    const r = text.getBoundingClientRect();
    return r.left < box.left - 1 || r.right > box.right + 1 || r.bottom > box.bottom + 1 || r.top < box.top - 1;
  }).map(text => text.textContent);
})"""


class SweepPage(Case):
    def setUp(self):
        super().setUp()
        self.assertIsNotNone(find_chromium(), "chromium: apt-get install chromium")

    def page_file(self):
        settings = sweep_plan.settings_of(policies=["score", "adaptive", "weighted_round_robin"])
        order = sweep_plan.order_of(settings, 2, 1)
        records = {(run["id"], 1): canned.record_of(run, state="busy" if run["round"] == 2 else "ok") for run in order}
        plan = {"settings": settings, "order": order, "baseline": "score",
                "config": {"load": ["-users", "9"], "seed": 1, "store": "sqlite", "backends": 3, "memory_limit": "512M"}}
        data = sweep_page.page_data(plan, records, {"score": None, "adaptive": canned.SAME, "weighted_round_robin": canned.WORSE},
                                    canned.report_of)
        path = os.path.join(self.folder, "index.html")
        with open(path, "w", encoding="utf-8") as file:
            file.write(sweep_page.html(data))
        return "file://" + path

    def test_the_page_shows_every_run_and_fits(self):
        browser = Chromium(self.folder)
        self.addCleanup(browser.stop)
        url = self.page_file()
        for look in ({}, {"dark": True}, {"width": 360, "height": 740, "phone": True}):
            page = browser.open(url, **look)
            page.wait("document.querySelectorAll('#figures circle').length > 0", "the charts")
            figures = page.run("document.querySelectorAll('#figures figure').length")
            self.assertEqual(figures, 6)  # without feeds
            self.assertEqual(page.run("document.querySelectorAll('#figures circle').length"), 6 * figures)
            self.assertEqual(page.run("document.querySelectorAll('#figures circle.busy').length"), 3 * figures)
            self.assertEqual(page.run("document.querySelectorAll('#times figure').length"), 3)
            self.assertEqual(page.run("document.querySelectorAll('#times path.line').length"), 3 * 5)
            self.assertIn("message p99 worse", page.run("document.getElementById('summary').textContent"))
            self.assertEqual(page.run("document.querySelectorAll('b').length"), 0, "what is in a note is no markup")
            self.assertEqual(page.run(SIDEWAYS), 0)
            self.assertEqual(page.run(CUT), [])
            self.assertEqual(page.run(DIM), [])
            self.assertEqual(page.problems, [])
        page = browser.open(url)
        chosen = page.run("""(() => { const list = document.querySelector('#times select');
          list.selectedIndex = 1 - list.selectedIndex; list.dispatchEvent(new Event('change'));
          return document.querySelectorAll('#times figure')[0].querySelectorAll('path.line').length })()""")
        self.assertEqual(chosen, 5)

        path = os.path.join(self.folder, "flame.svg")
        with open(path, "w", encoding="utf-8") as file:
            file.write(flame.parts.flame_svg(flame.parts.stacks_of(flame.PERF, "lb"), "lb"))
        page = browser.open("file://" + path)
        self.assertGreater(page.run("document.querySelectorAll('g > rect').length"), 6)
        self.assertEqual(page.problems, [])


if __name__ == "__main__":
    main()
