#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the simulated device's figures, which are the same on every machine, as tables into the pages that claim them,
between the lines `<!-- figures: NAME -->` and `<!-- end of figures -->`.

claims.py [GPUPOOL]           writes them; GPUPOOL is the command, by default build/release/gpupool
claims.py --check [GPUPOOL]   fails if a page says anything else
"""

import functools
import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/benchmarks.md")
TRACES = sorted((ROOT / "tests/data").glob("*.trace.gz"))
STEADY = slice(4, 10)  # passes 5 to 10
MARKED = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)


class Replay:
    """Runs `gpupool replay` over all traces, each combination of options once."""

    def __init__(self, command: str) -> None:
        self.command = command

    @functools.cache  # noqa: B019  one object, for as long as the program runs
    def __call__(self, *options: str) -> list[dict]:
        words = [self.command, "replay", "--device", "sim", "--json", *options, *map(str, TRACES)]
        lines = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
        return [json.loads(line) for line in lines]


@functools.cache
def seconds_live(trace: str) -> float:
    """How long the recorded program ran."""
    with gzip.open(ROOT / f"tests/data/{trace}.trace.gz", "rt", encoding="ascii") as lines:
        found = next(match for line in lines if (match := re.match(r"# duration ([0-9.]+)", line)))
    return float(found[1])


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def name_of(row: dict) -> str:
    return row["trace"] + (f" ({row['streams']} streams)" if row["streams"] > 1 else "")


def share(row: dict, passes: slice) -> str:
    """Driver time of these passes, as a share of their recorded time."""
    times = row["driver_time_us"][passes]
    return f"{sum(times) / len(times) / 1e4 / seconds_live(row['trace']):.2f} %"


def over_live(row: dict, passes: slice) -> str:
    return f"{max(row['peak_reserved_bytes_by_pass'][passes]) / row['peak_live_bytes']:.3f}"


def paced(replay: Replay) -> str:
    """At recorded speed: every event at its time."""
    return table(
        ["workload", "live peak", "reserved / live, pass 1", "passes 5 to 10", "driver time, pass 1", "passes 5 to 10"],
        [
            [
                name_of(row),
                f"{row['peak_live_bytes'] / 1e9:.2f} GB",
                over_live(row, slice(1)),
                over_live(row, STEADY),
                share(row, slice(1)),
                share(row, STEADY),
            ]
            for row in replay("--pace", "--passes", "10")
        ],
    )


def unpaced(replay: Replay) -> str:
    """At full speed, one event after the other, without a limit and with the smallest one."""
    return table(
        ["trace", "live peak", "reserved / live", "cap / live", "driver time, pass 1", "pass 2", "failed", "waits"],
        [
            [
                name_of(row),
                f"{row['peak_live_bytes'] / 1e9:.2f} GB",
                f"{row['reserved_over_live']:.3f}",
                f"{row['cap_over_live']:.3f}",
                share(row, slice(1)),
                share(row, slice(1, 2)),
                str(row["failed_allocations"]),
                str(row["host_waits"]),
            ]
            for row in replay("--find-cap")
        ],
    )


def passes(replay: Replay) -> str:
    """Reserved over live after many passes."""
    counts = (2, 5, 20, 50)
    rows = replay("--passes", str(max(counts)))
    return table(
        ["trace", *map(str, counts)],
        [[row["trace"], *(over_live(row, slice(count)) for count in counts)] for row in rows],
    )


FIGURES = {"paced": paced, "unpaced": unpaced, "passes": passes}


def written(text: str, replay: Replay) -> str:
    return MARKED.sub(lambda found: found[1] + FIGURES[found[2]](replay) + found[3], text)


def main(arguments: list[str]) -> int:
    check = arguments[:1] == ["--check"]
    command = arguments[check:] or [str(ROOT / "build/release/gpupool")]
    replay = Replay(command[0])
    status = 0
    for name in PAGES:
        page = ROOT / name
        text = page.read_text(encoding="utf-8")
        wanted = written(text, replay)
        if text == wanted:
            continue
        if check:
            print(f"the figures in {name} differ from the library's: run tools/claims.py", file=sys.stderr)
            status = 1
        else:
            page.write_text(wanted, encoding="utf-8")
            print(f"wrote {name}")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
