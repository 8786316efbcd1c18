# SPDX-License-Identifier: Apache-2.0
"""The command, `gpupool`: the program that lies in this package, in the place of this process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("bin") / "gpupool"


def main() -> None:
    if not PROGRAM.exists():
        sys.exit(
            "gpupool: this installation is without the command, for want of CLI11, nlohmann_json, fmt or zlib; the "
            "wheels of PyPI have it"
        )
    os.execv(PROGRAM, ["gpupool", *sys.argv[1:]])
