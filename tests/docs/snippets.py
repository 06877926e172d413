#!/usr/bin/env python3
"""Every C++ block of README.md is a region of a program in examples/ that is built and run, word for word.

A region stands between two lines "// [readme]"; indentation that all its lines share does not count. An example says
what it shows in fewer than 40 lines of its own.
"""
import re
import sys
import textwrap
from pathlib import Path

root = Path(sys.argv[1])
faults = []
regions = {}
for path in sorted((root / "examples").glob("*.cpp")):
    text = path.read_text()
    parts = re.split(r"^\s*// \[readme\]\n", text, flags=re.M)
    if len(parts) not in (1, 3):
        faults.append(f"{path.name}: a region stands between two lines // [readme]")
    if len(parts) == 3:
        regions[path.name] = textwrap.dedent(parts[1]).strip()
    own = [line for line in text.splitlines() if line.strip() and not re.match(r"\s*//|#include", line)]
    if len(own) >= 40:
        faults.append(f"{path.name}: {len(own)} lines of its own, fewer than 40 are wanted")

blocks = [b.strip() for b in re.findall(r"^```cpp\n(.*?)^```", (root / "README.md").read_text(), flags=re.M | re.S)]
for name, region in regions.items():
    if region not in blocks:
        faults.append(f"README.md does not show the region of examples/{name}")
for block in blocks:
    if block not in regions.values():
        faults.append("README.md shows a block that no example runs:\n" + textwrap.indent(block, "    "))
print("\n".join(faults) or f"{len(blocks)} blocks, {len(regions)} regions: the same")
sys.exit(1 if faults else 0)
