"""Python's http.client and urllib: keep-alive, uploads of every kind, bodies of every framing, many at once."""

import hashlib
import http.client
import io
import json
import os
import ssl
import threading
import urllib.request
from urllib.parse import urlsplit

from site_backend import BIG, CHUNKED, ETAG, TEXT


def connection(scene, base):
    parts = urlsplit(base)
    if parts.scheme == "http":
        return http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
    return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=30,
                                       context=ssl.create_default_context(cafile=scene.certificate))


def one_connection(scene, base, rounds):
    """All on one keep-alive connection: its socket has to stay the same."""
    client = connection(scene, base)
    client.connect()
    first, count = client.sock, 0

    def ask(method, path, body=None, headers=None, chunked=False, status=200):
        nonlocal count
        client.request(method, path, body, headers or {}, encode_chunked=chunked)
        response = client.getresponse()
        data = response.read()
        assert response.status == status, (method, path, response.status)
        assert client.sock is first, (method, path, "the connection was not kept")
        count += 1
        return data

    upload = os.urandom(500_000)
    digest = hashlib.sha256(upload).hexdigest().encode()
    for number in range(rounds):
        assert ask("GET", "/text") == TEXT
        assert ask("HEAD", "/big") == b""
        assert ask("GET", "/chunked") == CHUNKED
        assert ask("GET", "/big") == BIG
        assert ask("GET", "/big", headers={"Range": "bytes=5-9"}, status=206) == BIG[5:10]
        assert ask("POST", "/upload", upload) == digest
        assert ask("POST", "/upload", io.BytesIO(upload), {"Transfer-Encoding": "chunked"}, chunked=True) == digest
        assert ask("PUT", "/upload", b"") == hashlib.sha256(b"").hexdigest().encode()
        assert ask("GET", "/nothing", status=204) == b""
        assert ask("GET", "/etag", headers={"If-None-Match": ETAG}, status=304) == b""
        assert json.loads(ask("GET", f"/api?{number}"))["query"] == str(number)
        ask("DELETE", "/none", status=404)
        ask("OPTIONS", "/text")
    client.close()
    return count


def drive(scene, base):
    counts, errors = [], []

    def work():
        try:
            counts.append(one_connection(scene, base, 3))
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    if errors:
        raise errors[0]
    context = ssl.create_default_context(cafile=scene.certificate) if base.startswith("https") else None
    for path in ("/text", "/elsewhere", "/close"):  # Connection: close, redirects
        with urllib.request.urlopen(base + path, timeout=30, context=context) as response:
            assert response.read() == TEXT, path
    return f"{sum(counts) + 3} requests, 6 connections"
