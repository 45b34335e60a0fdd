"""The loads on the balancer's memory in full (L16, L18): 2,500 clients beside 64 feeds of 16 MiB in a cgroup of 64 MiB,
and 200 slow readers of 16 MiB beside 1,000 clients whose heads come a byte a second. Run by `make soak`."""

import resource

import memory_load
from case import main


class RealCgroup(memory_load.ClientsAndFeeds):
    CLIENTS, FEEDS, REPORT = 2500, 64, True


class SlowOnes(memory_load.SlowOnes):
    READERS, LORIS, BYTES, REQUESTS, REPORT = 200, 1000, 10, 2000, True


if __name__ == "__main__":
    wanted = 8192  # descriptors, this process's own
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        wanted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    main()
