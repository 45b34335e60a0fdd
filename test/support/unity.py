"""Puts source files into groups that are compiled as one, for builds that are made once and thrown away: most of the time
of a compile goes into the headers, and a group reads them once. The Makefile asks for it with UNITY=1.

  python3 test/support/unity.py FOLDER SOURCE…     writes FOLDER/PART_0.cc …, prints their paths

Files meet in one group only when no name that one of them keeps to itself (unnamed namespace, static, #define) appears in
another, so that no name can mean something else than in the file alone. Tests, which all have a `Scene` and an `at`, are
written into the group with a name of its own for their unnamed namespace instead, where all of them stands in it. Members of a
group are of one part of the tree; its first line names them. A group that does not compile all the same is compiled file by
file (see the Makefile): it costs time, nothing else."""

import os
import re
import sys

MOST_FILES = {"test": 18, "program": 12}
MOST_LINES = {"test": 3300, "program": 2200}
NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)
WORD = re.compile(r"(?<![\w.])(?<!->)[A-Za-z_]\w*")  # not what follows a dot or an arrow: members meet nobody
HIDDEN = re.compile(r"^namespace \{$(.*?)^\} *// namespace$", re.M | re.S)
TYPE = re.compile(r"^(?:template <.*> )?(?:struct|class|enum class|enum|union)\s+(\w+)|^using (\w+) =")
BORROWED = re.compile(r"^using [^=]*;")  # two files may borrow the same
DEFINE = re.compile(r"^#define\s+(\w+)", re.M)
WHOLE = re.compile(r"^\}  // namespace\n+(?:\}  // namespace [\w:]+\n)?\Z", re.M)
STATIC = re.compile(r"^static\s.*", re.M)


def declared(line):
    """The name that a line at the outermost level declares, if it does."""
    match = TYPE.match(line)
    if match:
        return match.group(1) or match.group(2)
    if BORROWED.match(line):
        return None
    words = re.findall(r"\w+", re.split(r"[(={\[;]", re.sub(r"^template <[^()]*>\s*", "", line))[0])
    return words[-1] if words and not words[-1].isupper() and len(re.findall(r"\w+", line)) > 1 else None


def renamed(path, text):
    """Whether all of a test stands in one unnamed namespace, so that another name for it changes nothing."""
    return path.startswith("test/unit/") and text.count("\nnamespace {\n") == 1 and WHOLE.search(text)


def names(path):
    """(what the file keeps to itself, all it speaks of, its number of lines)"""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    bare = NOISE.sub('""', text)
    hidden = [] if renamed(path, text) else HIDDEN.findall(text)
    lines = NOISE.sub('""', "".join(hidden)).split("\n") + STATIC.findall(bare)
    own = {declared(line) for line in lines if line[:1].isalpha()} | set(DEFINE.findall(bare))
    return own - {None, "static_assert"}, set(WORD.findall(bare)), text.count("\n")


def groups(paths):
    """Lists of files that may be compiled as one; each file goes to the first list that takes it."""
    found = []
    for path in paths:
        own, used, lines = names(path)
        kind = "test" if path.startswith("test/") else "program"
        for group in found:
            if len(group["files"]) < MOST_FILES[kind] and group["lines"] + lines <= MOST_LINES[kind] and \
                    not own & group["used"] and not used & group["own"]:
                break
        else:
            group = {"files": [], "own": set(), "used": set(), "lines": 0}
            found.append(group)
        group["files"].append(path)
        group["own"] |= own
        group["used"] |= used
        group["lines"] += lines
    return [group["files"] for group in found]


def part(path):
    """common, lb, …, or unit_lb for test/unit/lb: what is linked together."""
    folders = path.split("/")
    return f"unit_{folders[2]}" if folders[:2] == ["test", "unit"] else folders[0]


def member(path):
    """What stands in a group for the file."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if not renamed(path, text):
        return f'#include "{path}"\n'
    own = re.sub(r"\W", "_", path.removeprefix("test/unit/").removesuffix(".cc"))
    return f'#line 1 "{path}"\n' + re.sub(r"^namespace \{$", f"namespace in_{own} {{", text, flags=re.M)


def main():
    folder, paths = sys.argv[1], sys.argv[2:]
    os.makedirs(folder, exist_ok=True)
    for name in sorted({part(path) for path in paths}):
        for number, files in enumerate(groups(sorted(path for path in paths if part(path) == name))):
            target = os.path.join(folder, f"{name}_{number}.cc")
            text = f"// of {' '.join(files)}\n" + "".join(map(member, files))
            try:
                with open(target, encoding="utf-8") as file:
                    old = file.read()
            except OSError:
                old = None
            if text != old:  # untouched when it is the same, so that nothing is compiled again
                with open(target, "w", encoding="utf-8") as file:
                    file.write(text)
            print(target)


main()
