#!/usr/bin/env python3
"""How the tracked code is typed: width of lines, white space, left-over markers; and that the tour of it stays short. Prints
each breach and exits 1 when there is one. What may include what, sizes of files and sleeps in tests are check_includes.py's."""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
CODE = (".cc", ".h", ".py", ".sh")
WIDTH = 130  # clang-format holds C++ at 110; strings, and lines of shell, may reach a little further
TOUR, TOUR_LINES = "ARCHITECTURE.md", 200
MARKER = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b(?!.*issue \d)")


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


def breaches(text):
    lines = text.split("\n")
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


def main():
    count = 0
    for name in tracked():
        path = os.path.join(ROOT, name)
        if not name.endswith(CODE) or not os.path.exists(path):
            continue
        with open(path, encoding="utf-8") as file:
            for number, what in breaches(file.read()):
                print(f"{name}:{number}: {what}")
                count += 1
    with open(os.path.join(ROOT, TOUR), encoding="utf-8") as file:
        if (lines := sum(1 for _ in file)) > TOUR_LINES:
            print(f"{TOUR}: {lines} lines, more than the {TOUR_LINES} that a newcomer reads")
            count += 1
    sys.exit(1 if count else 0)


if __name__ == "__main__":
    main()
