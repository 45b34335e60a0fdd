"""What every client is let loose on: a balancer, plain and TLS, in front of one Site; and how a command is judged."""

import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from ports import free_port  # noqa: E402
from programs import Balancer  # noqa: E402
from site_backend import Site  # noqa: E402
from tls import make_certificate  # noqa: E402
from waiting import TIME_FACTOR, wait_until  # noqa: E402


class Missing(Exception):
    """The client is not installed: what to install."""


def need(command, package):
    if shutil.which(command) is None:
        raise Missing(f"{command}: apt-get install {package}")
    return command


class Scene:
    def __init__(self, **options):
        self.folder = tempfile.mkdtemp(prefix="dlb-clients-")
        self.site = Site()
        self.certificate, key = make_certificate(self.folder)
        self.tls_port = free_port()
        self.balancer = Balancer(self.folder, [self.site], tls_listen=f"127.0.0.1:{self.tls_port}", tls_cert=self.certificate,
                                 tls_key=key, **options)
        self.balancer.start()
        self.bases = (f"http://127.0.0.1:{self.balancer.port}", f"https://127.0.0.1:{self.tls_port}")

    def finish(self):
        """What went wrong on the balancer's side or the site's, as text; stops both."""
        problems = [problem for problem in (self.balancer.finish(),) if problem]
        self.site.stop()
        problems += [f"the site: {error!r}" for error in self.site.errors]
        shutil.rmtree(self.folder, ignore_errors=True)
        return "\n".join(problems)

    def counts(self):
        """Everything that tells of an error, by name."""
        metrics = self.balancer.metrics()
        found = {"requests.failed": metrics["requests"]["failed"]}
        for part in ("own_responses", "backend_errors", "rejections"):
            found.update({f"{part}.{name}": count for name, count in metrics[part].items()})
        return found

    def settled(self):
        """Waits until nothing is in progress any more."""
        self.balancer.wait_quiet(10)
        wait_until(lambda: self.balancer.metrics()["connections"]["client"]["active"] <= 1, 10, "the clients to be done")


def run(arguments, timeout=60, check=True, environment=None):
    """Output of a command that has to end well."""
    done = subprocess.run(arguments, capture_output=True, timeout=timeout * TIME_FACTOR, check=False,
                          env=dict(os.environ, **(environment or {})))
    text = done.stdout.decode("utf-8", "replace") + done.stderr.decode("utf-8", "replace")
    if check:
        assert done.returncode == 0, f"{arguments[0]} ended with {done.returncode}: {text[-800:]}"
    return text
