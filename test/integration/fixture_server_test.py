"""bench/fixture_server, which tests and benches lean on: it does what it is told."""

import contextlib
import json
import os
import re
import socket
import threading
import urllib.error
import urllib.request

from case import Case, main
from programs import PROGRAMS, Program
from waiting import TIME_FACTOR, wait_until


class Fixture(Program):
    def __init__(self, folder, name="fixture", **options):
        super().__init__(folder, name)
        self.spawn([os.path.join(PROGRAMS, "bench", "fixture_server")] +
                   [word for key, value in options.items() for word in (f"--{key.replace('_', '-')}", str(value))])
        self.port = int(wait_until(lambda: re.search(r"listening (\d+)\n", self.log()), 10, "the port")[1])
        self.url = f"http://127.0.0.1:{self.port}"

    def ask(self, path="/", method="GET"):
        request = urllib.request.Request(self.url + path, method=method)
        try:
            with urllib.request.urlopen(request, timeout=20 * TIME_FACTOR) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def change(self, **values):
        query = "&".join(f"{key.replace('_', '-')}={value}" for key, value in values.items())
        return self.ask("/fixture?" + query, "POST")

    def counters(self):
        return json.loads(self.ask("/fixture")[1])


class FixtureServer(Case):
    def fixture(self, **options):
        return self.keep(Fixture(self.folder, **options))

    def test_answers_are_tagged_and_behaviour_changes_while_it_runs(self):
        fixture = self.fixture()
        self.assertEqual(fixture.ask("/anything"), (200, f"{fixture.port}\n"))
        self.assertEqual(fixture.ask("/health")[0], 200)
        self.assertEqual(fixture.change(fail_share=1, fail_status=502, health="down")[0], 200)
        self.assertEqual(fixture.ask()[0], 502)
        self.assertEqual(fixture.ask("/health")[0], 503)
        fixture.change(fail_status=0)
        with self.assertRaises(OSError):
            fixture.ask()
        self.assertEqual(fixture.change(fail_share=2)[0], 400)
        fixture.change(fail_share=0, health="up")
        self.assertEqual(fixture.ask()[0], 200)
        self.assertEqual(fixture.counters()["failed"], 2)

    def test_capacity_bounds_what_is_served_at_a_time(self):
        fixture = self.fixture(capacity=2, service="fixed 1h", queue=3)

        def ask_until_killed():
            with contextlib.suppress(OSError):
                fixture.ask()

        threads = [threading.Thread(target=ask_until_killed) for _ in range(5)]
        for thread in threads:
            thread.start()
        wait_until(lambda: (fixture.counters()["active"], fixture.counters()["waiting"]) == (2, 3), 10, "five requests")
        self.assertEqual(fixture.ask()[0], 503)
        self.assertEqual(fixture.counters()["active_max"], 2)
        fixture.kill()
        for thread in threads:
            thread.join()

    def test_it_is_unhealthy_while_it_starts(self):
        fixture = self.fixture(start_delay="200ms")
        wait_until(lambda: fixture.ask("/health")[0] == 200, 10, "its start")

    def test_tcp_greets_and_echoes(self):
        fixture = self.fixture(mode="tcp")
        with socket.create_connection(("127.0.0.1", fixture.port), timeout=10 * TIME_FACTOR) as client:
            client.sendall(b"x" * 100000)
            client.shutdown(socket.SHUT_WR)
            got = b""
            while chunk := client.recv(65536):
                got += chunk
        self.assertEqual(got, f"{fixture.port}\n".encode() + b"x" * 100000)


if __name__ == "__main__":
    main()
