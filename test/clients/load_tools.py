"""wrk, h2load, ab and hey: they end with 0 whatever happened, so what they print is read."""

import re

from scene import need, run


def number(pattern, text, default=None):
    found = re.search(pattern, text)
    assert found or default is not None, f"no {pattern!r} in: {text[-1500:]}"
    return float(found.group(1)) if found else default


def wrk(scene, base):
    text = run([need("wrk", "wrk"), "-t1", "-c32", f"-d{scene.seconds}s", base + "/text"])
    assert "Socket errors" not in text and "Non-2xx" not in text, text
    done = number(r"(\d+) requests in", text)
    assert done > 0, text
    return f"{done:.0f} requests"


def h2load(scene, base):
    text = run([need("h2load", "nghttp2-client"), "--h1", "-n2000", "-c32", base + "/text"])
    counts = re.search(r"requests: 2000 total, 2000 started, 2000 done, 2000 succeeded, 0 failed, 0 errored, 0 timeout", text)
    assert counts and re.search(r"status codes: 2000 2xx, 0 3xx, 0 4xx, 0 5xx", text), text[-1500:]
    return "2000 requests"


def ab(scene, base):
    """HTTP/1.0 with Connection: keep-alive."""
    posted = f"{scene.folder}/posted"
    with open(posted, "wb") as file:
        file.write(b"x" * 2000)
    command = need("ab", "apache2-utils")
    for arguments in (["-k", base + "/text"], ["-k", "-p", posted, "-T", "text/plain", base + "/upload"], [base + "/text"]):
        text = run([command, "-q", "-n1000", "-c16"] + arguments)
        assert number(r"Complete requests:\s+(\d+)", text) == 1000, text
        assert number(r"Failed requests:\s+(\d+)", text) == 0 and "Non-2xx" not in text and "Write errors" not in text, text
        if "-k" in arguments:
            assert number(r"Keep-Alive requests:\s+(\d+)", text) == 1000, text
    return "3 x 1000 requests"


def hey(scene, base):
    for arguments in (["-n", "1920", "-c", "32"], ["-n", "500", "-c", "10", "-m", "POST", "-d", "x" * 1000],
                      ["-n", "300", "-c", "10", "-disable-keepalive"]):
        text = run([need("hey", "hey")] + arguments + [base + ("/upload" if "POST" in arguments else "/text")])
        assert "Error distribution" not in text, text
        codes = re.findall(r"\[(\d+)\]\s+(\d+) responses", text)
        assert codes == [("200", arguments[1])], text
    return "2720 requests"
