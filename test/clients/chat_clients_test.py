"""Other people's WebSocket clients take part in the chat: npm's ws and Debian's python3-websockets, at a backend and through the
balancer (upgrades, its own TLS, wss-listen): `make clients`, or this file by itself."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

from case import main  # noqa: E402
from programs import run  # noqa: E402
from websocket_case import Ways  # noqa: E402

NODE = {"NODE_PATH": os.pathsep.join([os.environ.get("NODE_PATH", ""), "/usr/share/nodejs"])}


class ChatClients(Ways):
    def take_part(self, *command, **environment):
        self.scene()
        urls = {"plain": f"ws://127.0.0.1:{self.backend.port}", "tls": f"wss://127.0.0.1:{self.backend.ws_port}",
                "lb": f"ws://127.0.0.1:{self.lb.port}", "lb tls": f"wss://127.0.0.1:{self.lb.tls_port}",
                "lb wss": f"wss://127.0.0.1:{self.lb.wss_port}"}
        for number, (way, url) in enumerate(urls.items()):
            ca = self.lb.certificate if way == "lb tls" else os.path.join(self.backend.data_dir, "tls", "tls.crt")
            with self.subTest(way=way):
                code, out, err = run([*command, url + "/ws", ca, f"person{number}"], timeout=60, **environment)
                self.assertEqual(code, 0, out + err)
        self.wait_gone()
        ended = self.figures()["ended"]
        self.assertEqual({reason: count for reason, count in ended.items() if count}, {"peer": len(urls)})

    def test_npm_ws(self):
        self.take_part("node", os.path.join(HERE, "chat_ws.mjs"), **NODE)

    def test_python3_websockets(self):
        self.take_part("/usr/bin/python3", os.path.join(HERE, "chat_websockets.py"))


if __name__ == "__main__":
    main()
