#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists the patterns in which a peer takes less time or memory than gpupool.

    slower.py RESULTS

RESULTS: lines of JSON from `PEER patterns`, or compare_gpu.sh's results.json. A pattern is listed once for each figure,
with the best peer, if gpupool takes more than a fifth more; times below 100 ns are as good as any.
"""

import json
import sys

MORE = 1.2
# What a figure is called, and below what it is as good as any.
FIGURES = {"mean_ns": 100, "longest_ns": 20_000, "reserved_bytes": 64 << 20, "failed_mallocs": 1}


def read(path):
    """The lines about patterns, as {pattern: {peer: line}}."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    lines = json.loads(text) if text.startswith("[") else map(json.loads, text.splitlines())
    patterns = {}
    for line in lines:
        if "pattern" in line:
            patterns.setdefault(line["pattern"], {})[line["peer"]] = line
    return patterns


def slower(patterns):
    """Yields (times as much, figure, ours, peer, theirs, pattern)."""
    for pattern, peers in patterns.items():
        ours = peers.get("gpupool")
        others = [line for name, line in peers.items() if name != "gpupool" and line["completed"]]
        # A peer that does not tell what it reserves has 0 there, and one that had no memory was fast for that reason.
        if ours is None:
            continue
        for figure, enough in FIGURES.items():
            theirs = [line for line in others if figure == "failed_mallocs" or not line["failed_mallocs"]]
            theirs = [line for line in theirs if figure != "reserved_bytes" or line[figure]]
            best = min(theirs, key=lambda line: line[figure], default=None)
            if best is None or ours[figure] <= MORE * max(best[figure], enough):
                continue
            yield ours[figure] / max(best[figure], enough), figure, ours[figure], best["peer"], best[figure], pattern


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    for times, figure, ours, peer, theirs, pattern in sorted(slower(read(sys.argv[1])), reverse=True):
        print(f"{times:8.1f} times  {figure:14} {ours:12.6g}  {peer} {theirs:.6g}  {pattern}")


if __name__ == "__main__":
    main()
