"""deploy/tmux.sh (D2): a session a system with log and state, here and by ssh, on a tmux server of its own."""

import os
import stat
import subprocess

from case import Case, main
from ports import free_port
from programs import PROGRAMS, ROOT, clean_environment
from waiting import wait_until

SCRIPT = os.path.join(ROOT, "deploy", "tmux.sh")


class Sessions(Case):
    """Folders have names that a shell would trip over."""

    def setUp(self):
        super().setUp()
        backend = self.scripted(name="sys2")
        self.lb = self.balancer(backend, admin_port=free_port())
        self.system = os.path.join(self.folder, "it's a $HOME \"dir\"")
        os.mkdir(self.system)
        os.symlink(self.lb.config_path, os.path.join(self.system, "lb.toml"))
        os.symlink(self.lb.log_path, os.path.join(self.system, "lb.log"))
        self.write("sys2.toml", f"backend-id = \"sys2\"\nhttp-port = {backend.port}\n")
        self.write("sys2.log", "level=info msg=\"a line of the backend\"\n")
        self.write("settings", f"PORT_BASE=1\nBACKENDS=1\nSTORE=sqlite\nPROGRAMS={PROGRAMS}\n")
        self.environment = clean_environment(TMUX_TMPDIR=self.folder)
        self.addCleanup(self.tmux, "kill-server")

    def write(self, name, text):
        with open(os.path.join(self.system, name), "w", encoding="utf-8") as file:
            file.write(text)

    def tmux(self, *arguments):
        done = subprocess.run(["tmux", "-L", "dlb", *arguments], env=self.environment, capture_output=True, text=True,
                              timeout=30, check=False)
        return done.stdout

    def script(self, *arguments, code=0):
        done = subprocess.run([SCRIPT, *arguments], env=self.environment, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def shows(self, session, pane, *words):
        """Until that pane has all the words on its screen."""
        def there():
            screen = self.tmux("capture-pane", "-p", "-J", "-t", f"={session}:.{pane}")
            assert all(word in screen for word in words), screen
            return True
        wait_until(there, 20, f"{words} in {session}, pane {pane}")

    def both_systems_show(self):
        self.shows("dlb-sys1", 0, 'msg="balancer started"')
        self.shows("dlb-sys1", 1, "BACKEND", "sys2", "ready")
        self.shows("dlb-sys2", 0, "a line of the backend")
        self.shows("dlb-sys2", 1, "health", '"status":"ok"', "backend-id sys2")

    def sessions(self):
        return self.tmux("list-sessions", "-F", "#{session_name}").split()

    def test_of_a_system_here(self):
        self.assertIn("no system", self.script("up", "--dir", self.folder, code=1))
        self.assertIn("deploy/tmux.sh up", self.script("attach", code=1))
        self.assertEqual(self.script("down"), "")
        out = self.script("up", "--dir", self.system)
        self.assertEqual(self.sessions(), ["dlb-sys1", "dlb-sys2"], out)
        self.both_systems_show()
        self.tmux("kill-session", "-t", "=dlb-sys2")
        self.tmux("new-session", "-d", "-s", "mine", "cat")
        self.assertIn("dlb-sys1 is there already", self.script("up", "--dir", self.system))
        self.assertEqual(self.sessions(), ["dlb-sys1", "dlb-sys2", "mine"])
        self.script("down")
        self.assertEqual(self.sessions(), ["mine"])
        self.assertTrue(self.lb.alive())

    def test_by_ssh(self):
        """An ssh that runs here what it is told shows that the words arrive as they were."""
        tools = os.path.join(self.folder, "tools")
        os.mkdir(tools)
        path = os.path.join(tools, "ssh")
        with open(path, "w", encoding="ascii") as file:
            file.write(f'#!/bin/sh\nfor last; do :; done\necho "$*" >>"{self.folder}/asked"\nexec sh -c "$last"\n')
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
        self.environment["PATH"] = tools + os.pathsep + self.environment["PATH"]
        self.script("up", "--ssh", "ops@one.example,two.example", "--remote-dir", self.system, "--remote-lb",
                    os.path.join(PROGRAMS, "lb", "lb"))
        self.both_systems_show()
        with open(os.path.join(self.folder, "asked"), encoding="utf-8") as file:
            asked = file.read()
        for host in ("-- ops@one.example ", "-- two.example "):
            self.assertEqual(asked.count(host), 2, asked)
        for hosts in ("-oProxyCommand=x", "a b", "a,$(id)", "a,-x"):
            self.script("up", "--ssh", hosts, code=2)
        self.script("down")


if __name__ == "__main__":
    main()
