"""A person of the WSS chat: a key whose signatures OpenSSL makes, and a session that speaks the protocol of spec's section
on WSS: JSON messages over a WebSocket."""

import atexit
import base64
import datetime
import hashlib
import json
import os
import shutil
import subprocess
import tempfile

from libcrypto import PrivateKey
from websocket import WebSocket


class Key:
    """An RSA key pair in `folder`."""

    def __init__(self, folder, name="key", bits=2048):
        self.path = os.path.join(folder, f"{name}-{bits}.pem")
        if not os.path.exists(self.path):
            self._openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", f"rsa_keygen_bits:{bits}", "-out", self.path)
        with open(self.path, "rb") as file:
            self.private = PrivateKey(file.read())
        self.der = self._openssl("pkey", "-in", self.path, "-pubout", "-outform", "DER")
        self.public = base64.b64encode(self.der).decode()
        self.fingerprint = base64.b64encode(hashlib.sha256(self.der).digest()).decode()

    def _openssl(self, *arguments, sent=None):
        return subprocess.run(["openssl", *arguments], input=sent, check=True, capture_output=True).stdout

    @property
    def pem(self):
        return self._openssl("pkey", "-in", self.path, "-pubout").decode()

    def sign(self, *parts, salt=32):
        """Of the parts joined by line feeds."""
        return base64.b64encode(self.private.sign("\n".join(parts).encode(), salt)).decode()

    def verifies(self, signature, *parts):
        """By the public key alone."""
        public, signed = self.path + ".pub", self.path + ".sig"
        with open(public, "w", encoding="ascii") as file:
            file.write(self.pem)
        with open(signed, "wb") as file:
            file.write(base64.b64decode(signature))
        return subprocess.run(["openssl", "dgst", "-sha256", "-sigopt", "rsa_padding_mode:pss", "-sigopt",
                               "rsa_pss_saltlen:32", "-verify", public, "-signature", signed],
                              input="\n".join(parts).encode(), capture_output=True, check=False).returncode == 0


_made = {}


def key_of(name):
    """The same key for a name in all tests of a file: making one takes a while."""
    if not _made:
        _made[None] = tempfile.mkdtemp(prefix="dlb-test-keys-")
        atexit.register(shutil.rmtree, _made[None], ignore_errors=True)
    if name not in _made:
        _made[name] = Key(_made[None], f"key{len(_made)}")
    return _made[name]


def now(seconds=0):
    time = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    return time.isoformat()


def registration(key, name, timestamp=None, **more):
    """A register message; it holds for five minutes."""
    timestamp = timestamp or now()
    return {"type": "register", "username": name, "public_key": key.public, "timestamp": timestamp,
            "signature": key.sign("dlb-register-v1", name, timestamp, key.fingerprint), **more}


class ChatClient:
    """A session on `client`. What comes live is kept in `live`, in order; resets in `resets`."""

    def __init__(self, client, path="/ws"):
        self.socket = WebSocket(client, path)
        self.live, self.resets = [], 0
        self.name, self.key = None, None

    def close(self):
        self.socket.client.close()

    def say(self, **message):
        self.socket.send(json.dumps({key.replace("message_id", "message-id"): value for key, value in message.items()}))

    def read(self):
        """The next message of any kind."""
        message = json.loads(self.socket.read_text())
        if message["type"] == "message":
            self.live.append(message["message"])
        elif message["type"] == "reset":
            self.resets += 1
        return message

    def read_until(self, *types):
        """The next message of these types."""
        while True:
            message = self.read()
            if message["type"] in types:
                return message

    def ask(self, answer, **message):
        """The answer of that type, or the error."""
        self.say(**message)
        return self.read_until(answer, "error")

    def register(self, key, name, **more):
        answer = self.ask("registered", **registration(key, name, **more))
        self.key, self.name = key, name
        return answer

    def signed(self, message_id, text):
        signature = self.key.sign("dlb-message-v1", self.name, message_id, text)
        return {"type": "message", "message_id": message_id, "msg": text, "signature": signature}

    def post(self, message_id, text):
        """The ack or the error."""
        return self.ask("ack", **self.signed(message_id, text))

    def history(self, **more):
        return self.ask("history", type="load_history", **more)

    def read_live(self, count):
        """Until so many rows have come live."""
        while len(self.live) < count:
            self.read()
        return self.live
