"""The base of all integration tests: a folder of its own, programs that are ended and judged at the end, logs shown
only when something failed."""

import json
import os
import shutil
import sys
import tempfile
import threading
import unittest

from programs import Balancer, ChatBackend, PostgresServer
from scripted import ScriptedBackend


class Case(unittest.TestCase):
    maxDiff = 2000

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="dlb-test-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.programs = []
        self.scripted_backends = []
        self.addCleanup(self._finish)

    def _finish(self):
        failed = self._failed_so_far()
        problems = [problem for problem in (part.finish() for part in reversed(self.programs)) if problem]
        for backend in self.scripted_backends:
            backend.stop()
            problems += [f"scripted backend {backend.name}: {error!r}" for error in backend.errors]
        if failed:
            for part in self.programs:
                print(part.log_tail(), file=sys.stderr)
        if problems:
            self.fail("\n".join(problems))

    def _failed_so_far(self):
        outcome = self._outcome
        errors = getattr(outcome, "errors", None)
        if errors is None:  # Python 3.11 and later keep them in the result
            result = outcome.result
            return any(test is self for test, _ in result.failures + result.errors)
        return any(error for _, error in errors)

    def keep(self, part):
        self.programs.append(part)
        return part

    def scripted(self, handler=None, name=None, respond=None):
        backend = ScriptedBackend(handler, name or "abdefghijk"[len(self.scripted_backends)], respond)
        self.scripted_backends.append(backend)
        return backend

    def balancer(self, *backends, healthy=None, start=True, **options):
        balancer = self.keep(Balancer(self.folder, list(backends), **options))
        return balancer.start(healthy) if start else balancer

    def postgres(self):
        server = self.keep(PostgresServer.shared())
        server.fresh_database()
        return server

    def chat_backends(self, count, store="sqlite", start=True, **options):
        """`count` backends over one store, which is self.database for PostgreSQL."""
        data = os.path.join(self.folder, "data")
        os.makedirs(data, 0o700, exist_ok=True)
        self.database = self.postgres() if store == "postgres" else None
        key = os.path.join(data, "encryption.key")
        if store == "postgres":
            write_key(key)
        backends = [self.keep(ChatBackend(self.folder, f"sys{index + 2}", data, self.database, key, **options))
                    for index in range(count)]
        if start:
            for backend in backends:
                backend.launch()
            for backend in backends:
                backend.wait_healthy()
        return backends

    def together(self, *actions):
        """Runs the callables at the same time; returns their results in order, raises the first error."""
        results, errors = [None] * len(actions), []
        barrier = threading.Barrier(len(actions))

        def work(index):
            try:
                barrier.wait()
                results[index] = actions[index]()
            except Exception as error:  # noqa: BLE001
                errors.append(error)

        threads = [threading.Thread(target=work, args=(index,), daemon=True) for index in range(len(actions))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
            self.assertFalse(thread.is_alive(), "a client hangs")
        if errors:
            raise errors[0]
        return results


def write_key(path):
    import base64

    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(base64.urlsafe_b64encode(os.urandom(32)) + b"\n")


def main():
    """Runs the calling file's tests; the tally goes to DLB_TALLY for the runner."""
    program = unittest.main(module="__main__", exit=False, verbosity=2, warnings="ignore")
    result = program.result
    bad = len({test.id() for test, _ in result.failures + result.errors} | {t.id() for t in result.unexpectedSuccesses})
    tally = {"passed": max(0, result.testsRun - bad - len(result.skipped)), "failed": bad, "skipped": len(result.skipped)}
    if os.environ.get("DLB_TALLY"):
        with open(os.environ["DLB_TALLY"], "w", encoding="ascii") as file:
            json.dump(tally, file)
    sys.exit(1 if bad else 0)
