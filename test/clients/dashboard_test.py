"""The dashboard in headless Chromium, before scripted backends: `make clients`, or this file by itself. It is to follow what
happens within two seconds, in light and dark, on a phone and a desktop."""

import contextlib
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from chromium import Chromium, find_chromium  # noqa: E402
from lb_case import LbCase, main  # noqa: E402
from ports import free_port  # noqa: E402
from raw import G, Incomplete  # noqa: E402
from waiting import TIME_FACTOR, wait_until  # noqa: E402

FOLLOWS_WITHIN = 2.0
LIVE = "document.body.dataset.link === 'live' && document.querySelectorAll('#backends > li').length > 0"
BUTTONS = "document.querySelectorAll('#backends button').length"
SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
UNNAMED = """[...document.querySelectorAll('button, input')]
  .filter(one => !one.ariaLabel && !one.labels?.length && !one.textContent.trim()).length"""
# What is too dim: texts with a contrast under 4.5 against what they stand on (opacity aside), as "text: ratio".
DIM = """(() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgb = colour => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, owner = node.parentElement;
    if (!node.textContent.trim() || !owner.checkVisibility() || owner.closest('script, style, noscript')) continue;
    let under = owner, back = [0, 0, 0, 0];
    for (; under && back[3] === 0; under = under.parentElement) back = rgb(getComputedStyle(under).backgroundColor);
    const style = getComputedStyle(owner), text = light(rgb(owner instanceof SVGElement ? style.fill : style.color));
    const [high, low] = [text, light(back)].sort((a, b) => b - a);
    if ((high + .05) / (low + .05) < 4.5) found.push(`${node.textContent.trim()}: ${((high + .05) / (low + .05)).toFixed(2)}`);
  }
  return found;
})()"""


def badge(name):
    return f"document.querySelector('#backends [data-id=\"{name}\"] .badge').textContent"


class Dashboard(LbCase):
    def setUp(self):
        super().setUp()
        self.assertIsNotNone(find_chromium(), "chromium: apt-get install chromium")
        self.browser = Chromium(self.folder)
        self.addCleanup(self.browser.stop)
        self.pages = []

    def open(self, url, **more):
        page = self.browser.open(url, **more)
        self.pages.append(page)
        return page

    def live(self, url, **more):
        page = self.open(url, **more)
        page.wait(LIVE)
        return page

    def load(self, balancer):
        """A few clients, until the test is over; whatever happens to their requests."""
        over = threading.Event()

        def client():
            while not over.is_set():
                with contextlib.suppress(OSError, Incomplete), balancer.client() as connection:
                    for _ in range(20):
                        connection.request(G)
                        over.wait(0.02)

        threads = [threading.Thread(target=client) for _ in range(3)]
        for thread in threads:
            thread.start()

        def stop():
            over.set()
            for thread in threads:
                thread.join()

        self.addCleanup(stop)

    def follows(self, pages, name, words, since):
        """All pages show it, two seconds after the balancer knew at the latest."""
        for page in pages:
            page.wait(f"{badge(name)}.includes({words!r})", f"{name} {words}")
        self.assertLess(time.monotonic() - since, FOLLOWS_WITHIN * TIME_FACTOR, f"{name} {words}")

    def knows(self, balancer, name, *states):
        wait_until(lambda: balancer.backend(name)["state"] in states, 20, f"{name} to be {states}")
        return time.monotonic()

    def tidy(self, allowed=()):
        for page in self.pages:
            self.assertEqual([one for one in page.problems if not any(word in one for word in allowed)], [])

    def test_it_follows(self):
        """A kill, an ejection, a drain and each return, on both listeners at once."""
        backends = [self.scripted(name=name) for name in ("sys2", "sys3", "sys4<b>")]
        balancer = self.balancer(*backends, admin_port=free_port(), policy="round_robin", ejection_time="2s")
        admin = self.live(f"http://127.0.0.1:{balancer.admin_port}/lb/dashboard")
        public = self.live(f"http://127.0.0.1:{balancer.port}/lb/dashboard", dark=True, phone=True, width=360, height=700)
        pages = (admin, public)
        self.assertEqual(public.run(BUTTONS), 0)
        self.assertEqual(admin.run(BUTTONS), 6)
        self.assertEqual(admin.run("document.querySelectorAll('#backends .name')[2].textContent"), "sys4<b>")
        self.load(balancer)
        admin.wait("document.querySelector('[data-id=sys2] .traffic .value').textContent.includes('%')", "a share")

        backends[0].refuse(cut=True)
        self.follows(pages, "sys2", "unhealthy", self.knows(balancer, "sys2", "down"))
        backends[0].accept_again()
        self.follows(pages, "sys2", "healthy", self.knows(balancer, "sys2", "ready"))

        backends[1].handler = lambda connection, request: connection.reply(500)
        self.follows(pages, "sys3", "ejected", self.knows(balancer, "sys3", "ejected"))
        self.assertRegex(admin.run(badge("sys3")), r"ejected, [12] s left|probation")
        backends[1].behave()
        self.follows(pages, "sys3", "healthy", self.knows(balancer, "sys3", "ready"))

        button = "[data-id=\"sys2\"] .toggle"
        admin.run(f"document.querySelector('{button}').focus()")
        admin.click(button)
        self.follows(pages, "sys2", "draining", self.knows(balancer, "sys2", "draining"))
        admin.wait("document.getElementById('action-state').textContent.includes('done')")
        admin.wait(f"document.querySelector('{button}').textContent === 'Ready'")
        admin.click(button)
        self.follows(pages, "sys2", "healthy", self.knows(balancer, "sys2", "ready"))
        admin.run("document.querySelector('[data-id=sys2] .weight input').value = 7")
        admin.click("[data-id=sys2] .weight button")
        wait_until(lambda: balancer.backend("sys2")["weight"] == 7, 10, "the weight")
        told = admin.run("[...document.querySelectorAll('#events li')].map(one => one.textContent).join('\\n')")
        for words in ("sys2healthy → unhealthy", "sys3healthy → ejected", "draining → healthy"):
            self.assertIn(words, told)
        for page in pages:
            self.assertEqual(page.run(SIDEWAYS), 0)
        self.tidy()

    def test_it_reads_well(self):
        """Light and dark, phone and desktop, with every kind of state on the page: nothing sideways, nothing too dim."""
        backends = [self.scripted(name=name) for name in ("a-backend-with-a-rather-long-name-indeed", "down", "drained", "stale")]
        balancer = self.balancer(*backends, admin_port=free_port())
        backends[1].health = (500, b"")
        backends[3].stats = {}
        self.knows(balancer, "down", "down")
        self.assertEqual(balancer.admin("/lb/backends/drained/drain").status, 200)
        base = f"http://127.0.0.1:{balancer.admin_port}/lb/dashboard"
        for width, phone in ((360, True), (768, False), (1280, False)):
            for dark in (False, True):
                with self.subTest(width=width, dark=dark):
                    page = self.live(base, width=width, height=800, phone=phone, dark=dark)
                    self.assertEqual(page.run(SIDEWAYS), 0)
                    self.assertEqual(page.run(DIM), [])
                    self.assertEqual(page.run(UNNAMED), 0, "controls without a name")
                    self.browser.call("Target.closeTarget", targetId=page.target)
        self.tidy()
        self.assertEqual(balancer.admin("/lb/backends/drained/ready").status, 200)

    def test_lost_and_found(self):
        """It says since when it is not connected, and why; and goes on with the next balancer."""
        balancer = self.balancer(self.scripted(name="a"), admin_port=free_port())
        page = self.live(f"http://127.0.0.1:{balancer.port}/lb/dashboard")
        self.assertEqual(balancer.terminate(), 0)
        page.wait("document.body.dataset.link === 'lost'")
        page.wait("document.getElementById('link').textContent.includes('not connected since')")
        page.wait("!document.getElementById('lost').hidden")
        page.wait("document.getElementById('lost-why').textContent.includes('not answer')")
        balancer.start()
        self.note_files(balancer)
        page.wait(LIVE)
        page.wait("document.getElementById('lost').hidden")
        told = page.run("document.getElementById('events').textContent")
        for words in ("not connected", "connected again", "another process serves"):
            self.assertIn(words, told)
        self.tidy(("net::ERR_", "503"))

    def test_the_token_is_asked_for(self):
        """And kept in the page alone: gone with a reload."""
        path = os.path.join(self.folder, "token")
        with open(path, "w", encoding="ascii") as file:
            file.write("s3cret-Token\n")
        balancer = self.balancer(self.scripted(name="a"), self.scripted(name="b"), admin_port=free_port(), admin_token_file=path)
        page = self.open(f"http://127.0.0.1:{balancer.admin_port}/lb/dashboard")
        page.wait("!document.getElementById('token-form').hidden")
        page.type("#token", "wrong", enter=True)
        page.wait("document.getElementById('token-error').textContent.includes('not accepted')")
        page.type("#token", "s3cret-Token", enter=True)
        page.wait(LIVE)
        page.click("[data-id=a] .toggle")
        self.knows(balancer, "a", "draining")
        page.wait("document.querySelector('[data-id=a] .toggle').textContent === 'Ready'")
        page.click("[data-id=a] .toggle")
        self.knows(balancer, "a", "ready")
        self.assertEqual(page.run("localStorage.length + sessionStorage.length + document.cookie.length"), 0)
        page.reload()
        page.wait("!document.getElementById('token-form').hidden")
        self.tidy(("401",))


if __name__ == "__main__":
    main()
