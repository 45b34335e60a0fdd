"""The pure part of a profile: what strace -c and perf script print, folded and drawn. Text in, values and SVG out.

A stack is a tuple of frames, outermost first; a frame is (name, kind), kind one of program, library, kernel."""

import html
import re

KINDS = ("program", "library", "kernel")
FRAME = re.compile(r"^\s+[0-9a-f]+ (?P<symbol>.*) \((?P<object>[^()]*(?:\([^()]*\)[^()]*)?)\)$")
OFFSET = re.compile(r"\+0x[0-9a-f]+$")


def short_name(symbol):
    """`dlb::lb::Router::pick` of a whole signature: without arguments, template arguments and return type."""
    name = symbol.replace("(anonymous namespace)::", "")
    out, depth = [], 0
    for at, char in enumerate(name):
        if char == "<" and not name.startswith("operator", max(0, at - 8)):
            depth += 1
        elif char == ">" and depth and name[at - 1] != "-":
            depth -= 1
        elif char == "(" and depth == 0 and not name.startswith("operator", max(0, at - 8)):
            break
        elif depth == 0:
            out.append(char)
    text = "".join(out).strip()
    return text.split(" ")[-1] if "operator" not in text and text else text or symbol


def kind_of(dso, program):
    if dso.startswith("[kernel") or dso.endswith(".ko") or dso == "[guest.kernel]":
        return "kernel"
    return "program" if dso.rsplit("/", 1)[-1].split(" ")[0] == program else "library"


def stacks_of(text, program):
    """Stack -> samples, of `perf script -F comm,ip,sym,dso`. Frames without a name are called by their object."""
    stacks, frames, comm = {}, [], ""

    def take():
        if comm:
            stack = ((comm, "program"), *reversed(frames))
            stacks[stack] = stacks.get(stack, 0) + 1

    for line in text.splitlines():
        if not line.strip():
            take()
            frames, comm = [], ""
        elif not line[0].isspace() or not comm:
            comm = line.strip().split(":")[0].strip() or "?"
        elif match := FRAME.match(line):
            symbol, dso = OFFSET.sub("", match["symbol"]), match["object"]
            if symbol in ("[unknown]", ""):
                symbol = f"[{dso.rsplit('/', 1)[-1].strip('[]')}]"
            frames.append((symbol, kind_of(dso, program)))
    take()
    return stacks


def self_samples(stacks):
    """[(name, kind, samples)] by the innermost frame, most first."""
    counts = {}
    for stack, samples in stacks.items():
        counts[stack[-1]] = counts.get(stack[-1], 0) + samples
    return [(name, kind, samples) for (name, kind), samples in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]


def strace_calls(text):
    """System call -> calls, of the table of strace -c."""
    calls = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) in (5, 6) and re.fullmatch(r"[\d.,]+", fields[0]) and fields[-1] != "total":
            calls[fields[-1]] = calls.get(fields[-1], 0) + int(fields[3])
    return calls


def calls_per_request(few, many):
    """[(system call, a request)], most first; `few` and `many` are (calls, requests) of a shorter and a longer count, so that
    attaching and detaching cancel out. None when the second had no more requests than the first."""
    requests = many[1] - few[1]
    if requests <= 0:
        return None
    names = set(few[0]) | set(many[0])
    rows = [(name, (many[0].get(name, 0) - few[0].get(name, 0)) / requests) for name in names]
    return sorted((row for row in rows if row[1] > 0), key=lambda row: (-row[1], row[0]))


class Node:
    """A frame with all that ran below it in the same place."""

    def __init__(self, name, kind):
        self.name, self.kind, self.samples, self.inner = name, kind, 0, {}


def tree_of(stacks):
    root = Node("all", "program")
    for stack, samples in sorted(stacks.items()):
        root.samples += samples
        node = root
        for name, kind in stack:
            node = node.inner.setdefault((name, kind), Node(name, kind))
            node.samples += samples
    return root


ROW, WIDTH, MARGIN, HEAD, LETTER = 17, 1200, 10, 34, 6.6
STYLE = """
svg { --back: #f2f4f7; --text: #171a1f; --soft: #57616e; --program: #9dbdf2; --library: #95d3cc; --kernel: #f0c48d; }
@media (prefers-color-scheme: dark) {
  svg { --back: #0e1013; --text: #e6e9ed; --soft: #9ba5b2; --program: #2c4f8f; --library: #1d625b; --kernel: #7a4d17; }
}
text { font: 11px ui-monospace, "SF Mono", Menlo, Consolas, monospace; fill: var(--text); }
.back { fill: var(--back); }
.title { font: 600 14px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
.soft { font-family: system-ui, sans-serif; fill: var(--soft); }
g:hover > rect { stroke: var(--text); }
rect.program { fill: var(--program); } rect.library { fill: var(--library); } rect.kernel { fill: var(--kernel); }
"""


def boxes_of(root, least_pixels=0.3):
    """(node, x, width, depth) in pixels, the root below all; what is narrower than `least_pixels` is left out."""
    scale = (WIDTH - 2 * MARGIN) / root.samples if root.samples else 0
    boxes, pending = [], [(root, float(MARGIN), 0)]
    while pending:
        node, x, depth = pending.pop()
        width = node.samples * scale
        if width < least_pixels:
            continue
        boxes.append((node, x, width, depth))
        for inner in sorted(node.inner.values(), key=lambda each: each.name):
            pending.append((inner, x, depth + 1))
            x += inner.samples * scale
    return boxes


def flame_svg(stacks, title):
    """A flame graph: width is the share of samples, callers are below; the pointer shows the whole name."""
    root = tree_of(stacks)
    boxes = boxes_of(root)
    height = HEAD + MARGIN + ROW * (1 + max((depth for _, _, _, depth in boxes), default=0))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
           f"<title>{html.escape(title)}</title><style>{STYLE}</style>",
           f'<rect class="back" width="{WIDTH}" height="{height}"/>',
           f'<text class="title" x="{MARGIN}" y="21">{html.escape(title)}</text>',
           f'<text class="soft" x="{WIDTH - MARGIN}" y="21" text-anchor="end">{root.samples} samples · '
           "blue: the program, green: libraries, orange: the kernel</text>"]
    for node, x, width, depth in boxes:
        y = height - MARGIN - ROW * (depth + 1)
        share = 100 * node.samples / root.samples if root.samples else 0
        out.append(f'<g><title>{html.escape(node.name)}: {node.samples} samples, {share:.1f} %</title>'
                   f'<rect class="{node.kind}" x="{x:.1f}" y="{y}" width="{max(0.2, width - 0.5):.1f}" height="{ROW - 1}" '
                   'rx="1.5"/>')
        letters = int((width - 6) / LETTER)
        if letters >= 3:
            text = short_name(node.name)
            text = text if len(text) <= letters else text[: letters - 1] + "…"
            out.append(f'<text x="{x + 3:.1f}" y="{y + 12}">{html.escape(text)}</text>')
        out.append("</g>")
    return "\n".join(out) + "\n</svg>\n"
