"""Headless Chromium, driven through its DevTools protocol over a pair of pipes (no port, no WebSocket): browser contexts,
each with a storage of its own, and pages in them that scripts are evaluated in."""

import base64
import fcntl
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from waiting import TIME_FACTOR, wait_until

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync",
         "--disable-component-update", "--disable-dev-shm-usage", "--disable-extensions", "--remote-debugging-pipe"]
ANSWER_SECONDS = 60


def find_chromium():
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class DevToolsError(Exception):
    pass


class Chromium:
    """One browser process, which believes any certificate unless told not to. Messages are JSON, each ended by a zero byte; a
    thread takes in answers and events."""

    def __init__(self, folder, *flags, believing=True):
        self.log_path = os.path.join(folder, "chromium.log")
        self.folder = folder
        theirs_in, self.to_browser = os.pipe()
        self.from_browser, theirs_out = os.pipe()
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64) for fd in (theirs_in, theirs_out)]

        def place():  # the browser reads descriptor 3 and writes descriptor 4
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        flags = [*flags, *(["--ignore-certificate-errors"] if believing else [])]
        command = [find_chromium(), *FLAGS, *flags, f"--user-data-dir={tempfile.mkdtemp(prefix='chromium-', dir=folder)}",
                   "about:blank"]
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, close_fds=True,
                                            pass_fds=(3, 4), preexec_fn=place, start_new_session=True)
        for fd in (theirs_in, theirs_out, *high):
            os.close(fd)
        self.arrived = threading.Condition()
        self.last_id, self.answers, self.listeners, self.ended = 0, {}, {}, False
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        rest = b""
        while True:
            try:
                data = os.read(self.from_browser, 1 << 20)
            except OSError:
                data = b""
            with self.arrived:
                if not data:
                    self.ended = True
                    self.arrived.notify_all()
                    return
                *whole, rest = (rest + data).split(b"\0")
                for text in whole:
                    message = json.loads(text)
                    if "id" in message:
                        self.answers[message["id"]] = message
                    elif message.get("sessionId") in self.listeners:
                        self.listeners[message["sessionId"]](message["method"], message["params"])
                self.arrived.notify_all()

    def call(self, method, session=None, **params):
        """The result of one DevTools command."""
        with self.arrived:
            self.last_id += 1
            number = self.last_id
            message = {"id": number, "method": method, "params": params}
            if session:
                message["sessionId"] = session
            data = memoryview(json.dumps(message).encode() + b"\0")
            while data:
                data = data[os.write(self.to_browser, data):]
            deadline = time.monotonic() + ANSWER_SECONDS * TIME_FACTOR
            while number not in self.answers:
                if self.ended or not self.arrived.wait(max(0, deadline - time.monotonic())):
                    raise DevToolsError(f"no answer to {method}: {self.log()[-800:]}")
            answer = self.answers.pop(number)
        if "error" in answer:
            raise DevToolsError(f"{method}: {answer['error']}")
        return answer["result"]

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def context(self):
        """A fresh storage, as of another person's browser."""
        return self.call("Target.createBrowserContext")["browserContextId"]

    def open(self, url, context=None, **size):
        return Page(self, url, context or self.context(), **size)

    def stop(self):
        """Its own process group: the browser and its helpers."""
        try:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        except ProcessLookupError:
            self.process.wait()
        os.close(self.to_browser)


class Page:
    """One tab. `problems` gathers what its console calls errors, and exceptions that nobody caught."""

    def __init__(self, browser, url, context, width=1000, height=700, dark=False, phone=False):
        self.browser, self.context, self.problems = browser, context, []
        target = browser.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        self.target = target
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        browser.listeners[self.session] = self._event
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2 if phone else 1,
                  mobile=phone)
        # Also pages that nobody looks at are "focused": timers and focus events as of a page in front.
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)
        self.look(dark)
        self.go(url)

    def _event(self, method, params):
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.problems.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def go(self, url):
        self.call("Page.navigate", url=url)
        wait_until(lambda: self.run("location.href !== 'about:blank' && document.readyState === 'complete'"), 30, url)

    def reload(self):
        self.run("globalThis.before = true")
        self.call("Page.reload")
        wait_until(lambda: self.run("globalThis.before !== true && document.readyState === 'complete'"), 30, "the reload")

    def look(self, dark):
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def run(self, script):
        """The value of an expression, awaited when it is a promise."""
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True)
        if "exceptionDetails" in result:
            raise DevToolsError(result["exceptionDetails"].get("exception", {}).get("description", str(result)))
        return result["result"].get("value")

    def wait(self, script, what=None, timeout=20):
        """Until an expression is true; its value."""
        return wait_until(lambda: self.run(script), timeout, what or script, interval=0.05)

    def type(self, selector, text, enter=False):
        """As keys would: into the focused field."""
        self.run(f"document.querySelector({json.dumps(selector)}).focus()")
        self.call("Input.insertText", text=text)
        if enter:
            key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13}
            self.call("Input.dispatchKeyEvent", type="keyDown", text="\r", **key)
            self.call("Input.dispatchKeyEvent", type="keyUp", **key)

    def click(self, selector):
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def picture(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
