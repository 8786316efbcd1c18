# SPDX-License-Identifier: Apache-2.0
"""Runs a program with its frameworks on one pool.

python -m gpupool --cap 40% train.py --epochs 3
python -m gpupool --install torch,cupy -m package.module
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from pathlib import Path

from .frameworks import _FRAMEWORKS
from .frameworks._cap import parts_of
from .frameworks._environment import activate
from .frameworks._group import apply_group, parse_group

_BY_DEFAULT = [name for name, framework in _FRAMEWORKS.items() if not framework.is_engines]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m gpupool", description="Runs a program on one pool of GPU memory.")
    parser.add_argument(
        "--install",
        metavar="NAMES",
        help="the frameworks, separated by commas; by default every one that the program imports of "
        + ", ".join(_BY_DEFAULT),
    )
    parser.add_argument("--cap", metavar="CAP", help='limit of each device\'s pool, such as "40%%", 8GiB, or auto')
    parser.add_argument("--share", metavar="GROUP", help="the group of processes to share each device's memory with")
    parser.add_argument("-m", metavar="MODULE", dest="module", help="the program is a module")
    parser.add_argument("program", nargs=argparse.REMAINDER, help="the program's file, and its arguments")
    given = parser.parse_args()
    if given.module is None and not given.program:
        parser.error("name a program")
    os.environ["GPUPOOL_INSTALL"] = given.install or os.environ.get("GPUPOOL_INSTALL") or ",".join(_BY_DEFAULT)
    if given.cap is not None:
        os.environ["GPUPOOL_CAP"] = ",".join([*parts_of(os.environ.get("GPUPOOL_CAP", "")), given.cap])
    try:
        apply_group(parse_group(given.share, None, None))
        activate()
    except ValueError as error:
        parser.error(str(error))
    if given.module is not None:
        sys.argv = [given.module, *given.program]
        sys.path.insert(0, "")
        runpy.run_module(given.module, run_name="__main__", alter_sys=True)
        return
    script = given.program[0]
    if not Path(script).exists():
        parser.error(f"there is no {script}")
    sys.argv = given.program
    sys.path[0] = str(Path(script).resolve().parent)
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
