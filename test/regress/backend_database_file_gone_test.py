"""Symptom: with its SQLite file deleted under it a backend went on to acknowledge messages into the file that had no
name any more; they were gone with the process."""

import json
import os

from case import Case, main


class DatabaseFileGone(Case):
    def test_acknowledged_messages_are_in_the_file_that_is_there(self):
        backends = self.chat_backends(2)
        self.assertEqual(backends[0].post({"client-name": "A", "msg": "old"}).status, 201)
        folder = backends[0].data_dir
        for name in os.listdir(folder):
            if name.startswith("chat.db"):
                os.unlink(os.path.join(folder, name))
        for index in range(6):
            message = {"client-name": "A", "msg": f"new {index}", "message-id": f"n{index}"}
            self.assertEqual(backends[index % 2].post(message).status, 201)
        feeds = [json.loads(backend.fetch("/feed").body)["messages"] for backend in backends]
        self.assertEqual(feeds[0], feeds[1])
        for backend in backends:
            self.assertEqual(backend.terminate(), 0)
            backend.start()
        stored = [message["message-id"] for message in json.loads(backends[0].fetch("/feed").body)["messages"]]
        self.assertEqual(stored, [f"n{index}" for index in range(6)])


if __name__ == "__main__":
    main()
