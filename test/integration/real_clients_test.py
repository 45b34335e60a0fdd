"""curl and Python's http.client drive the balancer, plain and over TLS; the other real clients: `make clients`."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "clients"))

import curl_client  # noqa: E402
import python_client  # noqa: E402
from case import main  # noqa: E402
from scene import Scene  # noqa: E402


class RealClients(unittest.TestCase):
    def drive(self, client):
        scene = Scene()
        try:
            before = scene.counts()
            for base in scene.bases:
                with self.subTest(base=base):
                    client.drive(scene, base)
            scene.settled()
            self.assertEqual(scene.counts(), before, "no error of any kind")
        finally:
            problems = scene.finish()
        self.assertEqual(problems, "")

    def test_curl(self):
        self.drive(curl_client)

    def test_http_client(self):
        self.drive(python_client)


if __name__ == "__main__":
    main()
