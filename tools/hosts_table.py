#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the tables of other people's programs into pages, from what the tests came to.

docs/frameworks.md: hosts of gpupool's headers (tests/hosts/hosts.json); docs/run.md: programs under gpupool run, record
and sleep --whole (tests/gpu/run.json).

hosts_table.py            writes them
hosts_table.py --check    fails if a page has another one
"""

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def host_row(host: dict) -> str:
    ways: dict[str, list[str]] = {}
    for tried in host["tried"]:
        ways.setdefault(tried["how"], []).append(tried["version"])
    tried = "; ".join(f"{', '.join(versions)}: {how}" for how, versions in ways.items()) or "there is no hook to try"
    return f"| {host['title']} | {tried} | {host['line']} | {host['lost']} |\n"


def hosts(record: list[dict]) -> str:
    head = "| host | tried | to switch it on | what is lost |\n| --- | --- | --- | --- |\n"
    return head + "".join(map(host_row, record))


def run_cell(record: dict, program: str, means: str) -> str:
    """The newest comes last."""
    found = [each for each in record["ran"] if (each["program"], each["means"]) == (program, means)]
    if not found:
        return "not run"
    row = found[-1]
    version = f"{row['version']}: " if row["version"] else ""
    return f"{version}{row['outcome']} ({row['card'].removeprefix('NVIDIA ')})"


def runs(record: dict) -> str:
    """Programs by means, and where that was."""
    for row in record["ran"]:
        if row["program"] not in record["programs"] or row["means"] not in record["means"]:
            sys.exit(f"run.json has no row or no column for {row['program']} under {row['means']}")
    means = record["means"]
    text = f"| program | {' | '.join(f'`{each}`' for each in means)} |\n" + "|---" * (len(means) + 1) + "|\n"
    for program in record["programs"]:
        cells = [run_cell(record, program, each) for each in means]
        text += f"| {program} | {' | '.join(cells)} |\n"
    drivers: dict[str, list[str]] = {}
    for row in filter(lambda row: row["driver"], record["ran"]):
        known = drivers.setdefault(row["card"], [])
        if row["driver"] not in known:
            known.append(row["driver"])
    places = [f"{card} with driver {', '.join(known)}" for card, known in drivers.items()]
    return text + f"\nOn {', on '.join(places)}.\n"


@dataclass(frozen=True)
class Table:
    page: str
    record: str
    mark: str
    """It stands between <!-- mark --> and <!-- end of mark -->."""
    text: Callable[..., str]

    def page_with(self, text: str) -> str:
        marked = rf"(<!-- {self.mark} -->\n).*?(<!-- end of {self.mark} -->)"
        found = re.search(marked, text, re.DOTALL)
        if found is None:
            sys.exit(f"{self.page} has no place for the table: <!-- {self.mark} -->")
        record = json.loads((ROOT / self.record).read_text(encoding="utf-8"))
        return text[: found.start()] + found[1] + self.text(record) + found[2] + text[found.end() :]


TABLES = (
    Table("docs/frameworks.md", "tests/hosts/hosts.json", "hosts", hosts),
    Table("docs/run.md", "tests/gpu/run.json", "runs", runs),
)


def main() -> int:
    status = 0
    for table in TABLES:
        page = ROOT / table.page
        text = page.read_text(encoding="utf-8")
        wanted = table.page_with(text)
        if text == wanted:
            continue
        if "--check" in sys.argv:
            print(f"{table.page} has another table than {table.record}: run tools/hosts_table.py")
            status = 1
        else:
            page.write_text(wanted, encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
