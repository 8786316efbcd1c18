# SPDX-License-Identifier: Apache-2.0
"""Runs an example in processes of its own: under PyTorch's allocator, as it is and with expandable segments, and
under gpupool. A process cannot change its allocator."""

import json
import os
import subprocess
import sys

SETTINGS = {
    "native": {},
    "expandable": {"PYTORCH_ALLOC_CONF": "expandable_segments:True"},
    "gpupool": {"GPUPOOL_EXAMPLE": "1"},
}


def use_allocator():
    """Called first in a child: installs gpupool if the child is to measure it."""
    if "GPUPOOL_EXAMPLE" in os.environ:
        import gpupool.torch  # noqa: PLC0415

        gpupool.torch.install()


def is_child():
    return "--child" in sys.argv


def report(result):
    """Called last in a child."""
    print(json.dumps(result), flush=True)


def run(setting, *arguments):
    """The report of a child of the program."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTORCH_ALLOC_CONF"}
    process = subprocess.run(
        [sys.executable, sys.argv[0], "--child", *arguments],
        env=environment | SETTINGS[setting],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(process.stdout.splitlines()[-1])


def run_all(*arguments):
    return {setting: run(setting, *arguments) for setting in SETTINGS}


def run_in_turn(repeats, *arguments, tell=lambda setting, result: None):
    """What the children of each setting reported. They run in turn, so that a change in the machine's speed affects all
    of them. tell: called with each as it comes."""
    found = {setting: [] for setting in SETTINGS}
    for _ in range(repeats):
        for setting, results in found.items():
            results.append(run(setting, *arguments))
            tell(setting, results[-1])
    return found


def spread(values, digits=2):
    """The minimum and the maximum."""
    values = sorted(values)
    return f"{values[0]:,.{digits}f}..{values[-1]:,.{digits}f}"


def print_table(title, rows, columns):
    """rows: names, each with a cell per column."""
    width = max(len(name) for name, _ in rows) + 2
    print(f"\n{title}\n{'':{width}}" + "".join(f"{column:>16}" for column in columns))
    for name, cells in rows:
        print(f"{name:{width}}" + "".join(f"{cell:>16}" for cell in cells))
