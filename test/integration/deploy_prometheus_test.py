"""deploy/prometheus: every metric, label and value that an alert rule names is one that a balancer has; and the counters
that exist for the rules: a drain that cut requests, a backend that flaps."""

import os
import re
import shutil
import threading

from case import Case, main
from ports import free_port
from programs import ROOT, run
from waiting import wait_until

RULES = os.path.join(ROOT, "deploy", "prometheus", "dlb.rules.yml")
SAMPLE = re.compile(r'^(dlb_\w+)(?:\{(.*)\})? \S+$', re.M)
LABEL = re.compile(r'(\w+)(=~|=)"([^"]*)"')


def rules():
    """(alert, its lines) of each rule: the file is written so that no YAML reader is needed for that."""
    with open(RULES, encoding="utf-8") as file:
        parts = re.split(r"^ +- alert: (\w+)$", file.read(), flags=re.M)[1:]
    return list(zip(parts[::2], parts[1::2]))


def expression(text):
    single = re.search(r"^        expr: (?!\|)(.+)$", text, re.M)
    if single:
        return single.group(1)
    block = re.search(r"^        expr: \|\n((?: {10}.*\n)+)", text, re.M)
    return block.group(1)


class Alerts(Case):
    def prometheus(self, balancer):
        return balancer.fetch("/lb/metrics?format=prometheus").body.decode()

    def test_every_metric_of_a_rule_exists(self):
        balancer = self.balancer(self.scripted(), self.scripted())
        samples = {}
        for name, labels in SAMPLE.findall(self.prometheus(balancer)):
            samples.setdefault(name, []).append(dict((key, value) for key, _, value in LABEL.findall(labels)))
        named = set()
        for alert, text in rules():
            expr = expression(text)
            self.assertEqual(expr.count("("), expr.count(")"), alert)
            for field in ("labels: {severity: page}", "labels: {severity: ticket}"):
                if field in text:
                    break
            else:
                self.fail(f"{alert} has no severity")
            self.assertRegex(text, r'\n +summary: ".+"', alert)
            self.assertTrue(re.search(r"\bdlb_\w+", expr), alert)
            for name, selector in re.findall(r"\b(dlb_\w+)(?:\{([^}]*)\})?", expr):
                named.add(name)
                self.assertIn(name, samples, alert)
                for label, operator, value in LABEL.findall(selector):
                    for one in value.split("|") if operator == "=~" else [value]:
                        self.assertTrue(any(labels.get(label) == one for labels in samples[name]), (alert, name, label, one))
            for label in re.findall(r"\$labels\.(\w+)", text):
                known = {key for name in re.findall(r"\bdlb_\w+", expr) for labels in samples[name] for key in labels}
                self.assertIn(label, known | {"instance"}, alert)
        self.assertEqual(len({alert for alert, _ in rules()}), len(rules()))
        self.assertGreater(len(named), 10)

    def test_when_the_rules_speak(self):
        """By Prometheus' own tool, where there is one."""
        promtool = shutil.which("promtool")
        if promtool:
            code, out, err = run([promtool, "test", "rules", RULES.replace(".yml", "_test.yml")])
            self.assertEqual(code, 0, out + err)

    def test_a_drain_that_cut_requests_is_counted(self):
        broken = threading.Event()
        self.addCleanup(broken.set)

        def handler(connection, request):
            connection.body(request)
            if request.method == "POST":
                broken.wait(60)
                connection.reset()
            else:
                connection.send("HTTP/1.1 200 OK|Content-Length: 2||ok")

        a = self.scripted(handler, "a")
        balancer = self.balancer(a, admin_port=free_port())
        with balancer.client() as client:
            client.send("POST /x HTTP/1.1|Host: a|Content-Length: 0||")
            wait_until(lambda: a.active == 1, 10, "the request")
            self.assertEqual(balancer.admin("/lb/backends/a/drain").status, 200)
            self.assertIn('dlb_backend_drain_cuts_total{backend="a"} 0\n', self.prometheus(balancer))
            broken.set()
            self.assertEqual(client.read_response().status, 502)
        self.assertIn('dlb_backend_drain_cuts_total{backend="a"} 1\n', self.prometheus(balancer))
        self.assertEqual(balancer.admin("/lb/backends/a/ready").status, 200)
        with balancer.client() as client:  # the same without a drain is no cut drain
            self.assertEqual(client.request("POST /x HTTP/1.1|Host: a|Content-Length: 0||").status, 502)
        self.assertIn('dlb_backend_drain_cuts_total{backend="a"} 1\n', self.prometheus(balancer))

    def test_a_backend_that_flaps_is_counted(self):
        a, b = self.scripted(name="a"), self.scripted(name="b")
        balancer = self.balancer(a, b)

        def changes(name):
            return int(re.search(rf'dlb_backend_health_changes_total{{backend="{name}"}} (\d+)', self.prometheus(balancer))[1])

        before = changes("a"), changes("b")
        for health in ((500, b""), (200, b"{}"), (500, b""), (200, b"{}")):
            a.health = health
            balancer.wait_state("a", health[0] == 200)
        self.assertEqual((changes("a") - before[0], changes("b") - before[1]), (4, 0))


if __name__ == "__main__":
    main()
