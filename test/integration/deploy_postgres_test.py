"""deploy/postgres/setup.sh on a real Debian cluster of its own (D4): TLS and SCRAM only, a role that may only chat, again and
again the same, and a backend that stores through it."""

import os
import re
import shutil

from case import Case, main, write_key
from ports import free_port
from programs import ROOT, ChatBackend, run

SETUP = os.path.join(ROOT, "deploy", "postgres", "setup.sh")


class Given:
    """A database that somebody else runs: what ChatBackend needs of one."""

    def __init__(self, url):
        self.url = url


class SetUp(Case):
    def setUp(self):
        super().setUp()
        os.chmod(self.folder, 0o711)  # the user postgres passes through
        self.conf_root = os.path.join(self.folder, "conf")
        os.mkdir(self.conf_root)
        shutil.chown(self.conf_root, "postgres")
        self.port = free_port()
        self.name = f"dlb-test-{os.getpid()}"  # Debian's log is named after it
        self.version = max(os.listdir("/usr/lib/postgresql"), key=int)
        self.env_file = os.path.join(self.folder, "secret", "database.env")
        self.addCleanup(self.debian, "pg_dropcluster", "--stop", self.version, self.name)

    def debian(self, *arguments):
        return run(arguments, timeout=60, PG_CLUSTER_CONF_ROOT=self.conf_root, LC_ALL="C.UTF-8")

    def set_up(self, *more):
        return self.debian(SETUP, "--host", "127.0.0.1", "--allow", "127.0.0.1/32", "--listen", "127.0.0.1", "--port",
                           str(self.port), "--cluster", f"{self.version}/{self.name}", "--data",
                           os.path.join(self.folder, "cluster"), "--env-file", self.env_file, *more)

    def url(self):
        with open(self.env_file, encoding="ascii") as file:
            return re.fullmatch(r"DATABASE_URL='(.*)'\n", file.read())[1]

    def psql(self, url, sql):
        code, out, err = run(["psql", "-X", "-A", "-t", "-c", sql, url])
        return out.strip() if code == 0 else err

    def test_from_nothing_and_again(self):
        code, out, err = self.set_up()
        self.assertEqual(code, 0, out + err)
        url = self.url()
        password = re.search(r"chat_user:([0-9a-f]{48})@", url)[1]
        self.assertNotIn(password, out + err)
        self.assertEqual(os.stat(self.env_file).st_mode & 0o777, 0o600)

        self.assertEqual(self.psql(url, "show shared_buffers"), "64MB")
        self.assertEqual(self.psql(url, "select ssl, version >= 'TLSv1.2' from pg_stat_ssl where pid = pg_backend_pid()"), "t|t")
        self.assertIn("no encryption", self.psql(url.replace("verify-full", "disable"), "select 1"))
        self.assertIn("password authentication failed", self.psql(url.replace(password, "0" * 48), "select 1"))
        self.assertIn("no pg_hba.conf entry", self.psql(url.replace("/chat?", "/postgres?"), "select 1"))
        self.assertIn("permission denied", self.psql(url, "create role other"))
        self.assertEqual(self.psql(url, "select rolsuper or rolcreatedb or rolcreaterole from pg_roles "
                                        "where rolname = 'chat_user'"), "f")

        data = os.path.join(self.folder, "data")
        os.mkdir(data, 0o700)
        write_key(os.path.join(data, "encryption.key"))
        backend = self.keep(ChatBackend(self.folder, "sys2", data, Given(url))).start()
        self.assertEqual(backend.post({"client-name": "ada", "msg": "by TLS", "message-id": "m1"}).status, 201)
        self.assertEqual(self.psql(url, "select message_id from chat_messages"), "m1")

        started = self.psql(url, "select pg_postmaster_start_time()")
        code, out, err = self.set_up()
        self.assertEqual((code, self.url(), self.psql(url, "select pg_postmaster_start_time()")), (0, url, started), out + err)
        code, out, err = self.set_up("--allow", "127.0.0.2/32")  # one more network: the cluster restarts, all stays
        self.assertEqual((code, self.url(), self.psql(url, "select count(*) from chat_messages")), (0, url, "1"), out + err)
        with open(f"/var/log/postgresql/postgresql-{self.version}-{self.name}.log", encoding="utf-8") as file:
            log = file.read()
        self.assertNotIn(password, log)
        self.assertNotIn("STATEMENT", log)

    def test_usage(self):
        for arguments, word in ((("--allow", "10.0.0.0/8"), "--host"), (("--host", "db"), "--allow"),
                                (("--host", "db", "--allow", "10.0.0.0"), "BITS"),
                                (("--host", "a b", "--allow", "1.2.3.4/32"), "--host"), (("--frob",), "--frob"),
                                (("--host",), "value")):
            with self.subTest(arguments):
                code, _, err = run([SETUP, *arguments])
                self.assertEqual(code, 2)
                self.assertIn(word, err.splitlines()[0])


if __name__ == "__main__":
    main()
