"""The backend's configuration: exit codes, one line that says what to do, the rules for key files (section 1, B4)."""

import base64
import os
import socket

from case import Case, main, write_key
from programs import program, run


class Configuration(Case):
    def backend(self, text, *arguments, **environment):
        path = os.path.join(self.folder, "backend.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        code, out, err = run([program("backend"), "-c", path, *arguments], timeout=15, **environment)
        return path, code, out, err

    def one_line(self, err, *words):
        self.assertEqual(len(err.strip().splitlines()), 1, err)
        for word in words:
            self.assertIn(word, err)

    def test_faults(self):
        for text, line, words in [
            ("http-prt = 1\n", 1, ["http-prt", "http-port"]), ('\nhttp-port = "x"\n', 2, ["http-port"]),
            ("http-port = 70000\n", 1, ["http-port"]), ("http-port = 1\nhttp-port = 2\n", 2, []),
            ('db-write-queue-timeout = "5 s x"\n', 1, ["db-write-queue-timeout"]), ("db-write-batch-size = 0\n", 1,
                                                                                   ["db-write-batch-size"]),
        ]:
            for arguments in (("-t",), ()):
                with self.subTest(text, arguments=arguments):
                    path, code, _, err = self.backend(text, *arguments)
                    self.assertEqual(code, 2, err)
                    self.one_line(err, f"{path}:{line}:", *words)

    def test_environment_has_no_prefix(self):
        _, code, out, err = self.backend("http-port = 6001\n", "--print-config", HTTP_PORT="6002", DB_WRITE_BATCH_SIZE="7")
        self.assertEqual(code, 0, err)
        self.assertRegex(out, r"(?m)^http-port *= *6002")
        self.assertRegex(out, r"(?m)^db-write-batch-size *= *7")
        _, code, _, err = self.backend("", "-t", HTTP_PORT="x")
        self.assertEqual(code, 2)
        self.one_line(err, "HTTP_PORT")

    def test_the_password_is_not_shown(self):
        _, _, out, err = self.backend("", "--print-config", DATABASE_URL="postgresql://u:hunter22@127.0.0.1:1/x")
        self.assertNotIn("hunter22", out + err)

    def test_key_files(self):
        good = base64.urlsafe_b64encode(os.urandom(32))
        key = os.path.join(self.folder, "key")
        database = "postgresql://u@127.0.0.1:1/x"
        settings = f'message-encryption-key-file = "{key}"\nhttp-port = 1\ndata-dir = "{self.folder}/d"\n'
        for name, content, mode, words in [
            ("missing", None, 0, [key]), ("empty", b"", 0o600, [key]), ("not base64", b"!!!\n", 0o600, [key]),
            ("31 bytes", base64.urlsafe_b64encode(os.urandom(31)) + b"\n", 0o600, [key]),
            ("readable by others", good + b"\n", 0o644, [key]),
            ("readable by the group", good + b"\n", 0o640, [key]),
            ("one bad line among good ones", good + b"\nxx\n", 0o600, [key]),
        ]:
            with self.subTest(name):
                if os.path.exists(key):
                    os.unlink(key)
                if content is not None:
                    with open(key, "wb") as file:
                        file.write(content)
                    os.chmod(key, mode)
                _, code, _, err = self.backend(settings, DATABASE_URL=database)
                self.assertEqual(code, 2, err)
                self.one_line(err, *words)
                if content:
                    self.assertNotIn(content.strip().decode(), err)

    def test_several_keys(self):
        """The first encrypts, all decrypt: a key can be changed without losing a row."""
        import json

        backend = self.chat_backends(1)[0]
        backend.post({"client-name": "A", "msg": "old"})
        self.assertEqual(backend.terminate(), 0)
        with open(backend.key_file, "rb") as file:
            old = file.read()
        write_key(backend.key_file)
        with open(backend.key_file, "ab") as file:
            file.write(old)
        backend.start()
        backend.post({"client-name": "A", "msg": "new"})
        self.assertEqual([m["msg"] for m in json.loads(backend.fetch("/feed").body)["messages"]], ["old", "new"])

    def test_a_port_in_use(self):
        taken = socket.socket()
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        self.addCleanup(taken.close)
        port = taken.getsockname()[1]
        _, code, _, err = self.backend(f'http-port = {port}\ndata-dir = "{self.folder}/data"\n')
        self.assertIn(code, (1, 2))
        self.assertIn(str(port), err)
        self.assertIn("use", err)

    def test_a_data_dir_that_cannot_be(self):
        blocked = os.path.join(self.folder, "file")
        with open(blocked, "w", encoding="ascii"):
            pass
        _, code, _, err = self.backend(f'http-port = 1\ndata-dir = "{blocked}/data"\n')
        self.assertIn(code, (1, 2))
        self.assertIn(blocked, err)


if __name__ == "__main__":
    main()
