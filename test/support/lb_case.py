"""The base of tests before a balancer. What holds after every case is checked at the end of each test, for each balancer
that is still running: all gauges are 0, a fresh request gets 200, the descriptors are back."""

import os

from case import Case, main  # noqa: F401 - main is for the files that import this
from programs import Balancer
from scripted import ScriptedBackend, answer_ok
from waiting import wait_until

# Probes, statistics polls and the connection that asks.
TRANSIENT_FILES = 4


def gauges(metrics):
    """All that counts something that is there now, by name. The asking connection itself is left out."""
    client, upstream = metrics["connections"]["client"], metrics["connections"]["upstream"]
    found = {f"client.{name}": client[name] for name in ("new", "reading", "idle", "tunnel")}
    found["client.active"] = client["active"] - 1
    found.update({f"upstream.{name}": upstream[name] for name in ("connecting", "busy", "feed_busy")})
    found["in_progress"] = metrics["requests"]["in_progress"]
    found["waiting"] = metrics["queue"]["waiting"]
    found["admission"] = metrics["admission"]["in_flight"]
    for backend in metrics["backends"]:
        for name, value in (("in_flight", backend["in_flight"]), *backend["connections"].items()):
            if name in ("in_flight", "busy", "feed_busy", "tunnels"):
                found[f"{backend['id']}.{name}"] = value
    return found


def sockets(balancer):
    """Its descriptors but for pipes, of which it keeps some for large bodies."""
    folder, count = f"/proc/{balancer.pid}/fd", 0
    for name in os.listdir(folder):
        try:
            count += not os.readlink(f"{folder}/{name}").startswith("pipe:")
        except OSError:
            pass  # closed meanwhile
    return count


class LbCase(Case):
    def balancer(self, *backends, **options):
        balancer = super().balancer(*backends, **options)
        if balancer.alive():
            self.note_files(balancer)
        return balancer

    def note_files(self, balancer):
        balancer.files_at_start = min(sockets(balancer) for _ in range(3))

    def _finish(self):
        try:
            if not self._failed_so_far():
                for part in self.programs:
                    if isinstance(part, Balancer) and part.alive() and hasattr(part, "files_at_start"):
                        self.assert_given_back(part)
        finally:
            super()._finish()

    def assert_given_back(self, balancer):
        if balancer.fetch("/lb/health").body.find(b"draining") >= 0:
            return
        wait_until(lambda: not self.still_taken(balancer), 5, f"the gauges of {balancer.name} to be 0")
        scripted = [isinstance(backend, ScriptedBackend) for backend in balancer.backends]
        if scripted and all(scripted):
            for backend in balancer.backends:
                backend.behave()
            wait_until(lambda: balancer.fetch("/", timeout=2.0).status == 200, 5, f"a fresh request through {balancer.name}")

        def files_are_back():
            idle = balancer.metrics()["connections"]["upstream"]["idle"]
            return sockets(balancer) - idle <= balancer.files_at_start + TRANSIENT_FILES

        wait_until(files_are_back, 5, f"the descriptors of {balancer.name}")

    def still_taken(self, balancer):
        """The gauges that are not 0; a wait for none shows them when it fails."""
        taken = {name: value for name, value in gauges(balancer.metrics()).items() if value != 0}
        assert not taken, taken
        return taken
