"""Runs unit-test programs (Catch2), two at a time, and adds up their test cases. Output is shown when something failed.

  python3 test/support/run_unit.py [--tally FILE] PROGRAM…"""

import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import time

from scratch import scratch_folder


def count(output, code):
    """(passed, failed, skipped) from Catch2's last lines, versions 2 and 3."""
    done = re.search(r"^All tests passed \(\d+ assertions? in (\d+) test cases?\)", output, re.M)
    if done:
        passed, failed, skipped = int(done.group(1)), 0, 0
    else:
        line = re.search(r"^test cases:(.*)$", output, re.M)
        part = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|skipped)", line.group(1) if line else "")}
        passed, failed, skipped = part.get("passed", 0), part.get("failed", 0), part.get("skipped", 0)
    if code != 0 and failed == 0:
        failed = 1  # a crash, or a sanitizer's verdict
    return passed, failed, skipped


def run(path):
    started = time.monotonic()
    environment = dict(os.environ)
    if scratch_folder():
        environment["TMPDIR"] = scratch_folder()
    try:
        done = subprocess.run([path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=environment, timeout=300)
        output, code = done.stdout.decode(errors="replace"), done.returncode
    except subprocess.TimeoutExpired as error:
        output, code = (error.stdout or b"").decode(errors="replace") + "\ntimed out", 124
    return path, count(output, code), output, code, time.monotonic() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tally")
    parser.add_argument("programs", nargs="+")
    arguments = parser.parse_args()
    total = [0, 0, 0]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for done in concurrent.futures.as_completed([pool.submit(run, path) for path in arguments.programs]):
            path, tally, output, code, took = done.result()
            total = [sum(pair) for pair in zip(total, tally)]
            print(f"  {os.path.relpath(path)}: {tally[0]} passed, {tally[1]} failed, {tally[2]} skipped ({took:.1f} s)",
                  flush=True)
            if code != 0:
                print(output[-30000:], flush=True)
    if arguments.tally:
        with open(arguments.tally, "w", encoding="ascii") as file:
            print(*total, file=file)
    sys.exit(1 if total[1] else 0)


main()
