"""One person of the chat by Debian's python3-websockets (part of `make clients`): registers, sends a signed message, gets its
ack and the message itself, finds it in the history, says goodbye.

  /usr/bin/python3 test/clients/chat_websockets.py URL CA USERNAME"""

import asyncio
import json
import os
import ssl
import sys
import tempfile

import websockets

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from chat_client import Key, registration  # noqa: E402


async def person(url, ca, name, key):
    context = ssl.create_default_context(cafile=ca) if url.startswith("wss") else None
    async with websockets.connect(url, ssl=context) as socket:
        async def ask(wanted, message):
            await socket.send(json.dumps(message))
            return await read(wanted)

        async def read(wanted):
            while True:
                message = json.loads(await socket.recv())
                if message["type"] in (wanted, "error"):
                    return message
                early.append(message)

        early = []
        assert await ask("registered", registration(key, name)) == {"type": "registered", "username": name}
        message_id, text = f"{name}-1", "h\u00e9llo \U0001f600 from websockets"
        ack = await ask("ack", {"type": "message", "message-id": message_id, "msg": text,
                                "signature": key.sign("dlb-message-v1", name, message_id, text)})
        assert (ack["type"], ack.get("message-id"), ack.get("duplicate")) == ("ack", message_id, False), ack
        told = [one["message"] for one in early if one["type"] == "message"]
        while not any(one["message-id"] == message_id for one in told):
            told.append((await read("message"))["message"])
        live = told[-1]
        assert (live["msg"], live["client-name"], live["sequence"], live["source"]) == (text, name, ack["sequence"], "wss"), live
        history = await ask("history", {"type": "load_history", "limit": 100})
        assert [one for one in history["messages"] if one["message-id"] == message_id] == [live], history
        await asyncio.wait_for(await socket.ping(), 20)
        await socket.close(1000, "bye")
        assert socket.close_code == 1000, socket.close_code


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(person(*sys.argv[1:4], Key(folder)))
