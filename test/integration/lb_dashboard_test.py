"""/lb/dashboard (L22) as a client without a browser sees it: what each listener serves and takes; test/clients has Chromium."""

import base64
import hashlib
import os
import re

from lb_case import LbCase, main
from ports import free_port


class Dashboard(LbCase):
    def policy(self, response):
        return dict(part.strip().split(" ", 1) for part in response.header("content-security-policy").split(";"))

    def page(self, response, actions):
        """One self-contained document that may run its own style and script, and nothing else."""
        self.assertEqual((response.status, response.header("content-type")), (200, "text/html; charset=utf-8"))
        self.assertEqual(response.header("cache-control"), "no-store")
        self.assertEqual(response.header("x-frame-options"), "DENY")
        text = response.body.decode()
        self.assertIn(f'<html lang="en" data-actions="{actions}">', text)
        policy = self.policy(response)
        self.assertEqual((policy["default-src"], policy["connect-src"]), ("'none'", "'self'"))
        for name in ("script", "style"):
            content = re.search(f"<{name}>(.*?)</{name}>", text, re.DOTALL).group(1)
            digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
            self.assertEqual(policy[name + "-src"], f"'sha256-{digest}'")
            self.assertNotIn("innerHTML", content)
        self.assertEqual(re.findall(r'(?:src|href)="(?!data:|#)', text), [], "an outside asset")
        return text

    def test_each_listener_has_its_own(self):
        balancer = self.balancer(self.scripted(name="a"), admin_port=free_port())
        self.page(balancer.fetch("/lb/dashboard"), "none")
        self.page(balancer.admin("/lb/dashboard", "GET"), "open")
        self.assertEqual(balancer.admin("/lb/dashboard", "POST").status, 405)
        # Nothing can be changed from the public listener, whatever is sent there.
        for target in ("/lb/backends/a/drain", "/lb/backends/a/weight?value=0", "/lb/reload", "/lb/dashboard", "/lb/events"):
            for method in ("POST", "PUT", "DELETE"):
                self.assertEqual(balancer.fetch(target, method).status, 405, (method, target))
        self.assertEqual(balancer.fetch("/lb/backends/a/drain").status, 404)
        backend = balancer.backend("a")
        self.assertEqual((backend["state"], backend["weight"]), ("ready", 1))
        self.assertEqual(balancer.metrics()["config"]["reloads"]["ok"], 0)
        balancer.configure(balancer.backends, public_status=False)
        self.assertEqual(balancer.admin("/lb/reload").status, 200)
        self.assertEqual(balancer.fetch("/lb/dashboard").status, 404)
        self.page(balancer.admin("/lb/dashboard", "GET"), "open")
        balancer.configure(balancer.backends)
        self.assertEqual(balancer.admin("/lb/reload").status, 200)

    def test_behind_a_token(self):
        """The page asks for it, so it comes without; all that it shows does not. Another site's page gets neither."""
        path = os.path.join(self.folder, "token")
        with open(path, "w", encoding="ascii") as file:
            file.write("s3cret-Token\n")
        balancer = self.balancer(self.scripted(name="a"), admin_port=free_port(), admin_token_file=path)
        text = self.page(balancer.admin("/lb/dashboard", "GET"), "token")
        self.assertNotIn("s3cret", text)
        self.assertEqual(balancer.admin("/lb/events", "GET").status, 401)
        self.assertEqual(balancer.admin("/lb/dashboard", "POST").status, 401)
        self.assertEqual(balancer.admin("/lb/dashboard", "GET", headers=(("Origin", "http://evil.example"),)).status, 403)
        self.page(balancer.fetch("/lb/dashboard"), "none")


if __name__ == "__main__":
    main()
