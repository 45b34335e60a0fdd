"""Headless Chromium: a page with pictures, fetches, a stream, an upload, ranges, revalidation and a WebSocket, which posts
what came of it."""

import os
import shutil
import signal
import subprocess
import tempfile

from scene import Missing
from site_backend import CALLS, PICTURES
from waiting import TIME_FACTOR

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--ignore-certificate-errors"]


def drive(scene, base):
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        raise Missing("chromium: apt-get install chromium")
    site, before = scene.site, scene.site.revalidated
    site.reported.clear()
    profile = tempfile.mkdtemp(prefix="chromium-", dir=scene.folder)
    with open(os.path.join(scene.folder, "chromium.log"), "wb") as log:
        browser = subprocess.Popen([program, *FLAGS, f"--user-data-dir={profile}", "--remote-debugging-port=0", base + "/page"],
                                   stdout=log, stderr=log, start_new_session=True)
    try:
        if not site.reported.wait(60 * TIME_FACTOR):
            with open(log.name, encoding="utf-8", errors="replace") as log:
                raise AssertionError("the page never told its report: " + log.read()[-800:])
    finally:
        os.killpg(browser.pid, signal.SIGTERM)  # its own group: the browser and its helpers
        try:
            browser.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(browser.pid, signal.SIGKILL)
            browser.wait()
    report = site.reports[-1]
    assert report == {"pictures": PICTURES, "calls": CALLS, "errors": []}, report
    # Nothing is cached of a site whose certificate is not trusted.
    assert site.revalidated > before or base.startswith("https"), "nothing was revalidated"
    return f"{PICTURES} pictures, {CALLS} fetches and more"
