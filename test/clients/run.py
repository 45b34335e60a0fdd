#!/usr/bin/env python3
"""Real clients drive the balancer, plain and over TLS; each has to end without an error, its own or the balancer's.

  test/clients/run.py [--only NAME]… [--seconds N]      `make clients`

Prints a table. Ends with 1 when a client failed or is not installed (which it says; `deploy/setup.sh clients` installs all)."""

import argparse
import os
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import browser  # noqa: E402
import curl_client  # noqa: E402
import load_tools  # noqa: E402
import python_client  # noqa: E402
from programs import program  # noqa: E402
from scene import Missing, Scene, need, run  # noqa: E402

NODE = {"NODE_PATH": os.pathsep.join([os.environ.get("NODE_PATH", ""), "/usr/share/nodejs"])}


def need_module(name):
    try:
        run([need("node", "nodejs"), "-e", f"require('{name}')"], environment=NODE)
    except AssertionError:
        raise Missing(f"the npm package {name}: apt-get install node-{name}") from None


def node(scene, base):
    need_module("undici")
    return run(["node", f"{HERE}/node_http.mjs", base, scene.certificate], environment=NODE).strip().split("\n")[-1]


def websocket(scene, base):
    """Client and server are npm's ws; it brings its own balancer, and takes Upgrade and wss-listen in turn."""
    need_module("ws")
    text = run(["node", f"{HERE}/websocket.mjs", program("lb")], timeout=120, environment=NODE)
    return "; ".join(line for line in text.split("\n") if "conversations" in line).replace("127.0.0.1", "")


def chat_page(_, __):
    """People in Chromium on the backends' chat page; it brings its own backends."""
    need("chromium", "chromium")
    run([sys.executable, f"{HERE}/chat_page_test.py"], timeout=600)
    return "join, send, history, reload, restart, saved key, by HTTP, off this host, by wss-listen"


def dashboard(_, __):
    """The balancer's dashboard in Chromium; it brings its own balancer and backends."""
    need("chromium", "chromium")
    run([sys.executable, f"{HERE}/dashboard_test.py"], timeout=300)
    return "a kill, an ejection, a drain and their ends; light, dark, phone, desktop; token; lost and found"


def sweep_page(_, __):
    """The page of bench/sweep.sh and the flame graph of bench/profile.sh in Chromium, of canned runs."""
    need("chromium", "chromium")
    run([sys.executable, f"{HERE}/sweep_page_test.py"], timeout=300)
    return "every run in its chart; light, dark, phone"


def load_report(_, __):
    """The load generator's page in Chromium; it brings its own balancer and backends."""
    need("chromium", "chromium")
    run([sys.executable, f"{HERE}/load_report_test.py"], timeout=300)
    return "the figures of its JSON, a moment's values; light, dark, phone, desktop"


def websocket_backend(scene, base):
    """npm's ws at the backend's own server; nothing of the scene is used."""
    need_module("ws")
    text = run(["node", f"{HERE}/websocket_backend.mjs", program("backend")], timeout=120, environment=NODE)
    return "; ".join(line for line in text.split("\n") if "conversations" in line).replace("127.0.0.1", "")


def chat_by(test):
    """Someone else's WebSocket client takes part in the chat; it brings its own backend and balancer."""
    run([sys.executable, f"{HERE}/chat_clients_test.py", test], timeout=300)
    return "register, signed send, receive, history, close: at a backend, by upgrades plain and TLS, by wss-listen"


def chat_ws(_, __):
    need_module("ws")
    return chat_by("ChatClients.test_npm_ws")


def chat_websockets(_, __):
    try:
        run(["/usr/bin/python3", "-c", "import websockets"])
    except AssertionError:
        raise Missing("python3-websockets: apt-get install python3-websockets") from None
    return chat_by("ChatClients.test_python3_websockets")


CLIENTS = [("curl", curl_client.drive, 2), ("http.client", python_client.drive, 2), ("wrk", load_tools.wrk, 2),
           ("h2load --h1", load_tools.h2load, 2), ("ab -k", load_tools.ab, 2), ("hey", load_tools.hey, 2),
           ("node http, undici", node, 2), ("chromium", browser.drive, 2), ("npm ws", websocket, 1),
           ("npm ws, backend", websocket_backend, 1), ("npm ws, chat", chat_ws, 1),
           ("websockets, chat", chat_websockets, 1), ("chat page", chat_page, 1), ("dashboard", dashboard, 1),
           ("sweep page", sweep_page, 1), ("load report", load_report, 1)]


def one(name, drive, base_index, seconds):
    """(whether it went well, what it says)."""
    scene = Scene()
    scene.seconds = seconds
    try:
        before = scene.counts()
        said = drive(scene, scene.bases[base_index])
        scene.settled()
        after = scene.counts()
        wrong = {key: after[key] - before[key] for key in after if after[key] != before[key]}
        if wrong:
            return False, f"the balancer counted {wrong}"
        problems = scene.finish()
        scene = None
        return not problems, problems or said
    except Missing as missing:
        return False, f"missing: {missing}"
    except Exception:  # noqa: BLE001 - shown, and counted
        return False, traceback.format_exc(limit=-2)
    finally:
        if scene is not None:
            scene.finish()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], help="a part of the client's name")
    parser.add_argument("--seconds", type=int, default=2, help="of each run of wrk")
    arguments = parser.parse_args()
    failed = 0
    print(f"{'client':<20} {'over':<6} {'result':<7} {'s':>5}  what")
    for name, drive, bases in CLIENTS:
        if arguments.only and not any(part in name for part in arguments.only):
            continue
        for index in range(bases):
            started = time.monotonic()
            good, said = one(name, drive, index, arguments.seconds)
            failed += not good
            over = ("http", "https")[index] if bases == 2 else "both"
            print(f"{name:<20} {over:<6} {'ok' if good else 'FAILED':<7} {time.monotonic() - started:>5.1f}  {said}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
