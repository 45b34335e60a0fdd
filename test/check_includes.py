#!/usr/bin/env python3
"""Rules of the tree that a machine can judge from the sources alone. Prints `file:line: what` and exits 1 on a breach.

  - `common` includes only common; `lb`, `backend` and `loadgen` include themselves and common; tests may include all
  - `lb/policy` is pure: of common only the value headers in POLICY_COMMON, of lb only itself
  - heavy library headers stand in .cc files only, so that including one of ours stays cheap
  - a header has `#pragma once` and begins with a comment that says what it is
  - C++ files have at most 600 lines; no absolute path of some machine; tests wait on conditions, never by sleeping

  test/check_includes.py [--root DIR]     test/check_includes.py --self-test"""

import argparse
import os
import re
import sys
import tempfile

PROGRAMS = ("lb", "backend", "loadgen")
PARTS = ("common",) + PROGRAMS
POLICY_COMMON = {"clock.h", "rng.h", "result.h", "check.h", "handle.h"}
POLICY_BANNED = re.compile(r"^(sys/|net/|arpa/|netinet/|unistd\.h|fcntl\.h|poll\.h|signal\.h|time\.h|ctime|fstream|"
                           r"iostream|thread|mutex)")
HEAVY = re.compile(r"^(toml\+\+/|simdjson|fmt/|spdlog|libpq|postgresql/|sqlite3|openssl/|zlib|llhttp|catch2/|regex$|iostream$)")
CODE = (".cc", ".h")
MAX_LINES = 600
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
MACHINE_PATH = re.compile(r"""(?<![\w/.])/(work|root|home/\w+|Users/\w+|tmp/brief)(/|\b(?!/))""")
SLEEPS = re.compile(r"\b(sleep" r"_for|sleep" r"_until|u" r"sleep|nano" r"sleep|(time|asyncio)\.s" r"leep)\b"
                    r"|(?<![\w.])s" r"leep\s*\(|^\s*s" r"leep\s+[\d$.]")
SELF = "test/check_includes.py"
TEXT = CODE + (".py", ".sh", ".md", ".mk", ".toml", ".conf", ".yml", ".yaml", ".service", "Makefile", ".ci/run")


def sources(root):
    """Relative names of all text files that are ours."""
    for folder, folders, names in os.walk(root):
        relative = os.path.relpath(folder, root)
        folders[:] = sorted(name for name in folders
                            if name not in (".git", "__pycache__", "node_modules") and not (relative == "." and name == "build"))
        for name in sorted(names):
            path = os.path.normpath(os.path.join(relative, name))
            if path.endswith(TEXT):
                yield path


def include_breaches(name, lines):
    part = name.split(os.sep)[0]
    folder = os.path.dirname(name)
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        quoted, target = match.group(1) == '"', match.group(2)
        target_part = target.split("/")[0]
        if not quoted:
            if name.endswith(".h") and not name.startswith("test" + os.sep) and HEAVY.match(target):
                yield number, f"<{target}> in a header: include it in the .cc file only"
            if folder == os.path.join("lb", "policy") and POLICY_BANNED.match(target):
                yield number, f"lb/policy is pure: it may not include <{target}>"
            if target_part in PARTS:
                yield number, f"<{target}>: our own headers are included with quotes"
            continue
        if name.endswith(".h") and part in PARTS and HEAVY.match(target):
            yield number, f'"{target}" in a header: include it in the .cc file only'
        if part not in PARTS:
            continue
        if target_part not in PARTS or "/" not in target or ".." in target:
            yield number, f'"{target}": write our headers by their full name from the root, as in "common/fd.h"'
        elif part == "common" and target_part != "common":
            yield number, f'common may not include "{target}": common knows none of the programs'
        elif part in PROGRAMS and target_part not in (part, "common"):
            yield number, f'{part} may not include "{target}": programs share only common'
        elif folder == os.path.join("lb", "policy") and not target.startswith("lb/policy/"):
            if not (target_part == "common" and target[len("common/"):] in POLICY_COMMON):
                allowed = ", ".join(sorted(POLICY_COMMON))
                yield number, f'lb/policy may not include "{target}": only lb/policy/* and, of common, {allowed}'


def header_breaches(lines):
    code = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not any(line.strip() == "#pragma once" for _, line in code):
        yield 1, "no #pragma once"
    if not code or not code[0][1].startswith(("//", "/*")):
        yield 1, "no comment at the head: say what the file decides or holds"


def breaches(name, text):
    lines = text.split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    in_test = name.startswith("test" + os.sep)
    if name.endswith(CODE):
        yield from include_breaches(name, lines)
        if len(lines) > MAX_LINES:
            yield MAX_LINES + 1, f"{len(lines)} lines: split it where the concept splits"
    if name.endswith(".h"):
        yield from header_breaches(lines)
    if name == SELF:
        return  # holds the patterns themselves
    for number, line in enumerate(lines, 1):
        if MACHINE_PATH.search(line):
            yield number, "an absolute path of some machine"
        if in_test and name != os.path.join("test", "check_style.py") and SLEEPS.search(line):
            yield number, "a sleep in a test: wait on a condition"


def check(root):
    found = []
    for name in sources(root):
        with open(os.path.join(root, name), encoding="utf-8", errors="replace") as file:
            found += [(name, number, what) for number, what in breaches(name, file.read())]
    return found


HEAD = "// What it is.\n#pragma once\n"
PLANTED = {  # file: (text, line of each breach)
    "common/good.h": (HEAD + '#include <vector>\n#include "common/fd.h"\n', []),
    "common/good.cc": ('#include "common/good.h"\n\n#include <fmt/core.h>\n', []),
    "lb/good.cc": ('#include "lb/router.h"\n#include "common/fd.h"\n#include "lb/policy/score.h"\n', []),
    "lb/policy/good.h": (HEAD + '#include <cstdint>\n#include "common/clock.h"\n#include "lb/policy/view.h"\n', []),
    "test/unit/good_test.cc": ('#include "lb/router.h"\n#include "backend/message.h"\nint sleepy(int);\n', []),
    "deploy/good.sh": ("cd /usr/share/llhttp && echo /homework /workers\nsleep 1\n", []),
    "common/up.cc": ('\n#include "lb/router.h"\n', [2]),
    "backend/sideways.h": (HEAD + '#include "lb/router.h"\n', [3]),
    "loadgen/sideways.cc": ('#include "backend/message.h"\n', [1]),
    "lb/short.cc": ('#include "router.h"\n', [1]),
    "lb/dots.cc": ('#include "lb/../common/fd.h"\n', [1]),
    "lb/angle.cc": ("#include <common/fd.h>\n", [1]),
    "lb/policy/impure.cc": ('#include "common/fd.h"\n#include "lb/router.h"\n#include <unistd.h>\n', [1, 2, 3]),
    "common/heavy.h": (HEAD + "#include <toml++/toml.h>\n#  include <openssl/ssl.h>\n#include <simdjson.h>\n", [3, 4, 5]),
    "common/heavy_quoted.h": (HEAD + '#include "fmt/core.h"\n', [3, 3]),
    "common/no_pragma.h": ("// Something.\nint x;\n", [1]),
    "common/no_comment.h": ("#pragma once\n// Late.\n", [1]),
    "common/long.cc": ("\n" * 601, [601]),
    "common/limit.cc": ("\n" * 600, []),
    "common/path.cc": ('const char* p = "/wo' 'rk/x";\n// see /ro' 'ot\n', [1, 2]),
    "test/integration/slow_test.py": ("import time\ntime.sle" "ep(1)\n", [2]),
    "test/slow.sh": ("echo\nsle" "ep 1\n", [2]),
    "test/unit/slow_test.cc": ("std::this_thread::sleep" "_for(1s);\nusle" "ep(3);\n", [1, 2]),
}


def self_test():
    with tempfile.TemporaryDirectory() as root:
        for name, (text, _) in PLANTED.items():
            path = os.path.join(root, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        found = {}
        for name, number, _ in check(root):
            found.setdefault(name, []).append(number)
        wrong = [(name, sorted(lines), sorted(found.get(name, []))) for name, (_, lines) in PLANTED.items()
                 if sorted(found.get(name, [])) != sorted(lines)]
    for name, expected, got in wrong:
        print(f"self-test: {name}: breaches expected in lines {expected}, found in {got}")
    return not wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    parser.add_argument("--self-test", action="store_true", help="plant breaches in a fresh folder and find each of them")
    arguments = parser.parse_args()
    # A checker that finds nothing proves nothing: the planted breaches come first, always.
    if not self_test():
        sys.exit(1)
    if arguments.self_test:
        print(f"self-test: {len(PLANTED)} files judged as expected")
        return
    found = check(arguments.root)
    for name, number, what in found:
        print(f"{name}:{number}: {what}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
