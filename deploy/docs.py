#!/usr/bin/env python3
"""Writes the option and metric tables of the programs' READMEs anew from the programs themselves: `make docs`. A table is
found by its header line; the n-th printed table with a header replaces the n-th one in the README."""

import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCES = {
    "lb": (["--help-markdown"], ["ctl", "--help-markdown"], ["--metrics-markdown"]),
    "backend": (["--help-markdown"],),
    "loadgen": (["--help-markdown"], ["chat", "--help-markdown"], ["compare", "--help-markdown"], ["verify", "--help-markdown"]),
}


def tables(lines):
    """(first line, end) of each run of lines that begin with a bar."""
    start = None
    for number, line in enumerate(lines + [""]):
        if line.startswith("|") and start is None:
            start = number
        elif not line.startswith("|") and start is not None:
            yield start, number
            start = None


def renew(readme, printed):
    lines = readme.splitlines()
    fresh = [printed[start:end] for start, end in tables(printed)]
    result, position = [], 0
    for start, end in tables(lines):
        result += lines[position:start]
        match = next((table for table in fresh if table[0] == lines[start]), None)
        if match is not None:
            fresh.remove(match)
        result += match or lines[start:end]
        position = end
    if fresh:
        raise SystemExit(f"docs: no place for the table that begins with {fresh[0][0]}")
    return "\n".join(result + lines[position:]) + "\n"


def main():
    for program, calls in SOURCES.items():
        printed = []
        for arguments in calls:
            command = [os.path.join(ROOT, program, program)] + arguments
            printed += subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines() + [""]
        path = os.path.join(ROOT, program, "README.md")
        with open(path, encoding="utf-8") as file:
            before = file.read()
        after = renew(before, printed)
        if after != before:
            with open(path, "w", encoding="utf-8") as file:
                file.write(after)
            print(f"{program}/README.md renewed")


if __name__ == "__main__":
    sys.exit(main())
