#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the table of hosts into docs/frameworks.md, from what the tests came to (tests/hosts/hosts.json).

hosts_table.py            writes it
hosts_table.py --check    fails if the page has another one
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/frameworks.md"
RECORD = ROOT / "tests/hosts/hosts.json"
MARKED = re.compile(r"(<!-- hosts -->\n).*?(<!-- end of hosts -->)", re.DOTALL)


def row(host: dict) -> str:
    ways: dict[str, list[str]] = {}
    for tried in host["tried"]:
        ways.setdefault(tried["how"], []).append(tried["version"])
    tried = "; ".join(f"{', '.join(versions)}: {how}" for how, versions in ways.items()) or "there is no hook to try"
    return f"| {host['title']} | {tried} | {host['line']} | {host['lost']} |\n"


def table(hosts: list[dict]) -> str:
    head = "| host | tried | to switch it on | what is lost |\n| --- | --- | --- | --- |\n"
    return head + "".join(map(row, hosts))


def page_with(text: str, hosts: list[dict]) -> str:
    found = MARKED.search(text)
    if found is None:
        sys.exit(f"{PAGE.name} has no place for the table: <!-- hosts -->")
    return text[: found.start()] + found[1] + table(hosts) + found[2] + text[found.end() :]


def main() -> int:
    text = PAGE.read_text(encoding="utf-8")
    wanted = page_with(text, json.loads(RECORD.read_text(encoding="utf-8")))
    if text == wanted:
        return 0
    if "--check" in sys.argv:
        print("docs/frameworks.md has another table than tests/hosts/hosts.json: run tools/hosts_table.py")
        return 1
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
