#!/usr/bin/env python3
"""Which test shows which requirement: docs/requirements.txt beside the names of the tests.

A test shows the ids that its case name begins with ("N8 N10 every draw lands on a neighbour"). Programs that must not
compile, examples and tests that ctest alone knows say theirs in a line "shows: L2" behind // or #.

  requirements.py             writes docs/requirements.md
  requirements.py --check     fails where an id has no test, a test names no known id, or docs/requirements.md is old
  requirements.py --missing   lists the ids that no test shows
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "docs/requirements.txt"
PAGE = ROOT / "docs/requirements.md"
ID = r"(?:[NLCSMAFKGQPX]\d{1,2}|B\d{2,3})"
CASE = re.compile(r'\bTEST_CASE(?:_TEMPLATE|_FIXTURE|_TEMPLATE_DEFINE)?\s*\(\s*(?:\w+\s*,\s*)?((?:"(?:[^"\\]|\\.)*"\s*)+)')
SHOWS = re.compile(rf"^\s*(?://|#)\s*shows:((?:\s+{ID})+)\s*$", re.M)


def read_list():
    """The sections in order, each with its (id, where, title) rows."""
    sections = []
    for line in LIST.read_text().splitlines():
        if line.startswith("## "):
            sections.append((line[3:], []))
        elif line.strip() and not line.startswith("#"):
            name, where, title = (field.strip() for field in line.split("|"))
            assert where in ("core", "both", "amp_torch", "any", "processes"), line
            sections[-1][1].append((name, where, title))
    return sections


def read_tests():
    """Pairs of (id, file, case name) in the order of files and cases."""
    shown = []
    files = sorted(p for d in ("tests", "examples") for e in ("*.cpp", "CMakeLists.txt", "*.py") for p in (ROOT / d).rglob(e))
    for path in files:
        text = path.read_text(errors="replace")
        relative = path.relative_to(ROOT).as_posix()
        for match in CASE.finditer(text):
            name = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', match[1])).replace('\\"', '"')
            for word in name.split():
                if not re.fullmatch(ID, word):
                    break
                shown.append((word, relative, name))
        for match in SHOWS.finditer(text):
            shown += [(word, relative, "") for word in match[1].split()]
    return shown


def is_torch(path):
    return path.startswith("tests/app/amp_torch/")


def missing(sections, shown):
    """The halves that no test shows, as (id, half, title)."""
    lacks = []
    for _, rows in sections:
        for name, where, title in rows:
            files = [f for i, f, _ in shown if i == name]
            if where == "any" and not files:
                lacks.append((name, "", title))
            if where in ("core", "both") and all(f.startswith("tests/app/") for f in files):
                lacks.append((name, "core", title))
            if where in ("both", "amp_torch") and not any(map(is_torch, files)):
                lacks.append((name, "amp_torch", title))
    return lacks


def page(sections, shown):
    lines = ["# Requirements, and the test that shows each", "",
             "Made by `python3 scripts/requirements.py` from docs/requirements.txt and the names of the tests; a test checks that",
             "no id lacks a test and no test names an id that is not here.", ""]
    for heading, rows in sections:
        lines += [f"## {heading}", "", "| id | what | shown by |", "|---|---|---|"]
        for name, where, title in rows:
            cases = []
            for ident, path, case in shown:
                if ident == name:
                    text = case.replace("|", "\\|").replace("<", "&lt;")
                    cases.append(f"`{path}`" + (f": {text}" if text else ""))
            if where == "processes" and not cases:
                cases = ["needs several processes: not part of the toolkit on one machine"]
            lines.append(f"| {name} | {title} | " + "<br>".join(cases) + " |")
        lines.append("")
    return "\n".join(lines)


def main():
    mode = sys.argv[1] if len(sys.argv) > 1 else "--write"
    sections, shown = read_list(), read_tests()
    known = {name for _, rows in sections for name, _, _ in rows}
    lacks = missing(sections, shown)
    if mode == "--missing":
        for name, half, title in lacks:
            print(f"{name}{' (' + half + ')' if half else ''}: {title}")
        print(f"{len(known) - len({n for n, _, _ in lacks})} of {len(known)} ids shown")
        return 0
    if mode == "--write":
        PAGE.write_text(page(sections, shown))
        return 0
    if mode != "--check":
        print(__doc__, file=sys.stderr)
        return 2
    faults = [f"{n}: no {h + ' ' if h else ''}test shows it ({t})" for n, h, t in lacks]
    # From B48 on, known problems are the app's, and not in the list.
    faults += [f"{f}: {c!r} names {i}, which docs/requirements.txt lacks" for i, f, c in shown
               if i not in known and not re.fullmatch(r"B(4[89]|[5-9]\d|1\d\d)", i)]
    if not PAGE.exists() or PAGE.read_text() != page(sections, shown):
        faults.append("docs/requirements.md is old: run python3 scripts/requirements.py")
    print("\n".join(faults) or f"{len(known)} ids, {len(shown)} references: all shown")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
