"""Symptom: while a foreign session held a lock on the table, batches behind one another in the pipeline each waited out
the lock time-out in turn: a post was answered after up to 15 s, long after its statement's 5 s."""

import subprocess
import threading
import time

from case import Case, main
from programs import clean_environment
from waiting import TIME_FACTOR


class PipelinedLockWait(Case):
    def test_each_post_is_answered_within_its_own_time(self):
        backend = self.chat_backends(1, "postgres", db_write_batch_size=1)[0]
        self.assertEqual(backend.post({"client-name": "A", "msg": "before"}).status, 201)
        psql = subprocess.Popen(self.database.psql("-q"), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, env=clean_environment())
        self.addCleanup(psql.wait)
        self.addCleanup(psql.stdin.close)
        psql.stdin.write("begin; lock table chat_messages in share mode;\n\\echo locked\n")
        psql.stdin.flush()
        self.assertEqual(psql.stdout.readline().strip(), "locked")
        answers, lock = [], threading.Lock()

        def post(index):
            started = time.monotonic()
            status = backend.post({"client-name": "A", "msg": "x", "message-id": f"m{index}"}, timeout=30).status
            with lock:
                answers.append((status, time.monotonic() - started))

        self.together(*[lambda n=index: post(n) for index in range(4)])
        self.assertEqual([status for status, _ in answers], [503] * 4)
        self.assertLess(max(took for _, took in answers), 10.5 * TIME_FACTOR, answers)
        psql.stdin.write("rollback;\n\\echo free\n")
        psql.stdin.flush()
        self.assertEqual(psql.stdout.readline().strip(), "free")
        for index in range(4):
            again = self.post_until_taken(backend, {"client-name": "A", "msg": "x", "message-id": f"m{index}"})
            self.assertIn(again, (200, 201))
        self.assertEqual(self.database.query("select count(*), count(distinct message_id) from chat_messages"),
                         [["5", "5"]])

    def post_until_taken(self, backend, message):
        from waiting import wait_until

        return wait_until(lambda: (lambda status: status if status != 503 else None)(backend.post(message).status), 15,
                          "the message to be taken")


if __name__ == "__main__":
    main()
