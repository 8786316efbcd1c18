# SPDX-License-Identifier: Apache-2.0
"""Umpire's own library over a pool.

No registry that tests may use has Umpire: GPUPOOL_UMPIRE names the folder where one is installed, with static
libraries; fmt is the system's."""

import os
import re
from pathlib import Path

import kit


def attempt(libraries: Path, work: Path) -> list[kit.Tried]:
    folder = Path(os.environ.get("GPUPOOL_UMPIRE") or "/nonexistent")
    config = folder / "include/umpire/config.hpp"
    if not config.exists():
        raise kit.Unavailable("GPUPOOL_UMPIRE names no installation of Umpire")
    version = re.findall(r"^#define UMPIRE_VERSION_M\w+ (\d+)", config.read_text(), flags=re.MULTILINE)
    archives = [next(folder.glob(f"lib*/lib{name}.a")) for name in ("umpire", "camp")]
    options = ["-isystem", folder / "include", *archives, "-lfmt", "-ldl", "-lpthread"]
    for source in (kit.ROOT / "tests/hosts/umpire.cpp", kit.ROOT / "examples/frameworks/umpire/strategy.cpp"):
        kit.compile_program(source, work / source.stem, *options, libraries=libraries)
        kit.run(work / source.stem)
    return [kit.Tried(f"{version[0]}.{int(version[1]):02}", "ran on CPU")]
