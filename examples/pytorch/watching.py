# SPDX-License-Identifier: Apache-2.0
"""What watching costs a training: the step time of train_step.py under gpupool alone, while recording, and in debug
modes, in turn.

    python watching.py [--steps N] [--repeats N]
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

WAYS = {
    "gpupool": {},
    "recording": {"GPUPOOL_RECORD": "FOLDER/%p.gpt", "GPUPOOL_RECORD_STACKS": "none"},
    "recording, Python stacks": {"GPUPOOL_RECORD": "FOLDER/%p.gpt", "GPUPOOL_RECORD_STACKS": "language"},
    "canary": {"GPUPOOL_DEBUG": "canary"},
    "guard": {"GPUPOOL_DEBUG": "guard"},
}


def run(steps, settings, folder):
    """The report of one training."""
    settings = {name: value.replace("FOLDER", folder) for name, value in settings.items()}
    done = subprocess.run(
        [sys.executable, pathlib.Path(__file__).with_name("train_step.py"), "--child", "--steps", str(steps)],
        env=os.environ | {"GPUPOOL_EXAMPLE": "1"} | settings,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def main(steps, repeats):
    found = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(repeats):
            for way, settings in WAYS.items():
                found[way].append(run(steps, settings, folder))
        sizes = [file.stat().st_size for file in pathlib.Path(folder).iterdir()]
    alone = statistics.median(each["ms"] for each in found["gpupool"])
    for way, results in found.items():
        times = sorted(each["ms"] for each in results)
        middle = statistics.median(times)
        print(f"{way:26} {middle:8.3f} ms a step ({times[0]:.3f} to {times[-1]:.3f}), {middle / alone - 1:+.2%}")
    print(f"recordings: {min(sizes):,} to {max(sizes):,} bytes")
    losses = {json.dumps(each["losses"]) for results in found.values() for each in results}
    assert len(losses) == 1, "other losses"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    main(given.steps, given.repeats)
