"""PostgreSQL away, under load and at the start (B8; case CH-30)."""

import collections
import json
import os
import threading
import time

from case import Case, main
from programs import ChatBackend, post_message
from waiting import TIME_FACTOR, pause, wait_until

OUTAGE = float(os.environ.get("DLB_OUTAGE_SECONDS", "1"))


class Outage(Case):
    def outage(self, immediate, balanced=False):
        backends = self.chat_backends(3, "postgres")
        ports = [self.balancer(*backends).port] * 3 if balanced else [backend.port for backend in backends]
        acknowledged, statuses, problems = {}, collections.Counter(), []
        lock, stop, away = threading.Lock(), threading.Event(), threading.Event()

        def writer(number):
            index = 0
            while not stop.is_set():
                index += 1
                message = {"client-name": "w", "msg": f"{number} {index}", "message-id": f"{number}-{index}"}
                while not stop.is_set():
                    response = post_message(ports[number % 3], message)
                    with lock:
                        statuses[response.status] += 1
                    if response.status in (200, 201):
                        with lock:
                            acknowledged[message["message-id"]] = message["msg"]
                        break
                    if response.status != 503 or not response.header("retry-after"):
                        problems.append(response)
                        return
                    error = json.loads(response.body)["error"]
                    if response.header("x-backend") and error not in ("unavailable", "outcome_unknown"):
                        problems.append(error)
                    pause(0.02)

        def shallow():
            while not stop.is_set():
                response = backends[0].fetch("/healthz")
                if response.status != 200:
                    problems.append(response)
                pause(0.02)

        threads = [threading.Thread(target=self.guarded, args=(problems, writer, number)) for number in range(9)]
        threads.append(threading.Thread(target=self.guarded, args=(problems, shallow)))
        for thread in threads:
            thread.start()
        try:
            wait_until(lambda: len(acknowledged) > 100, 20, "writes")
            self.database.stop(immediate)
            away.set()
            stopped = time.monotonic()
            for backend in backends:
                wait_until(lambda b=backend: b.fetch("/health").status == 503, 5, "/health to say 503")
                response = backend.fetch("/feed")
                self.assertEqual(response.status, 503)
                self.assertTrue(response.header("retry-after"))
                body = json.loads(backend.fetch("/health").body)
                self.assertEqual((body["status"], body["database"]), ("unavailable", "down"))
            before = len(acknowledged)
            wait_until(lambda: time.monotonic() - stopped > OUTAGE and statuses[503] > 20, OUTAGE + 20, "refused writes")
            self.assertEqual(len(acknowledged), before, "acknowledged while the database was away")
            self.database.start()
            back = time.monotonic()
            for backend in backends:
                wait_until(lambda b=backend: b.fetch("/health").status == 200, 3, "recovery")
            wait_until(lambda: len(acknowledged) > before + 50, 3, "writes again")
            self.assertLess(time.monotonic() - back, 4 * TIME_FACTOR)
        finally:
            stop.set()
            for thread in threads:
                thread.join(30)
        self.assertEqual(problems, [])
        bodies = {backend.fetch("/feed").body for backend in backends}
        self.assertEqual(len(bodies), 1, "feeds differ")
        stored = {}
        for message in json.loads(bodies.pop())["messages"]:
            self.assertNotIn(message["message-id"], stored, "doubled")
            stored[message["message-id"]] = message["msg"]
        self.assertEqual({key: stored.get(key) for key in acknowledged}, acknowledged, "lost")

    @staticmethod
    def guarded(problems, work, *arguments):
        try:
            work(*arguments)
        except Exception as error:  # noqa: BLE001
            problems.append(error)

    def test_ch_30_fast_shutdown(self):
        self.outage(False)

    def test_ch_30_immediate_shutdown(self):
        self.outage(True)

    def test_ch_30_through_the_balancer(self):
        self.outage(True, balanced=True)

    def test_start_with_the_database_away(self):
        backends = self.chat_backends(1, "postgres")
        self.database.stop()
        late = self.keep(ChatBackend(self.folder, "late", backends[0].data_dir, self.database, backends[0].key_file)).launch()
        wait_until(lambda: late.fetch("/healthz").status == 200, 10, "the process")
        self.assertEqual(late.fetch("/health").status, 503)
        response = late.post({"client-name": "A", "msg": "x"})
        self.assertEqual(response.status, 503)
        self.assertTrue(response.header("retry-after"))
        self.database.start()
        late.wait_healthy(5)
        self.assertEqual(late.post({"client-name": "A", "msg": "x"}).status, 201)

    def test_ch_31_a_killed_session_is_replaced(self):
        """The sessions of one backend are terminated; writes go on at once."""
        backend = self.chat_backends(1, "postgres")[0]
        for index in range(5):
            self.database.query("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'chat_user' and "
                                "pid <> pg_backend_pid()")
            message = {"client-name": "A", "msg": "x", "message-id": f"m{index}"}
            wait_until(lambda: backend.post(message).status in (200, 201), 3, "a write")
        self.assertEqual(json.loads(backend.fetch("/feed").body)["count"], 5)


if __name__ == "__main__":
    main()
