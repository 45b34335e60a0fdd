"""150 slow readers of a history of 20 MB on a backend in a cgroup of 64 MiB, over both stores: no OOM kill, messages go on, and
everybody gets all of it in the end (B6, B8). Run by `make soak`."""

import backend_memory
from case import main
from memory_cgroup import MIB


class OnSqlite(backend_memory.SlowReaders):
    READERS, REPLAYS, HISTORY, FINISH, REPORT = 150, 20, 20 * MIB, True, True
    store = "sqlite"


class OnPostgres(OnSqlite):
    store = "postgres"


if __name__ == "__main__":
    main()
