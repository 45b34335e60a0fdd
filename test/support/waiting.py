"""Waiting on conditions: no test lets a guessed time pass."""

import os
import select
import time

# Sanitizer builds are slower; the runner says by how much.
TIME_FACTOR = float(os.environ.get("DLB_TIME_FACTOR", "1"))


def pause(seconds):
    """Gives the processor away between two looks at a condition."""
    select.select([], [], [], seconds)


def wait_until(condition, timeout=10.0, what="the condition", interval=0.01):
    """Returns the first true value of condition(); an exception in it counts as "not yet". Fails after `timeout`."""
    deadline = time.monotonic() + timeout * TIME_FACTOR
    last = None
    while True:
        try:
            value = condition()
            if value:
                return value
            last = value
        except Exception as error:  # noqa: BLE001 - a server that is not there yet, for one
            last = error
        if time.monotonic() >= deadline:
            raise AssertionError(f"waited {timeout * TIME_FACTOR:.1f} s for {what}; last: {last!r}")
        pause(interval)
