"""The backend's HTTP API: every status of B1, the feed of B3, the other routes of B11, on both stores."""

import base64
import gzip
import hashlib
import json
import re
import urllib.parse
import uuid

from case import Case, main
from raw import wire
from waiting import wait_until

FORM = [("Content-Type", "application/x-www-form-urlencoded")]
JSON = [("Content-Type", "application/json")]


class Api:
    """The same tests for both stores."""

    store = ""

    def setUp(self):
        super().setUp()
        self.backend = self.chat_backends(1, self.store)[0]

    def post(self, message, headers=()):
        return self.backend.post(message, headers)

    def send(self, body, headers=JSON, method="POST", target="/message"):
        return self.backend.fetch(target, method, body, headers)

    def error(self, response, status, *words):
        self.assertEqual(response.status, status, response)
        body = json.loads(response.body)
        self.assertEqual(sorted(body), ["detail", "error"])
        for word in words:
            self.assertIn(word, response.body.decode())
        return body

    def feed(self, query=""):
        response = self.backend.fetch("/feed" + query)
        self.assertEqual(response.status, 200, response)
        return json.loads(response.body)

    # --- POST /message

    def test_created_duplicate_conflict(self):
        message = {"client-name": "Ann", "msg": "hello", "message-id": "m1"}
        first = self.post(message)
        self.assertEqual(first.status, 201)
        self.assertEqual(first.header("x-backend"), "sys2")
        self.assertTrue(first.header("content-type").startswith("application/json"))
        body = json.loads(first.body)
        self.assertEqual((body["status"], body["duplicate"]), ("created", False))
        stored = body["message"]
        self.assertEqual({key: stored[key] for key in ("message-id", "client-name", "msg", "source")},
                         {"message-id": "m1", "client-name": "Ann", "msg": "hello", "source": "http"})
        self.assertIsInstance(stored["sequence"], int)
        self.assertRegex(stored["timestamp"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00$")

        again = self.post(message)
        self.assertEqual(again.status, 200)
        repeated = json.loads(again.body)
        self.assertEqual((repeated["status"], repeated["duplicate"]), ("duplicate", True))
        self.assertEqual(repeated["message"], stored)

        self.error(self.post({**message, "msg": "other"}), 409)
        self.error(self.post({**message, "client-name": "Bob"}), 409)
        self.assertEqual(self.feed()["messages"], [stored])

    def test_key_order_and_white_space_do_not_matter(self):
        self.assertEqual(self.send(b'{"client-name":"A","msg":"x","message-id":"k"}').status, 201)
        self.assertEqual(self.send(b'{ "message-id":"k" ,\n "msg":"\\u0078", "client-name":"A" , "extra":{"a":[1]}}').status, 200)

    def test_an_id_is_made(self):
        made = json.loads(self.post({"client-name": "Ann", "msg": "x"}).body)["message"]["message-id"]
        self.assertEqual(str(uuid.UUID(made)), made)

    def test_idempotency_key(self):
        message = {"client-name": "Ann", "msg": "x"}
        first = self.post(message, [("Idempotency-Key", "key-1")])
        self.assertEqual((first.status, json.loads(first.body)["message"]["message-id"]), (201, "key-1"))
        self.assertEqual(self.post(message, [("Idempotency-Key", "key-1")]).status, 200)
        both = {**message, "message-id": "key-2"}
        self.assertEqual(self.post(both, [("Idempotency-Key", "key-2")]).status, 201)
        self.error(self.post(both, [("Idempotency-Key", "key-3")]), 400)
        self.error(self.post(message, [("Idempotency-Key", "x" * 129)]), 400)

    def test_forms_and_queries(self):
        text = "a+b & c=d é\r\n%"
        pairs = {"client-name": "Ann B", "msg": text, "message-id": "f1"}
        encoded = urllib.parse.urlencode(pairs)
        self.assertEqual(self.send(encoded.encode(), FORM).status, 201)
        self.assertEqual(self.send(encoded.encode(), [("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")])
                         .status, 200)
        self.assertEqual(self.backend.fetch("/message?" + encoded).status, 200)
        self.assertEqual(self.post(pairs).status, 200)
        self.assertEqual(self.feed()["messages"][0]["msg"], text)
        self.error(self.backend.fetch("/message?client-name=A&msg=x&msg=y"), 400, "msg")
        self.error(self.send(b"client-name=A&client-name=B&msg=x", FORM), 400, "client-name")
        self.error(self.send(b"client-name=A&msg=%zz", FORM), 400)
        self.error(self.send(b"client-name=A&msg=%ff", FORM), 400)
        self.error(self.send(b"client-name=A&msg=a%00b", FORM), 400, "msg")
        self.assertEqual(self.backend.fetch("/message?client-name=A&msg=x", headers=[("Idempotency-Key", "q1")]).status, 201)

    def test_content_types(self):
        body = b'{"client-name":"A","msg":"x"}'
        self.error(self.send(body, [("Content-Type", "text/plain")]), 415)
        self.error(self.send(body, [("Content-Type", "application/xml")]), 415)
        self.assertEqual(self.send(body, []).status, 201, "no Content-Type is read as JSON")
        self.assertEqual(self.send(body, [("Content-Type", "Application/JSON; charset=UTF-8")]).status, 201)

    def test_limits(self):
        ok = {"client-name": "A", "msg": "x"}
        for field, value, status in [
            ("message-id", "i" * 128, 201), ("message-id", "😀" * 128, 201), ("message-id", "i" * 129, 400),
            ("message-id", "", 400), ("message-id", "a\nb", 400), ("message-id", "a\u0000b", 400),
            ("message-id", "a\u0085b", 400), ("message-id", "a\u007fb", 400), ("message-id", 7, 400), ("message-id", "../x", 201),
            ("message-id", "i" * 10000, 400),
            ("client-name", "n" * 64, 201), ("client-name", "é" * 64, 201), ("client-name", "n" * 65, 400),
            ("client-name", "", 400), ("client-name", "a\tb", 400), ("client-name", None, 400),
            ("msg", "", 400), ("msg", " ", 201), ("msg", "\n\t", 201), ("msg", "\u200b", 201), ("msg", "x\u0000y", 400),
            ("msg", "m" * 65536, 201), ("msg", "m" * 65537, 413), ("msg", "m" * 65532 + "😀", 201),
            ("msg", "m" * 65533 + "😀", 413),
            ("msg", 5, 400), ("msg", ["x"], 400), ("msg", None, 400),
        ]:
            with self.subTest(field=field, value=str(value)[:20], length=len(str(value))):
                message = {**ok, field: value}
                response = self.send(json.dumps(message, ensure_ascii=False).encode())
                self.assertEqual(response.status, status, response)
                if status >= 400:
                    self.error(response, status, field)
        for missing in ("client-name", "msg"):
            message = {key: value for key, value in ok.items() if key != missing}
            self.error(self.post(message), 400, missing)

    def test_strict_json(self):
        for text in (b"", b"{", b"[]", b'"x"', b"null", b'{"client-name":"A","msg":"x"} x', b'{"client-name":"A","msg":"x",}',
                     b'{"client-name":"A","msg":"x","msg":"y"}', b'{"client-name":"A","msg":"\\ud800"}',
                     b'{"client-name":"A","msg":"\\udc00\\ud800"}', b'{"client-name":"A","msg":"\\x"}',
                     b'{"client-name":"A","msg":"\xff"}', b'{"client-name":"A","msg":"\xc0\x80"}',
                     b'{"client-name":"A","msg":"\xed\xa0\x80"}', b"{'client-name':'A','msg':'x'}",
                     b'{"client-name":"A","msg":"a\nb"}',
                     b'{"client-name":"A","msg":"x","z":' + b"[" * 64 + b"]" * 64 + b"}",
                     b'{"client-name":"A","msg":"x","z":' + b"[" * 100000, b'{"client-name":"A","msg":' + b"[" * 100000):
            with self.subTest(text[:60]):
                self.error(self.send(text), 400)
        deep = b'{"client-name":"A","msg":"x","z":' + b"[" * 63 + b"]" * 63 + b"}"
        self.assertEqual(self.send(deep).status, 201, "64 levels, the outer object counted")
        self.assertEqual(self.send('{"client-name":"A","msg":"\\ud83d\\ude00"}'.encode()).status, 201)
        self.assertEqual(self.feed()["messages"][-1]["msg"], "😀")

    def test_ch_20_text_is_byte_exact(self):
        texts = ["é", "e\u0301", "👨‍👩‍👧‍👦", "  spaces  ", "\u202eright to left", "\ufeffbom", "\u2028", "tab\tnl\nquote\"back\\",
                 "</script>", "\x01\x1f\x7f", "x" * 65536, "\U0010ffff", "\ufffe"]
        for text in texts:
            self.assertEqual(self.send(json.dumps({"client-name": "A", "msg": text}).encode()).status, 201)
        self.assertEqual([message["msg"] for message in self.feed()["messages"]], texts)

    def test_too_large_a_body(self):
        self.error(self.send(b'{"client-name":"A","msg":"' + b"x" * (2 << 20) + b'"}'), 413)

    # --- GET /feed

    def test_feed(self):
        self.assertEqual(self.feed(), {"messages": [], "count": 0})
        stored = [json.loads(self.post({"client-name": "A", "msg": f"m{index}"}).body)["message"] for index in range(25)]
        feed = self.feed()
        self.assertEqual(feed["messages"], stored)
        self.assertEqual(feed["count"], 25)
        self.assertEqual([message["sequence"] for message in stored], sorted(message["sequence"] for message in stored))

    def test_gzip(self):
        """The same rows, compressed: another strong tag, and every cache is told what the answer depends on."""
        zipped = [("Accept-Encoding", "br, gzip")]
        for number in range(40):
            self.backend.post({"client-name": "ada", "msg": "hello " * 20, "message-id": f"m{number}"})
            plain, packed = self.backend.fetch("/feed"), self.backend.fetch("/feed", headers=zipped)
            self.assertEqual(gzip.decompress(packed.body), plain.body)
        self.assertEqual((packed.header("content-encoding"), packed.header("vary")), ("gzip", "Accept-Encoding"))
        self.assertEqual((plain.header("content-encoding"), plain.header("vary")), (None, "Accept-Encoding"))
        self.assertLess(len(packed.body), len(plain.body) / 3)
        self.assertNotEqual(packed.header("etag"), plain.header("etag"))
        for tag in (packed.header("etag"), plain.header("etag")):  # the rows are what it has, either way
            same = self.backend.fetch("/feed", headers=[*zipped, ("If-None-Match", tag)])
            self.assertEqual((same.status, same.header("etag"), same.body), (304, tag, b""))
        changed = self.backend.fetch("/feed", headers=[("If-None-Match", packed.header("etag"))])
        self.assertEqual((changed.status, changed.body), (200, plain.body))
        head = self.backend.fetch("/feed", method="HEAD", headers=zipped)
        self.assertEqual(int(head.header("content-length")), len(packed.body))
        page = self.backend.fetch("/feed?after=5&limit=7", headers=zipped)
        self.assertEqual(gzip.decompress(page.body), self.backend.fetch("/feed?after=5&limit=7").body)
        refused = self.backend.fetch("/feed", headers=[("Accept-Encoding", "gzip;q=0, *")])
        self.assertEqual((refused.header("content-encoding"), refused.body), (None, plain.body))

    def test_etag(self):
        self.post({"client-name": "A", "msg": "x"})
        first = self.backend.fetch("/feed")
        tag = first.header("etag")
        self.assertRegex(tag, r'^"[^"]+"$')
        same = self.backend.fetch("/feed", headers=[("If-None-Match", f'"other", {tag}')])
        self.assertEqual((same.status, same.body, same.header("etag")), (304, b"", tag))
        self.post({"client-name": "A", "msg": "y"})
        changed = self.backend.fetch("/feed", headers=[("If-None-Match", tag)])
        self.assertEqual(changed.status, 200)
        self.assertNotEqual(changed.header("etag"), tag)

    def test_pages(self):
        stored = [json.loads(self.post({"client-name": "A", "msg": f"m{index}"}).body)["message"] for index in range(7)]
        page = self.feed("?limit=3")
        self.assertEqual((page["messages"], page["count"], page["has_more"]), (stored[:3], 3, True))
        seen, after = [], 0
        while True:
            page = self.feed(f"?after={after}&limit=2")
            seen += page["messages"]
            if not page["has_more"]:
                break
            after = page["next_after"]
        self.assertEqual(seen, stored)
        self.assertEqual(self.feed(f"?after={stored[-1]['sequence']}")["messages"], [])
        self.assertEqual(self.feed("?limit=100000")["count"], 7, "clamped")
        for query in ("limit=0", "limit=-1", "limit=x", "limit=", "after=-1", "after=+1", "after=1.0", "after=0x1",
                      "limit=1&limit=2"):
            self.error(self.backend.fetch("/feed?" + query), 400)

    # --- the rest

    def test_other_routes(self):
        health = self.backend.fetch("/health")
        self.assertEqual(json.loads(health.body), {"status": "ok", "database": "ok", "backend-id": "sys2"})
        self.assertEqual(self.backend.fetch("/healthz").status, 200)
        stats = wait_until(lambda: (lambda s: s if s["cpu_percent"] is not None else None)(
            json.loads(self.backend.fetch("/internal/stats").body)), 5, "a second sample of the CPU")
        self.assertEqual(stats["backend-id"], "sys2")
        self.assertIsInstance(stats["cpu_percent"], (int, float))
        for key in ("total_bytes", "working_set_bytes", "limit_bytes", "total_percent", "working_set_percent",
                    "inactive_file_bytes", "sock_bytes", "rss_bytes"):
            self.assertIn(key, stats["memory"])
        for key in ("in_flight", "total"):
            self.assertIsInstance(stats["requests"][key], int)
        for key in ("write_queue", "encryption", "feed_cache"):
            self.assertIsInstance(stats[key], dict)
        self.assertIsInstance(json.loads(self.backend.fetch("/info").body), dict)
        self.assertIn(b"# TYPE dlb_", self.backend.fetch("/metrics").body)
        self.assertIsInstance(json.loads(self.backend.fetch("/metrics?format=json").body), dict)
        page = self.backend.fetch("/")
        self.assertEqual(page.status, 200)
        self.assertTrue(page.header("content-type").startswith("text/html"))

    def test_page_is_self_contained(self):
        page = self.backend.fetch("/")
        policy = page.header("content-security-policy")
        for tag, source in ((b"style", "style-src"), (b"script", "script-src")):
            (text,) = re.findall(b"<%s>(.+?)</%s>" % (tag, tag), page.body, re.DOTALL)
            digest = base64.b64encode(hashlib.sha256(text).digest()).decode()
            self.assertIn(f"{source} 'sha256-{digest}';", policy, "by its hash, and nothing else")
        self.assertIn("default-src 'none'", policy)
        self.assertNotIn("unsafe", policy)
        self.assertNotRegex(page.body, rb'(?:src|href)="(?!data:|#)', "nothing from elsewhere")
        self.assertNotRegex(page.body, rb"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b")

    def test_methods_and_paths(self):
        self.error(self.backend.fetch("/nothing"), 404)
        for target, method, allowed in (("/feed", "POST", "GET"), ("/message", "DELETE", "POST"), ("/message", "HEAD", "POST"),
                                        ("/health", "POST", "GET"), ("/feed", "PUT", "GET")):
            response = self.backend.fetch(target, method)
            self.assertEqual(response.status, 405, (target, method))
            self.assertIn(allowed, response.header("allow"))
            self.assertEqual(response.header("x-backend"), "sys2")
        for target in ("/feed", "/health", "/healthz", "/internal/stats", "/info", "/metrics", "/"):
            get, head = self.backend.fetch(target), self.backend.fetch(target, "HEAD")
            self.assertEqual((head.status, head.body), (200, b""), target)
            if target in ("/feed", "/health", "/"):
                self.assertEqual(head.header("content-length"), get.header("content-length"), target)

    def test_cors(self):
        for target in ("/message", "/feed", "/nothing"):
            response = self.backend.fetch(target, "OPTIONS", headers=[("Origin", "https://x.example"),
                                                                      ("Access-Control-Request-Method", "POST")])
            self.assertIn(response.status, (200, 204), target)
            self.assertEqual(response.header("access-control-allow-origin"), "*")
            self.assertIn("POST", response.header("access-control-allow-methods"))
            allowed = response.header("access-control-allow-headers").lower()
            self.assertIn("content-type", allowed)
            self.assertIn("idempotency-key", allowed)
        with self.backend.client() as client:
            self.assertIn(client.request("OPTIONS * HTTP/1.1|Host: a||").status, (200, 204))
        self.assertEqual(self.backend.fetch("/feed").header("access-control-allow-origin"), "*")

    def test_every_answer_names_the_backend(self):
        for data in (wire("GET / HTTP/1.1||"), b"garbage\r\n\r\n", wire("FROB / HTTP/1.1|Host: a||"),
                     wire("POST /message HTTP/1.1|Host: a|Content-Length: 99999999||"),
                     wire("GET / HTTP/1.1|Host: a|X: " + "x" * 20000 + "||"), wire("GET /nothing HTTP/1.1|Host: a||")):
            with self.backend.client() as client:
                client.send(data)
                response = client.read_response()
                self.assertGreaterEqual(response.status, 400)
                self.assertEqual(response.header("x-backend"), "sys2", response)

    def test_ch_21_expect_continue(self):
        body = b'{"client-name":"A","msg":"x"}'
        with self.backend.client() as client:
            client.send(wire(f"POST /message HTTP/1.1|Host: a|Expect: 100-continue|Content-Length: {len(body)}||"))
            self.assertEqual(client.read_head().status, 100)
            client.send(body)
            self.assertEqual(client.read_response().status, 201)
            client.send(wire("POST /message HTTP/1.1|Host: a|Expect: 100-continue|Content-Length: 99999999||"))
            response = client.read_response()
            self.assertEqual((response.status, response.interim), (413, []))
        with self.backend.client() as client:
            client.send(wire("POST /message HTTP/1.1|Host: a|Expect: other|Content-Length: 1||x"))
            self.assertEqual(client.read_response().status, 417)

    def test_pipelined_answers_keep_their_order(self):
        """A message waits for its commit, what follows does not: the answers still come in order."""
        with self.backend.client() as client:
            burst = b""
            for index in range(20):
                body = json.dumps({"client-name": "A", "msg": "x", "message-id": f"p{index}"}).encode()
                burst += wire(f"POST /message HTTP/1.1|Host: a|Content-Length: {len(body)}||") + body
                burst += wire("GET /healthz HTTP/1.1|Host: a||")
            client.send(burst)
            for index in range(20):
                answer = client.read_response()
                self.assertEqual(json.loads(answer.body)["message"]["message-id"], f"p{index}")
                self.assertEqual(client.read_response().status, 200)

    def test_chunked_request(self):
        with self.backend.client() as client:
            client.send(wire("POST /message HTTP/1.1|Host: a|Transfer-Encoding: chunked||"
                             '5|{"cli|18|ent-name":"A","msg":"x"}|0||'))
            self.assertEqual(client.read_response().status, 201)

    def test_no_text_in_database_or_log(self):
        secret = "s3cret-" + "Zq" * 20
        self.assertEqual(self.post({"client-name": "A", "msg": secret}).status, 201)
        self.post({"client-name": "A", "msg": secret + "\x00"})
        for where, data in self.at_rest():
            self.assertNotIn(secret.encode(), data, where)
        self.assertNotIn(secret, self.backend.log())
        with open(self.backend.key_file, "rb") as file:
            self.assertNotIn(file.read().strip().decode(), self.backend.log())


class SqliteApi(Api, Case):
    store = "sqlite"

    def at_rest(self):
        import os

        for name in os.listdir(self.backend.data_dir):
            path = os.path.join(self.backend.data_dir, name)
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    yield path, file.read()


class PostgresApi(Api, Case):
    store = "postgres"

    def at_rest(self):
        for (table,) in self.database.query("select tablename from pg_tables where schemaname = 'public'"):
            for row in self.database.query(f"select encode(convert_to(t::text, 'UTF8'), 'hex') from \"{table}\" t"):
                yield table, bytes.fromhex(row[0])
            columns = self.database.query("select column_name from information_schema.columns where table_name = "
                                          f"'{table}' and data_type = 'bytea'")
            for (column,) in columns:
                for row in self.database.query(f'select encode("{column}", \'hex\') from "{table}" where "{column}" is not null'):
                    yield f"{table}.{column}", bytes.fromhex(row[0])


if __name__ == "__main__":
    main()
