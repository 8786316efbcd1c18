#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes figures into the pages that claim them, between `<!-- figures: NAME -->` and `<!-- end of figures -->`: the
simulated device's, which are the same on every machine, and those of the last comparison on a GPU
(docs/bench/results.json, by tests/bench/compare_gpu.sh), in which all allocators get the same requests.

claims.py [GPUPOOL]           writes them; GPUPOOL is the command, by default build/release/gpupool
claims.py --check [GPUPOOL]   fails if a page says anything else
"""

import functools
import gzip
import json
import re
import statistics
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/benchmarks.md")
PEERS = {
    "gpupool": "gpupool",
    "pytorch_expandable": "PyTorch, expandable segments",
    "pytorch": "PyTorch, default",
    "cuda_async": "`cudaMallocAsync`",
}
SIZES = {1 << 12: "4 KiB", 1 << 16: "64 KiB", 1 << 20: "1 MiB"}
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


@functools.cache
def compared() -> list[dict]:
    """The lines of the last comparison on a GPU."""
    return json.loads((ROOT / "docs/bench/results.json").read_text(encoding="utf-8"))


def line_of(**wanted: object) -> dict:
    return next(line for line in compared() if all(line.get(key) == value for key, value in wanted.items()))


def full_speed(peer: str, trace: str, passes: slice) -> tuple[float, float]:
    """Of these passes at full speed without a cap, or of the last if there were fewer: the most reserved over live, and
    mean ns an event."""
    line = line_of(peer=peer, trace=trace, cap_over_live=0, timed=False)
    nanoseconds = line["ns_per_event"][passes] or line["ns_per_event"][-1:]
    return max(line["reserved_over_live"][passes] or line["reserved_over_live"][-1:]), statistics.mean(nanoseconds)


def pair(peer: str, case: str, size: int, threads: int) -> float:
    """Nanoseconds for a cached malloc and its free."""
    return line_of(peer=peer, case=case, size=size, threads=threads)["ns"]


def pairs_of_one_thread(peer: str) -> str:
    nanoseconds = [pair(peer, "pair", size, 1) for size in SIZES]
    least, most = f"{min(nanoseconds):.0f}", f"{max(nanoseconds):.0f}"
    return least if least == most else f"{least} to {most}"


def caption(_: Replay) -> str:
    """Of the picture of lm_train in README.md."""
    kinds = ("gpupool", "pytorch_expandable", "pytorch")
    early, late = ([f"{full_speed(peer, 'lm_train', part)[0]:.2f}" for peer in kinds] for part in (slice(1, 2), STEADY))
    machine = next(line["machine"] for line in compared() if "machine" in line)
    gpu = machine["gpu"].split(",")[0].removeprefix("NVIDIA ")
    text = (
        "Training GPT-2 with sequences of varying length. Replayed at full speed on an "
        f"{gpu}, {early[0]} times the peak of live memory is reserved in the second pass; PyTorch's allocator reserves "
        f"{early[2]} times that peak, or {early[1]} times with expandable segments. In passes 5 to 10 it is {late[0]}, "
        f"{late[2]} and {late[1]}. A cached malloc and its free take {pairs_of_one_thread('gpupool')} ns "
        f"(PyTorch's {pairs_of_one_thread('pytorch')}, with expandable segments "
        f"{pairs_of_one_thread('pytorch_expandable')}). "
        "[All figures](docs/benchmarks.md), with those in which others are better."
    )
    return textwrap.fill(text, 120) + "\n"


def compared_traces(_: Replay) -> str:
    """At full speed on a GPU: reserved over live in pass 2 and in passes 5 to 10, and what an event of those took."""
    kinds = ("gpupool", "pytorch_expandable", "pytorch")
    names = [path.name.removesuffix(".trace.gz") for path in TRACES]
    rows = []
    for name in names:
        cells = []
        for peer in kinds:
            (early, _ns), (late, ns) = full_speed(peer, name, slice(1, 2)), full_speed(peer, name, STEADY)
            cells.append(f"{early:.3f}, {late:.3f}, {ns:.0f}")
        rows.append([name, *cells])
    better = [
        sum(full_speed(kinds[0], name, part)[0] < full_speed(kinds[1], name, part)[0] for name in names)
        for part in (slice(1, 2), STEADY, slice(-1, None))
    ]
    return table(["trace", *(PEERS[peer] for peer in kinds)], rows) + (
        f"\nLess than expandable segments on {better[0]} of the {len(names)} in pass 2, on {better[1]} in passes 5 to "
        f"10, and on {better[2]} in the last pass.\n"
    )


def compared_pairs(_: Replay) -> str:
    """Cached pairs on a GPU's host, ns."""
    cases = [("pair", size, 1) for size in SIZES]
    cases += [(case, 1 << 16, threads) for case in ("pair_own_streams", "pair_one_stream") for threads in (1, 4, 16)]
    return table(
        ["case", "size", "threads", *PEERS.values()],
        [
            [case, SIZES[size], str(threads), *(f"{pair(peer, case, size, threads):,.0f}" for peer in PEERS)]
            for case, size, threads in cases
        ],
    )


FIGURES = {
    "paced": paced,
    "unpaced": unpaced,
    "passes": passes,
    "caption": caption,
    "compared_traces": compared_traces,
    "compared_pairs": compared_pairs,
}


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
