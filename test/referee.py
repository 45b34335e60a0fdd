#!/usr/bin/env python3
"""The same bytes at dlb's balancer, nginx and HAProxy, before the same scripted backend: a table of what each answers and
what reaches the backend. Run by hand, to find differences and to judge them by RFC 9110 and 9112.

  python3 test/referee.py [--only WORD] [--all]      --all: also cases on which the three agree

A cell is: statuses of the answers (`!`: the body broke off, `timeout`: nothing within 3 s), then ` close` when the connection
was closed behind them, then what the backend got: its number of complete requests."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
for folder in ("support", "integration"):
    sys.path.insert(0, os.path.join(HERE, folder))

from lb_framing_test import CHUNKS, REQUESTS  # noqa: E402
from lb_hostile_test import RESPONSES  # noqa: E402
from ports import free_port  # noqa: E402
from programs import Balancer  # noqa: E402
from raw import Incomplete, RawClient, wire  # noqa: E402
from scripted import OK, ScriptedBackend  # noqa: E402
from waiting import wait_until  # noqa: E402

NGINX = """daemon off; master_process off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/nginx.log;
events {{ worker_connections 256; }}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  upstream app {{ server 127.0.0.1:{backend} max_fails=0; keepalive 8; }}
  server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://app; proxy_http_version 1.1;
    proxy_set_header Connection ""; proxy_request_buffering off; proxy_buffering off; proxy_read_timeout 2s; }} }}
}}
"""
HAPROXY = """global
  maxconn 256
defaults
  mode http
  timeout client 5s
  timeout server 2s
  timeout connect 1s
  option http-keep-alive
frontend in
  bind 127.0.0.1:{port}
  default_backend app
backend app
  server a 127.0.0.1:{backend} pool-max-conn 8
"""


class Peer:
    def __init__(self, name, folder, backend, template, command):
        self.name, self.port = name, free_port()
        path = os.path.join(folder, name + ".conf")
        with open(path, "w", encoding="ascii") as file:
            file.write(template.format(folder=folder, port=self.port, backend=backend.port))
        self.process = subprocess.Popen([*command, path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)

    def stop(self):
        self.process.terminate()
        self.process.wait(10)


class Dlb:
    def __init__(self, folder, backend):
        self.name = "dlb"
        self.balancer = Balancer(folder, [backend], backend_timeout="2s", failure_limit=1000, health_interval="1m",
                                 stats_interval="1m")
        self.balancer.start()
        self.port = self.balancer.port

    def stop(self):
        self.balancer.terminate()


def ask(port, data, methods):
    """What comes back, as text."""
    out = []
    try:
        with RawClient(port, timeout=3.0) as client:
            client.send(data)
            for method in methods:
                response = client.read_response(method)
                out.append(f"{response.status}{'' if response.complete else '!'}")
                if not response.complete:
                    break
            if client.closed_within(0.2):
                out.append("reset" if client.was_reset else "close")
    except Incomplete:
        out.append("reset" if client.was_reset else "close")
    except TimeoutError:
        out.append("timeout")
    except (OSError, AssertionError, ValueError) as error:
        out.append(type(error).__name__)
    return " ".join(out)


def cases(word):
    behind = wire("GET /behind HTTP/1.1|Host: a||")
    for name, text, wanted in REQUESTS:
        yield f"request: {name}", wire(text) + behind, ["POST", "GET"], None, sorted(wanted)
    for name, text in CHUNKS:
        yield f"chunks: {name}", wire("POST /c HTTP/1.1|Host: a|Transfer-Encoding: chunked||" + text) + behind, ["POST", "GET"], \
            None, [400]
    for name, method, text, close, expected, _ in RESPONSES:
        yield f"response: {name}", wire(f"{method} /bad HTTP/1.1|Host: a||"), [method], (text, close), \
            [] if expected is None else [f"{expected[0]}{'' if expected[2] else '!'}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cases whose name has this word")
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    script = {}

    def handler(connection, request):
        if script.get("answer") and request.target == "/bad":
            text, close = script["answer"]
            connection.send(text)
            if close:
                connection.close()
            return
        connection.body(request)
        script["got"].append(request.line)
        connection.send(OK)

    with tempfile.TemporaryDirectory(prefix="dlb-referee-") as folder:
        os.chmod(folder, 0o755)
        peers = []
        backend = ScriptedBackend(handler, "a")
        try:
            peers.append(Dlb(folder, backend))
            for name, template, command in (("nginx", NGINX, ["nginx", "-c"]), ("haproxy", HAPROXY, ["haproxy", "-db", "-f"])):
                path = shutil.which(command[0], path=os.environ.get("PATH", "") + ":/usr/sbin")
                if path is None:
                    print(f"{name} is not installed", file=sys.stderr)
                    continue
                peers.append(Peer(name, folder, backend, template, [path, *command[1:]]))
                script["got"] = []
                wait_until(lambda: ask(peers[-1].port, wire("GET / HTTP/1.1|Host: a||"), ["GET"]).startswith("200"), 10, name)
            print(f"{'case':48} {'wanted':16} " + " ".join(f"{peer.name:24}" for peer in peers))
            for name, data, methods, answer, wanted in cases(arguments.only):
                if arguments.only not in name:
                    continue
                cells = []
                for peer in peers:
                    script["answer"], script["got"] = answer, []
                    cells.append(f"{ask(peer.port, data, methods)} → {len(script['got'])}")
                if arguments.all or len(set(cells)) > 1:
                    print(f"{name:48} {'/'.join(map(str, wanted)):16} " + " ".join(f"{cell:24}" for cell in cells))
        finally:
            for peer in peers:
                peer.stop()
            backend.stop()


if __name__ == "__main__":
    main()
