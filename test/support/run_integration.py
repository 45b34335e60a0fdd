"""Runs test files, one process each and two at a time, and adds up what they report.

  python3 test/support/run_integration.py [--programs DIR] [--only WORD]… [--time-factor X] [--workers N] [--tally FILE] [FILE…]

Without files: all of test/integration and test/regress. Output of a file is shown when something in it failed."""

import argparse
import concurrent.futures
import glob
import json
import os
import subprocess
import sys
import tempfile
import time

from scratch import scratch_folder

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def run_file(path, arguments):
    with tempfile.TemporaryDirectory(prefix="dlb-run-", dir=scratch_folder()) as folder:
        tally_path = os.path.join(folder, "tally")
        environment = dict(os.environ, PYTHONPATH=HERE, DLB_TALLY=tally_path, DLB_PROGRAMS=arguments.programs,
                           DLB_TIME_FACTOR=str(arguments.time_factor), PYTHONDONTWRITEBYTECODE="1", TMPDIR=folder)
        if arguments.workers:
            environment["DLB_WORKERS"] = str(arguments.workers)
        os.chmod(folder, 0o711)  # the user postgres passes through
        started = time.monotonic()
        limit = arguments.timeout * arguments.time_factor
        process = subprocess.Popen([sys.executable, path, *arguments.name], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment,
                                   start_new_session=True)
        try:
            output = process.communicate(timeout=limit)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)  # the file's own session: itself and what it started
            output = process.communicate()[0] + f"\ntimed out after {limit:.0f} s\n".encode()
        try:
            with open(tally_path, encoding="ascii") as file:
                tally = json.load(file)
        except (OSError, ValueError):
            tally = {"passed": 0, "failed": 1, "skipped": 0}  # it crashed or timed out
        return path, tally, output.decode(errors="replace"), time.monotonic() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", default=ROOT)
    parser.add_argument("--only", action="append", default=[], help="files whose name has this word")
    parser.add_argument("--name", action="append", default=[], help="a test's name, as unittest takes it")
    parser.add_argument("--time-factor", type=float, default=1.0)
    parser.add_argument("--workers", type=int, help="of each balancer whose test doesn't say itself")
    parser.add_argument("--timeout", type=float, default=240.0)
    parser.add_argument("--show", action="store_true", help="output of files that passed, too")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--tally", help="write passed, failed, skipped there")
    parser.add_argument("files", nargs="*")
    arguments = parser.parse_args()
    arguments.programs = os.path.realpath(arguments.programs)
    files = arguments.files or sorted(glob.glob(os.path.join(ROOT, "test", "integration", "*_test.py")) +
                                      glob.glob(os.path.join(ROOT, "test", "regress", "*_test.py")))
    # The slow ones first, so that none of them is left to run alone at the end.
    slow = ("backend", "system")
    files.sort(key=lambda path: -max((slow.index(word) + 1 for word in slow if os.path.basename(path).startswith(word)),
                                     default=0))
    if arguments.only:
        files = [path for path in files if any(word in os.path.basename(path) for word in arguments.only)]
    total = {"passed": 0, "failed": 0, "skipped": 0}
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for done in concurrent.futures.as_completed([pool.submit(run_file, path, arguments) for path in files]):
            path, tally, output, took = done.result()
            for key in total:
                total[key] += tally[key]
            print(f"  {os.path.relpath(path, ROOT)}: {tally['passed']} passed, {tally['failed']} failed, "
                  f"{tally['skipped']} skipped ({took:.1f} s)", flush=True)
            if tally["failed"] or arguments.name or arguments.show:
                print(output, flush=True)
    if not files:
        print("no test files", file=sys.stderr)
        total["failed"] += 1
    if arguments.tally:
        with open(arguments.tally, "w", encoding="ascii") as file:
            print(total["passed"], total["failed"], total["skipped"], file=file)
    sys.exit(1 if total["failed"] else 0)


main()
