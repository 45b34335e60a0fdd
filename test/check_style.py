#!/usr/bin/env python3
"""Style that a machine can judge, over the tracked files: size of files, width of lines, left-over markers, white space,
sleeps in tests. Prints each breach and exits 1 when there is one."""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
CODE = (".cc", ".h", ".py", ".sh")
WIDTH = 130  # clang-format holds C++ at 110; strings, and lines of shell, may reach a little further
LINES = 600
MARKER = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b(?!.*issue \d)")
SLEEP = re.compile(r"\b(sleep_for|usleep|nanosleep|time\.sleep)\b|(?<![\w.])sleep ?\(")


def tracked():
    """The files of the tree: what git knows, or everything when this is no checkout."""
    try:
        out = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, check=True).stdout
        return [name for name in out.decode().split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        found = []
        for folder, folders, names in os.walk(ROOT):
            folders[:] = [name for name in folders if name not in ("build", ".git")]
            found += [os.path.relpath(os.path.join(folder, name), ROOT) for name in names]
        return found


def breaches(name, text):
    lines = text.split("\n")
    if len(lines) > LINES:
        yield 0, f"{len(lines)} lines; split it where the concept splits"
    if text and not text.endswith("\n"):
        yield len(lines), "no newline at the end"
    for number, line in enumerate(lines, 1):
        if len(line) > WIDTH:
            yield number, f"{len(line)} characters wide"
        if line != line.rstrip():
            yield number, "white space at the end of the line"
        if "\t" in line:
            yield number, "a tab"
        if MARKER.search(line):
            yield number, "a left-over marker without an issue number"
        if name.startswith("test/") and name != "test/check_style.py" and SLEEP.search(line):
            yield number, "a sleep in a test: wait on a condition"


def main():
    count = 0
    for name in tracked():
        path = os.path.join(ROOT, name)
        if not name.endswith(CODE) or not os.path.exists(path):
            continue
        with open(path, encoding="utf-8") as file:
            for number, what in breaches(name, file.read()):
                print(f"{name}:{number}: {what}")
                count += 1
    sys.exit(1 if count else 0)


if __name__ == "__main__":
    main()
