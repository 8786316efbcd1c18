# SPDX-License-Identifier: Apache-2.0
"""Starts a program, in any language, with its share of the device.

srun python -m gpupool.launch ./solver --steps 100
mpirun -n 4 python -m gpupool.launch --one-device ./solver
"""

from __future__ import annotations

import argparse
import os
import shutil

from .._place import place


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m gpupool.launch", description="Starts a program with its share of the device's memory."
    )
    parser.add_argument("--one-device", action="store_true", help="show it its own device only, as device 0")
    parser.add_argument("program", nargs=argparse.REMAINDER, help="the program, and its arguments")
    given = parser.parse_args()
    if not given.program:
        parser.error("name a program")
    program = shutil.which(given.program[0])
    if program is None:
        parser.error(f"there is no {given.program[0]}")
    try:
        found = place()
        share = min(found.share, _share(os.environ.get("GPUPOOL_FRACTION", "").strip()))
    except ValueError as error:
        parser.error(str(error))
    if share < 1:
        os.environ["GPUPOOL_FRACTION"] = repr(share)
    if given.one_device:
        shown = os.environ.get("CUDA_VISIBLE_DEVICES")
        os.environ["CUDA_VISIBLE_DEVICES"] = (
            str(found.device) if shown is None else shown.split(",")[found.device].strip()
        )
    os.execv(program, given.program)


def _share(text: str) -> float:
    if not text:
        return 1.0
    try:
        share = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise ValueError(f'GPUPOOL_FRACTION is {text!r}; it is a share of the device\'s memory, such as 0.4 or "40%"')
    return share


if __name__ == "__main__":
    main()
