# SPDX-License-Identifier: Apache-2.0
"""The command, `gpupool`: the program in this package."""

from __future__ import annotations

import os
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("bin") / "gpupool"


def check_command() -> None:
    """Raises RuntimeError if the command is not here."""
    if not PROGRAM.exists():
        raise RuntimeError(
            "this installation lacks the command, because CLI11, nlohmann_json, fmt or zlib was missing; the wheels on "
            "PyPI include it"
        )


def main() -> None:
    """Replaces this process with it."""
    try:
        check_command()
    except RuntimeError as error:
        sys.exit(f"gpupool: {error}")
    os.execv(PROGRAM, ["gpupool", *sys.argv[1:]])
