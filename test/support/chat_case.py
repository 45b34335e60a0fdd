"""The base of the chat's tests: backends with their WSS ports over one store, and people who are in."""

import json

from case import Case
from chat_client import ChatClient, key_of
from programs import LOADGEN_RIGHT, post_message, program, run
from raw import RawClient
from tls import TlsClient, make_certificate
from websocket_case import front


class Chat(Case):
    """With `balanced` everybody comes through a balancer, each backend's number by a way of its own: wss-listen, plain HTTP,
    HTTPS."""

    store, balanced = "", False

    def scene(self, count=3, start=True, **options):
        if self.store == "postgres":
            options["tls_cert"], options["tls_key"] = make_certificate(self.folder)
        options.setdefault("ws_register_timeout", "2m")  # a signature takes a process, and that a while on a busy machine
        self.backends = self.chat_backends(count, self.store, wss=True, ws_plain=True, start=start, **options)
        if self.balanced:
            self.lb, self.through = front(self, *self.backends)

    def connect(self, backend=0, tls=True, **options):
        if self.balanced:
            way = ("lb tls" if backend else "lb wss") if tls else "lb"
            return self.through[way](**options)
        return TlsClient(self.backends[backend].ws_port, **options) if tls else RawClient(self.http_port(backend), **options)

    def http_port(self, backend):
        return self.lb.port if self.balanced else self.backends[backend].port

    def client(self, backend=0, tls=True, connection=None, **options):
        client = ChatClient(connection or self.connect(backend, tls, **options))
        self.addCleanup(client.close)
        return client

    def person(self, name, backend=0, key=None, **options):
        """Registered, by TLS on even backends."""
        key = key or key_of(name)
        client = self.client(backend, backend % 2 == 0, **options)
        answer = client.register(key, name)
        self.assertEqual(answer, {"type": "registered", "username": name})
        return client

    def post(self, backend, text, message_id, name="Http"):
        response = post_message(self.http_port(backend), {"client-name": name, "msg": text, "message-id": message_id})
        return response, json.loads(response.body)

    def load(self, *arguments, timeout=60):
        """Messages by loadgen, over all backends, to the end; none may fail."""
        ports = [self.lb.port] if self.balanced else [backend.port for backend in self.backends]
        urls = ",".join(f"http://127.0.0.1:{port}" for port in ports)
        code, out, err = run([program("loadgen"), "-url", urls, "-out-dir", "", "-seed", "3", *arguments], timeout=timeout)
        self.assertIn(code, LOADGEN_RIGHT, out[-3000:] + err)
        self.assertNotIn("FAILED: ", out)
        return out

    def check_error(self, answer, code, message_id=None):
        self.assertEqual((answer["type"], answer.get("code"), answer.get("message-id")), ("error", code, message_id), answer)
