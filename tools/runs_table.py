#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the table of programs under gpupool run, record and sleep --whole into docs/run.md, from what they came to
(tests/gpu/run.json).

runs_table.py            writes it
runs_table.py --check    fails if the page has another one
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/run.md"
RECORD = ROOT / "tests/gpu/run.json"
MARKED = re.compile(r"(<!-- runs -->\n).*?(<!-- end of runs -->)", re.DOTALL)


def cell(record: dict, program: str, means: str) -> str:
    """The newest comes last."""
    found = [each for each in record["ran"] if (each["program"], each["means"]) == (program, means)]
    if not found:
        return "not run"
    row = found[-1]
    version = f"{row['version']}: " if row["version"] else ""
    return f"{version}{row['outcome']} ({row['card'].removeprefix('NVIDIA ')})"


def table(record: dict) -> str:
    """Programs by means, and where that was."""
    for row in record["ran"]:
        if row["program"] not in record["programs"] or row["means"] not in record["means"]:
            sys.exit(f"run.json has no row or no column for {row['program']} under {row['means']}")
    means = record["means"]
    text = f"| program | {' | '.join(f'`{each}`' for each in means)} |\n" + "|---" * (len(means) + 1) + "|\n"
    for program in record["programs"]:
        cells = [cell(record, program, each) for each in means]
        text += f"| {program} | {' | '.join(cells)} |\n"
    drivers: dict[str, list[str]] = {}
    for row in filter(lambda row: row["driver"], record["ran"]):
        known = drivers.setdefault(row["card"], [])
        if row["driver"] not in known:
            known.append(row["driver"])
    places = [f"{card} with driver {', '.join(known)}" for card, known in drivers.items()]
    return text + f"\nOn {', on '.join(places)}.\n"


def main() -> int:
    text = PAGE.read_text(encoding="utf-8")
    found = MARKED.search(text)
    if found is None:
        sys.exit(f"{PAGE.name} has no place for the table: <!-- runs -->")
    made = table(json.loads(RECORD.read_text(encoding="utf-8")))
    wanted = text[: found.start()] + found[1] + made + found[2] + text[found.end() :]
    if text == wanted:
        return 0
    if "--check" in sys.argv:
        print("docs/run.md has another table than tests/gpu/run.json: run tools/runs_table.py")
        return 1
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
