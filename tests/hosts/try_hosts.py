#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tries libraries that have a hook for an allocator with gpupool's headers, without a GPU.

    try_hosts.py [--libraries DIR] [--record] [NAME...]

NAME is a host: host_NAME.py here tries it. hosts.json says what each came to, and the table in docs/frameworks.md is
made of that (tools/hosts_table.py), so a host that comes to something else is a failure; --record writes it instead.
--libraries: where libgpupool.so is, by default build/release. Packages are fetched once into build/hosts. Ends with 77
if one of a host could not be had.
"""

import argparse
import importlib
import json
import sys
from dataclasses import asdict
from pathlib import Path

import kit

RECORD = Path(__file__).with_name("hosts.json")
SKIPPED = 77


def _other_than_recorded(recorded: list[dict], tried: list[dict]) -> dict | None:
    """A row of the record that is not so. Systems have other versions, and more was tried where there is a GPU."""
    ways = {each["version"]: each["how"] for each in tried}
    wrong = [each for each in recorded if ways.get(each["version"], each["how"]) != each["how"]]
    return wrong[0] if wrong else None


def attempt(name: str, libraries: Path, is_recorded: bool) -> int:
    try:
        tried = [
            asdict(each)
            for each in importlib.import_module(f"host_{name}").attempt(libraries, kit.KEPT / "work" / name)
        ]
    except kit.Unavailable as error:
        print(f"{name}: {error}; skipped")
        return SKIPPED
    except kit.Failed as error:
        print(f"{name}: {error}")
        return 1
    for each in tried:
        print(f"{name} {each['version']}: {each['how']}")
    rows = json.loads(RECORD.read_text(encoding="utf-8"))
    row = next(row for row in rows if row["name"] == name)
    if is_recorded:
        versions = {each["version"] for each in tried}
        row["tried"] = [each for each in row["tried"] if each["version"] not in versions] + tried
        RECORD.write_text(json.dumps(rows, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    elif wrong := _other_than_recorded(row["tried"], tried):
        print(f"{name}: hosts.json says of {wrong['version']} `{wrong['how']}`; --record writes what is so")
        return 1
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--libraries", type=Path, default=kit.ROOT / "build/release")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    names = options.names or sorted(path.stem.removeprefix("host_") for path in Path(__file__).parent.glob("host_*.py"))
    results = [attempt(name, options.libraries.resolve(), options.record) for name in names]
    return 1 if 1 in results else max(results)


if __name__ == "__main__":
    sys.exit(main())
