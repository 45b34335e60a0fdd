"""A backend inside its memory: the short form of test/support/backend_memory.py."""

import backend_memory
from case import main


class SlowReaders(backend_memory.SlowReaders):
    store = "sqlite"


if __name__ == "__main__":
    main()
