# SPDX-License-Identifier: Apache-2.0
"""What watching costs a training: the steps of train_step.py under gpupool alone, while recording, and in debug modes.

    python watching.py [--steps N] [--repeats N]

Each way has a process of its own, and all are there at once: one does a step while the others wait, then the next does
the same step. So a change in the machine's speed, which is more than what is measured here, affects all of them alike.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import side_by_side
import train_step

WAYS = {
    "gpupool": {},
    "gpupool, again": {},
    "recording": {"GPUPOOL_RECORD": "FOLDER/%p.gpt", "GPUPOOL_RECORD_STACKS": "none"},
    "recording, Python stacks": {"GPUPOOL_RECORD": "FOLDER/%p.gpt", "GPUPOOL_RECORD_STACKS": "language"},
    "canary": {"GPUPOOL_DEBUG": "canary"},
    "guard": {"GPUPOOL_DEBUG": "guard"},
}


def train(steps):
    """A child: each line it reads is the number of a step to do; it answers with the step's seconds and loss."""
    training = train_step.Training(steps)
    side_by_side.report("ready")
    for line in sys.stdin:
        side_by_side.report(training.step(training.lengths[int(line)]))


class Child:
    def __init__(self, steps, settings, folder):
        settings = {name: value.replace("FOLDER", folder) for name, value in settings.items()}
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--child", "--steps", str(steps)],
            env=os.environ | {"GPUPOOL_EXAMPLE": "1"} | settings,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.answer() == "ready"

    def answer(self):
        return json.loads(self.process.stdout.readline())

    def step(self, number):
        print(number, file=self.process.stdin, flush=True)
        return self.answer()

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(60) == 0


def run_in_step(steps, repeats, folder):
    """The seconds of each step of each way; the first pass over the batches is not counted."""
    children = {way: Child(steps, settings, folder) for way, settings in WAYS.items()}
    times = {way: [] for way in WAYS}
    order = list(children)
    for turn in range(repeats + 1):
        for number in range(steps):
            order.append(order.pop(0))  # nobody is always the first
            found = {way: children[way].step(number) for way in order}
            assert len({loss for _, loss in found.values()}) == 1, "other losses"
            for way, (seconds, _) in found.items():
                times[way] += [seconds] * (turn > 0)
    for child in children.values():
        child.close()
    return times


def main(steps, repeats):
    with tempfile.TemporaryDirectory() as folder:
        times = run_in_step(steps, repeats, folder)
        sizes = [file.stat().st_size for file in pathlib.Path(folder).iterdir()]
    print(f"{steps} steps, {repeats} times; beside the same step of the first way: the median, and the middle half")
    for way, seconds in times.items():
        beside = [mine / first - 1 for mine, first in zip(seconds, times["gpupool"], strict=True)]
        low, middle, high = statistics.quantiles(beside, n=4)
        milliseconds = statistics.median(seconds) * 1e3
        print(f"{way:26} {milliseconds:8.3f} ms a step, {middle:+.2%} ({low:+.2%} to {high:+.2%})")
    print(f"recordings: {min(sizes):,} to {max(sizes):,} bytes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    train(given.steps) if given.child else main(given.steps, given.repeats)
