"""deploy/make-keys.sh (D5): what it makes is taken by the programs; rotation loses no row; nothing secret is shown."""

import glob
import json
import os
import shutil
import ssl
import stat
import subprocess
import time

from lb_case import LbCase, main
from ports import free_port
from programs import ROOT, clean_environment
from tls import TlsClient
from waiting import wait_until

SCRIPT = os.path.join(ROOT, "deploy", "make-keys.sh")


class MakeKeys(LbCase):
    def run_script(self, *arguments, code=0, path=None):
        environment = clean_environment()
        environment["PATH"] = ":".join(filter(None, (path, environment["PATH"])))
        done = subprocess.run([SCRIPT, *arguments], env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def mode(self, path):
        return stat.S_IMODE(os.stat(path).st_mode)

    def keys(self, path):
        with open(path, encoding="ascii") as file:
            return [line for line in file.read().split("\n") if line and not line.startswith("#")]

    def test_a_key_is_rotated(self):
        path = os.path.join(self.folder, "keys of the chat")
        said = self.run_script("encryption", path)
        first, = self.keys(path)
        self.assertRegex(first, r"^[A-Za-z0-9_-]{43}=$")
        self.assertEqual(self.mode(path), 0o600)
        self.assertIn("there already", self.run_script("encryption", path, code=1))
        self.assertEqual(self.keys(path), [first])
        backend, = self.chat_backends(1, message_encryption_key_file=path)

        self.assertEqual(backend.post({"client-name": "me", "msg": "under the first"}).status, 201)
        said += self.run_script("encryption", path, "--rotate", "add")
        self.assertEqual(self.keys(path)[0], first, "known, not used")
        second = self.keys(path)[1]
        self.assertIn("--rotate use", self.run_script("encryption", path, "--rotate", "add", code=1))
        said += self.run_script("encryption", path, "--rotate", "use")
        self.assertEqual(self.keys(path), [second, first])
        said += self.run_script("encryption", path, "--rotate", "now")
        third = self.keys(path)[0]
        self.assertEqual(self.keys(path)[1:], [second, first])
        self.assertEqual(backend.terminate(), 0)
        backend.start()
        self.assertEqual(backend.post({"client-name": "me", "msg": "under the third"}).status, 201)
        rows = json.loads(backend.fetch("/feed").body)["messages"]
        self.assertEqual([row["msg"] for row in rows], ["under the first", "under the third"])
        figures = json.loads(backend.fetch("/metrics?format=json").body)["encryption"]
        self.assertEqual(figures["undecryptable"], 0)
        said += self.run_script("encryption", path, "--force")
        self.assertEqual(self.mode(path), 0o600)
        kept, = glob.glob(path + ".old-*")
        self.assertEqual((self.keys(kept), self.mode(kept)), ([third, second, first], 0o600))
        for key in (first, second, third, *self.keys(path)):
            self.assertNotIn(key[:12], said)
        self.assertEqual([name for name in os.listdir(self.folder) if ".new" in name], [])

    def test_certificates(self):
        """The balancer serves it, a client verifies it by the authority and by its name; renewed, a reload takes it."""
        folder = os.path.join(self.folder, "tls")
        self.run_script("certificate", folder, "--hosts", "localhost,$(id)", code=1)
        said = self.run_script("certificate", folder, "--hosts", "localhost,127.0.0.1,::1")
        self.assertNotIn("PRIVATE", said)
        certificate, key, authority = (os.path.join(folder, name) for name in ("server.crt", "server.key", "ca.crt"))
        self.assertEqual([self.mode(path) for path in (certificate, key, authority, authority[:-3] + "key")],
                         [0o644, 0o600, 0o644, 0o600])
        port = free_port()
        balancer = self.balancer(self.scripted(name="a"), tls_listen=f"127.0.0.1:{port}", tls_cert=certificate, tls_key=key)
        context = ssl.create_default_context(cafile=authority)

        def served():
            with TlsClient(port, context) as client:
                self.assertEqual(client.request("GET / HTTP/1.1|Host: localhost||").status, 200)
                return client.sock.getpeercert()

        before = served()
        self.assertEqual(sorted(before["subjectAltName"]),
                         [("DNS", "localhost"), ("IP Address", "0:0:0:0:0:0:0:1"), ("IP Address", "127.0.0.1")])
        days = (ssl.cert_time_to_seconds(before["notAfter"]) - time.time()) / 86400
        self.assertTrue(390 < days <= 397, days)
        with open(key, "rb") as file:
            private = file.read()
        self.assertIn("there already", self.run_script("certificate", folder, "--hosts", "localhost", code=1))
        self.run_script("certificate", folder, "--renew", "--days", "20")
        balancer.reload()
        wait_until(lambda: served()["serialNumber"] != before["serialNumber"], 10, "the new certificate")
        self.assertEqual(served()["subjectAltName"], before["subjectAltName"])
        with open(key, "rb") as file:
            self.assertEqual(file.read(), private, "for the same key")
        self.assertRegex(self.run_script("certificate", folder, "--check", code=1), "good until .*\n.*--renew")

    def test_what_is_there_survives_a_full_disk_and_hosts_that_are_none(self):
        folder = os.path.join(self.folder, "tls")
        self.assertIn("neither", self.run_script("certificate", folder, "--hosts", "300.1.1.1", code=1))
        self.run_script("certificate", folder, "--hosts", "localhost")

        def files():
            return {name: open_bytes(os.path.join(folder, name)) for name in sorted(os.listdir(folder))}

        before = files()
        programs = os.path.join(self.folder, "programs")
        os.mkdir(programs)
        fake = os.path.join(programs, "openssl")
        for command, does in (("genpkey", ': >"${@: -1}"'), ("x509", "exit 1")):  # on a full disk genpkey exits with 0
            with open(fake, "w", encoding="ascii") as file:
                file.write(f'#!/bin/bash\nif [[ $1 == {command} ]]; then {does}; else exec {shutil.which("openssl")} "$@"; fi\n')
            os.chmod(fake, 0o755)
            self.run_script("certificate", folder, "--hosts", "localhost", "--force", code=1, path=programs)
            self.assertEqual(files(), before)

    def test_a_link_to_a_key_file_stays_one(self):
        path, link = os.path.join(self.folder, "key"), os.path.join(self.folder, "link")
        self.run_script("encryption", path)
        os.symlink(path, link)
        self.run_script("encryption", link, "--rotate", "now")
        self.assertEqual((os.path.islink(link), len(self.keys(path))), (True, 2))


def open_bytes(path):
    with open(path, "rb") as file:
        return file.read()


if __name__ == "__main__":
    main()
