"""LB-19 at its full length: a thousand reloads under load, one after the other, with backends that come, go and move."""

import json
import signal

from lb_case import LbCase, main
from programs import SANITIZED
from traffic import Traffic, threads
from waiting import wait_until

ROUNDS = 1000


class Reloads(LbCase):
    def test_lb_19_a_thousand_reloads_leave_memory_files_and_threads_flat(self):
        a, b, c, moved = self.scripted(name="a"), self.scripted(), self.scripted(), self.scripted(name="a")
        balancer = self.balancer(a, b, c, workers=2)
        files = [([a, b, c], {}), ([b, c], {"client_idle_timeout": "30s"}), ([moved, c], {"threshold": 50}),
                 ([moved, b], {"proxy_buffer_bytes": "32KiB"}), ([c, a], {"policy": "least_conn"})]

        def rounds(first, count):
            for number in range(first, first + count):
                backends, options = files[number % len(files)]
                balancer.configure(backends, **options)
                before = balancer.status()["configuration"]["generation"]
                balancer.signal(signal.SIGHUP)
                wait_until(lambda: balancer.status()["configuration"]["generation"] > before,  # noqa: B023
                           20, f"reload {number}", interval=0.002)

        def figures():
            return balancer.rss(), threads(balancer), balancer.open_files()

        with Traffic(balancer) as traffic:
            rounds(0, 100)
            before = figures()
            rounds(100, ROUNDS)
            after = figures()
            traffic.goes_on()
            requests = traffic.total()
        configuration = balancer.status()["configuration"]
        print(json.dumps({"reloads": configuration["reloads"], "requests": requests, "before": before, "after": after}))
        self.assertEqual(configuration["reloads_failed"], 0)
        if not SANITIZED:
            self.assertLess(after[0] - before[0], 1 << 20)
        wait_until(lambda: threads(balancer) <= before[1], 5, "the threads")


if __name__ == "__main__":
    main()
