"""The backend that real clients are sent to: bodies by length, chunked and until close, ranges, validators, uploads, a page
for a browser. What it hears is checked as strictly as what the clients get."""

import hashlib
import json
import random
import struct
import threading
import zlib

from scripted import ScriptedBackend

BIG = random.Random(7).randbytes(4 << 20)
CHUNKED = random.Random(8).randbytes(300_000)
TEXT = b"hello from behind\n"
ETAG = '"v1"'
PICTURES, CALLS = 24, 12

PAGE = """<!doctype html><meta charset="utf-8"><title>clients</title><body><script>
const report = { pictures: 0, calls: 0, errors: [] };
const check = (good, what) => { if (!good) report.errors.push(what); };
const picture = (n) => new Promise((done) => {
  const image = new Image();
  image.onload = () => { report.pictures += image.naturalWidth === 1; done(); };
  image.onerror = () => { report.errors.push('picture ' + n); done(); };
  image.src = '/picture.png?' + n;
  document.body.append(image);
});
const call = async (n) => {
  const answer = await (await fetch('/api?' + n)).json();
  report.calls += answer.query === String(n);
};
const hash = async (bytes) => Array.from(new Uint8Array(await crypto.subtle.digest('SHA-256', bytes)),
                                         (byte) => byte.toString(16).padStart(2, '0')).join('');
const main = async () => {
  await Promise.all([...Array(PICTURES).keys()].map(picture).concat([...Array(CALLS).keys()].map(call)));
  const streamed = await fetch('/chunked');
  let size = 0;
  for (const reader = streamed.body.getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
  }
  check(size === CHUNKED_BYTES, 'chunked: ' + size);
  const body = new Uint8Array(1 << 20).map((_, i) => i * 7);
  const sent = await (await fetch('/upload', { method: 'POST', body })).text();
  check(sent === await hash(body), 'upload: ' + sent);
  const part = await fetch('/big', { headers: { Range: 'bytes=1000-1999' } });
  check(part.status === 206 && (await part.arrayBuffer()).byteLength === 1000, 'range: ' + part.status);
  for (let i = 0; i < 2; i++) {
    const again = await fetch('/etag', { cache: 'no-cache' });
    check(again.status === 200 && await again.text() === 'tagged', 'etag: ' + again.status);
  }
  check((await fetch('/nothing')).status === 204, 'nothing');
  check((await fetch('/elsewhere')).url.endsWith('/text'), 'redirect');
  check((await fetch('/text', { method: 'HEAD' })).headers.get('content-length') === 'TEXT_BYTES', 'head');
  if (location.protocol === 'http:') await new Promise((done) => {
    const socket = new WebSocket('ws://' + location.host + '/echo');
    socket.onopen = () => socket.send('through a tunnel');
    socket.onmessage = (message) => { check(message.data === 'through a tunnel', 'echo'); socket.close(); };
    socket.onerror = () => { report.errors.push('websocket'); done(); };
    socket.onclose = done;
  });
};
main().catch((error) => report.errors.push(String(error))).finally(() =>
  fetch('/report', { method: 'POST', body: JSON.stringify(report) }));
</script>"""


def picture():
    """A PNG of one grey pixel."""
    def part(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)) + \
        part(b"IDAT", zlib.compress(b"\0\x80")) + part(b"IEND", b"")


class Site(ScriptedBackend):
    def __init__(self, name="site"):
        self.reports, self.reported = [], threading.Event()
        self.revalidated = 0
        self.routes = {"/text": self.text, "/big": self.big, "/chunked": self.chunked, "/upload": self.upload, "/etag": self.etag,
                       "/nothing": self.nothing, "/elsewhere": self.elsewhere, "/page": self.page, "/picture.png": self.picture,
                       "/api": self.api, "/report": self.report, "/close": self.until_close, "/echo": self.echo}
        self.page_text = (PAGE.replace("PICTURES", str(PICTURES)).replace("CALLS", str(CALLS))
                          .replace("CHUNKED_BYTES", str(len(CHUNKED))).replace("TEXT_BYTES", str(len(TEXT)))).encode()
        super().__init__(self.answer, name)

    def answer(self, connection, request):
        if "100-continue" in request.header("expect", ""):
            connection.send("HTTP/1.1 100 Continue||")
        connection.body(request)
        self.routes.get(request.path, self.missing)(connection, request)

    def give(self, connection, request, status, body, headers=()):
        """By length; HEAD gets the head alone."""
        head = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}"] + [f"{name}: {value}" for name, value in headers]
        connection.send(("\r\n".join(head) + "\r\n\r\n").encode() + (b"" if request.method == "HEAD" else body))

    def missing(self, connection, request):
        self.give(connection, request, 404, b"nothing here\n")

    def text(self, connection, request):
        self.give(connection, request, 200, TEXT, [("Content-Type", "text/plain")])

    def big(self, connection, request):
        wanted = request.header("range")
        if wanted is None:
            return self.give(connection, request, 200, BIG, [("Accept-Ranges", "bytes")])
        first, last = (int(text) for text in wanted.removeprefix("bytes=").split("-"))
        self.give(connection, request, 206, BIG[first:last + 1], [("Content-Range", f"bytes {first}-{last}/{len(BIG)}")])

    def chunked(self, connection, request):
        connection.send("HTTP/1.1 200 X|Transfer-Encoding: chunked|Trailer: X-Sum||")
        for start in range(0, len(CHUNKED), 7001):
            piece = CHUNKED[start:start + 7001]
            connection.send(b"%x\r\n%s\r\n" % (len(piece), piece))
        connection.send(f"0|X-Sum: {zlib.crc32(CHUNKED)}||")

    def until_close(self, connection, request):
        connection.send(b"HTTP/1.0 200 X\r\n\r\n" + TEXT)
        connection.close()

    def upload(self, connection, request):
        self.give(connection, request, 200, hashlib.sha256(request.body).hexdigest().encode())

    def etag(self, connection, request):
        if request.header("if-none-match") == ETAG:
            self.revalidated += 1
            connection.send(f"HTTP/1.1 304 X|ETag: {ETAG}||")
        else:
            self.give(connection, request, 200, b"tagged", [("ETag", ETAG)])

    def nothing(self, connection, request):
        connection.send("HTTP/1.1 204 X||")

    def elsewhere(self, connection, request):
        self.give(connection, request, 302, b"", [("Location", "/text")])

    def page(self, connection, request):
        self.give(connection, request, 200, self.page_text, [("Content-Type", "text/html; charset=utf-8")])

    def picture(self, connection, request):
        self.give(connection, request, 200, picture(), [("Content-Type", "image/png"), ("Cache-Control", "no-store")])

    def api(self, connection, request):
        query = request.target.partition("?")[2]
        self.give(connection, request, 200, json.dumps({"query": query}).encode(), [("Content-Type", "application/json")])

    def report(self, connection, request):
        self.reports.append(json.loads(request.body))
        self.give(connection, request, 200, b"")
        self.reported.set()

    def echo(self, connection, request):
        """A WebSocket that sends back one short text, and its close."""
        import base64

        key = request.header("sec-websocket-key").encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(key).digest()).decode()
        connection.send(f"HTTP/1.1 101 X|Upgrade: websocket|Connection: Upgrade|Sec-WebSocket-Accept: {accept}||")
        for opcode in (1, 8):
            start = connection.exactly(2)
            assert start[0] == 0x80 | opcode and start[1] & 0x80 and start[1] & 0x7F < 126, start
            mask, data = connection.exactly(4), connection.exactly(start[1] & 0x7F)
            data = bytes(byte ^ mask[index % 4] for index, byte in enumerate(data))
            connection.send(bytes([0x80 | opcode, len(data)]) + data)
        connection.close()
