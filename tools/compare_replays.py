#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows several languages' replays of one trace side by side: compare_replays.py FILE

The first line is that of `gpupool replay --json`. Fails if another line differs from it in anything but time and, on a
GPU, in anything but what depends on time: how much the pool spends on small chunks, and which threads' memory is idle.
"""

import json
import sys
from pathlib import Path

ITS_OWN = {"language", "ns_per_event"}
OF_TIME = {"peak_reserved_bytes", "driver_calls", "hits", "misses", "steals"}


def differences(reference, line):
    ignored = ITS_OWN | (OF_TIME if reference["device"].startswith("cuda") else set())
    return sorted(key for key in line if key not in ignored and line[key] != reference.get(key))


def rows(lines):
    reference = lines[0]
    yield ("language", "device", "events", "ns/event", "live peak", "reserved peak", "figures")
    for line in lines:
        different = differences(reference, line)
        yield (
            line.get("language", "C++"),
            line["device"],
            f"{line['events']:,}",
            " ".join(f"{ns:.0f}" for ns in line["ns_per_event"]),
            f"{line['peak_live_bytes'] / 2**20:.1f} MiB",
            f"{line['peak_reserved_bytes'] / 2**20:.1f} MiB",
            "differ: " + ", ".join(different) if different else "identical",
        )


def main(path):
    lines = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    table = list(rows(lines))
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    print(f"\n{lines[0]['trace']}")
    for row in table:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 1 if any(differences(lines[0], line) for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
