# SPDX-License-Identifier: Apache-2.0
"""The command, `gpupool`: replaces this process with the program in this package."""

from __future__ import annotations

import os
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("bin") / "gpupool"


def main() -> None:
    if not PROGRAM.exists():
        sys.exit(
            "gpupool: this installation lacks the command, because CLI11, nlohmann_json, fmt or zlib was missing; the "
            "wheels on PyPI include it"
        )
    os.execv(PROGRAM, ["gpupool", *sys.argv[1:]])
