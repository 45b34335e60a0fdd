"""deploy/rolling.sh (D6): one backend after the other, and how it stops at the first bad sign."""

import os
import threading

from case import Case, main
from ports import free_port
from raw import G
from restartable import RestartableBackends, rolling
from scripted import OK
from traffic import Traffic
from waiting import wait_until


class Rolling(Case):
    def states(self, balancer):
        return {backend["id"]: backend["state"] for backend in balancer.status()["backends"]}

    def scripted_pool(self, *handlers):
        self.pool = [self.scripted(handler) for handler in handlers]
        return self.balancer(*self.pool, admin_port=free_port(), policy="round_robin")

    def restarts(self):
        try:
            with open(os.path.join(self.folder, "restarted"), encoding="ascii") as file:
                return file.read().split()
        except FileNotFoundError:
            return []

    @property
    def noted(self):
        """A restart command that only says for whom it was called."""
        return f"echo $BACKEND >>{self.folder}/restarted"

    def test_every_backend_is_restarted_and_no_request_is_lost(self):
        backends = RestartableBackends(self, 3)
        balancer = self.balancer(*backends.backends, admin_port=free_port(), policy="round_robin")
        before = backends.pids()
        with Traffic(balancer, clients=4) as traffic:
            code, out, err = rolling(balancer, backends.command)
            self.assertEqual((code, err), (0, ""), out)
            traffic.goes_on(30)
        after = backends.pids()
        self.assertEqual([name for name in before if before[name] == after[name]], [])
        self.assertEqual(self.states(balancer), {"sys2": "ready", "sys3": "ready", "sys4": "ready"})
        order = [line.split()[1] for line in out.splitlines() if line.endswith("ready again")]
        self.assertEqual(order, ["sys2:", "sys3:", "sys4:"])

    def test_a_restart_that_fails(self):
        balancer = self.scripted_pool(None, None, None)
        code, _, err = rolling(balancer, f"{self.noted}; [[ $BACKEND != b ]]")
        self.assertEqual(code, 1)
        self.assertIn("b: the restart command failed (exit 1); it stays drained", err)
        self.assertIn("not restarted: d\n", err)
        self.assertEqual(self.restarts(), ["a", "b"])
        self.assertEqual(self.states(balancer), {"a": "ready", "b": "draining", "d": "ready"})
        code, _, err = rolling(balancer, self.noted)
        self.assertEqual(code, 1)
        self.assertIn("b is draining: nothing was begun", err)
        self.assertEqual(self.restarts(), ["a", "b"])

    def test_a_backend_that_does_not_come_back(self):
        balancer = self.scripted_pool(None, None)

        def sick(connection, request):
            connection.reply(500 if "a" in self.restarts() else 200, b"{}")

        self.pool[0].on_probe = sick
        seen = f"curl -fs --noproxy '*' http://127.0.0.1:{balancer.admin_port}/lb/backends/a | grep -q '\"healthy\":false'"
        code, _, err = rolling(balancer, f"{self.noted}; until {seen}; do :; done", "--healthy-within", "500ms")
        self.assertEqual(code, 1)
        self.assertIn("a is not healthy after its restart, and stays drained", err)
        self.assertEqual(self.restarts(), ["a"])
        self.pool[0].on_probe = None
        wait_until(lambda: self.states(balancer) == {"a": "draining", "b": "ready"}, 10, "a to be well, and drained")

    def test_a_request_that_does_not_end(self):
        release = threading.Event()
        self.addCleanup(release.set)

        def handler(connection, request):
            connection.body(request)
            release.wait(60)
            connection.send(OK)

        balancer = self.scripted_pool(handler, handler)
        with balancer.client() as first, balancer.client() as second:
            for client in (first, second):
                client.send(G)
            wait_until(lambda: sum(backend.active for backend in self.pool) == 2, 10, "requests at both")
            code, _, err = rolling(balancer, self.noted, "--drain-within", "300ms")
            self.assertEqual(code, 1)
            self.assertIn("a could not be drained: lb ctl: a is draining with 1 in flight", err)
            self.assertEqual(self.restarts(), [])
            self.assertEqual(self.states(balancer), {"a": "ready", "b": "ready"})
            release.set()
            for client in (first, second):
                self.assertEqual(client.read_response().status, 200)

    def test_usage(self):
        balancer = self.scripted_pool(None, None)
        for arguments in (["z"], ["--drain-within", "1"], ["--fly", "x"]):
            self.assertEqual(rolling(balancer, self.noted, *arguments)[0], 2, arguments)
        self.assertEqual(rolling(balancer, "")[0], 2)
        code, out, _ = rolling(balancer, self.noted, "--dry-run", "b")
        self.assertEqual((code, len(out.splitlines()), self.restarts()), (0, 1, []))
        self.assertEqual(rolling(balancer, self.noted, "b")[0], 0)
        self.assertEqual(self.restarts(), ["b"])
        self.assertEqual(balancer.terminate(), 0)
        self.assertEqual(rolling(balancer, self.noted)[0], 3)


if __name__ == "__main__":
    main()
