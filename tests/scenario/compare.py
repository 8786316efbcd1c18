#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the output of the runners of several languages.

    compare.py [--gpu] FILE FILE...

Each FILE is the standard output of one runner, over the same scenarios. Prints how many scenarios are the same in
all files, or every difference, and then fails.
"""

import argparse
import json
import re
import sys
from pathlib import Path

# How the pool gets memory depends on the time that the driver takes; what it hands out does not.
TIMELESS = re.compile(
    r"\w+\.(requested|allocated)_(bytes|blocks)\.\w+|limit_bytes|failed_mallocs|oom_handler_calls|streams"
)


def read(path, is_timed=False):
    """The lines of a runner: each scenario's name, its line, and its figures as {(pool, figure): number}."""
    scenarios = {}
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        try:
            scenario = json.loads(line)
            name = scenario["name"]
            pools = scenario["pools"]
            figures = {
                (pool, figure): value
                for pool in pools
                for figure, value in pools[pool].items()
                if not is_timed or TIMELESS.fullmatch(figure)
            }
        except (ValueError, KeyError, TypeError, AttributeError):
            raise SystemExit(f"{path}:{number}: not a runner's line: {line[:80]}") from None
        if name in scenarios:
            raise SystemExit(f"{path}:{number}: scenario {name} is there twice")
        scenarios[name] = ("" if is_timed else line, figures)
    return scenarios


def differences(outputs):
    """In words, where the other files differ from the first."""
    (first, expected), *others = outputs.items()
    found = []
    if not expected:
        found.append(f"{first}: no scenarios")
    for other, scenarios in others:
        for name in sorted(expected.keys() | scenarios.keys()):
            if name not in scenarios or name not in expected:
                found.append(f"{name}: missing in {other if name not in scenarios else first}")
                continue
            (line_a, figures_a), (line_b, figures_b) = expected[name], scenarios[name]
            unequal = [key for key in sorted(figures_a.keys() | figures_b) if figures_a.get(key) != figures_b.get(key)]
            for key in unequal:
                a, b = figures_a.get(key, "missing"), figures_b.get(key, "missing")
                found.append(f"{name}: {' '.join(key)}: {a} in {first}, {b} in {other}")
            if line_a != line_b and not unequal:
                found.append(f"{name}: the same figures, written differently in {first} and {other}")
    return found


def main(arguments=None):
    options = argparse.ArgumentParser(description="Compares what the runners of several languages printed.")
    options.add_argument(
        "--gpu", action="store_true", help="of a GPU's: compare only what does not depend on how long calls take"
    )
    options.add_argument("files", nargs="+", metavar="FILE", help="the standard output of a runner")
    given = options.parse_args(arguments)
    if len(set(given.files)) < 2:
        options.error("there must be two different files or more")

    outputs = {path: read(path, given.gpu) for path in given.files}
    found = differences(outputs)
    if found:
        print("\n".join(found))
        return 1
    print(f"identical: {len(outputs[given.files[0]])} scenarios in {len(outputs)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
