"""curl: what people try first, each with its body checked."""

import hashlib
import os
import zlib

from scene import need, run
from site_backend import BIG, CHUNKED, ETAG, TEXT

FIGURES = "%{http_code} %{num_connects} %{size_download} %{http_version}"


def curl(scene, base, *arguments, sent=b""):
    """(figures of the last transfer, the body of all)."""
    path, upload = os.path.join(scene.folder, "got"), os.path.join(scene.folder, "sent")
    with open(upload, "wb") as file:
        file.write(sent)
    arguments = [argument.replace("BASE", base).replace("SENT", upload) for argument in arguments]
    figures = run([need("curl", "curl"), "--silent", "--show-error", "--max-time", "30", "--cacert", scene.certificate,
                   "--write-out", FIGURES + "\n", "--output", path] + arguments).split("\n")[-2]
    with open(path, "rb") as file:
        return figures.split(), file.read()


def drive(scene, base):
    def check(name, expected, *arguments, sent=b"", status="200", connects="1", version="1.1"):
        figures, body = curl(scene, base, *arguments, sent=sent)
        assert figures[0] == status and figures[1] == connects and figures[3] == version, f"{name}: {figures}"
        assert expected is None or body == expected, f"{name}: {len(body)} bytes, {body[:80]!r}"
        done.append(name)

    done = []
    upload = os.urandom(3_000_000)
    digest = hashlib.sha256(upload).hexdigest().encode()
    check("get", TEXT, "BASE/text")
    check("keep-alive", None, "BASE/text", "--output", "/dev/null", "BASE/text", connects="0")
    check("head", None, "--head", "BASE/big")
    check("big", BIG, "BASE/big")
    check("range", BIG[100_000:200_000], "--range", "100000-199999", "BASE/big", status="206")
    check("chunked", CHUNKED, "BASE/chunked")
    check("until close", TEXT, "BASE/close")
    check("post", hashlib.sha256(b"a=1").hexdigest().encode(), "--data", "a=1", "BASE/upload")
    check("expect", digest, "--header", "Expect: 100-continue", "--expect100-timeout", "20", "--data-binary", "@SENT",
          "BASE/upload", sent=upload)
    check("put", digest, "--upload-file", "SENT", "BASE/upload", sent=upload)
    check("put chunked", digest, "--header", "Transfer-Encoding: chunked", "--upload-file", "SENT", "BASE/upload", sent=upload)
    check("http/1.0", TEXT, "--http1.0", "BASE/text")
    check("http/1.0 chunked", CHUNKED, "--http1.0", "BASE/chunked")
    check("http/1.0 post", digest, "--http1.0", "--data-binary", "@SENT", "BASE/upload", sent=upload)
    check("204", b"", "BASE/nothing", status="204")
    check("304", b"", "--header", f"If-None-Match: {ETAG}", "BASE/etag", status="304")
    check("redirect", TEXT, "--location", "BASE/elsewhere")  # on the same connection
    check("compressed", TEXT, "--compressed", "BASE/text")
    check("404", None, "BASE/none", status="404")
    head, _ = curl(scene, base, "--head", "--dump-header", os.path.join(scene.folder, "head"), "BASE/big")
    with open(os.path.join(scene.folder, "head"), encoding="latin-1") as file:
        assert f"content-length: {len(BIG)}" in file.read().lower(), "HEAD keeps the length"
    headers = os.path.join(scene.folder, "headers")
    curl(scene, base, "--dump-header", headers, "BASE/chunked")
    with open(headers, encoding="latin-1") as file:
        assert f"x-sum: {zlib.crc32(CHUNKED)}" in file.read().lower(), "the trailer came"
    targets = [part for n in range(100) for part in (f"BASE/api?{n}", "--output", "/dev/null")]
    many, _ = curl(scene, base, "--no-progress-meter", "--parallel", "--parallel-max", "20", "BASE/text", *targets)
    assert many[0] == "200", many
    return f"{len(done) + 3} cases"
