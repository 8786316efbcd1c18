# SPDX-License-Identifier: Apache-2.0
"""The Unified Memory Framework's own library over a pool."""

from pathlib import Path

import kit

VERSION = "1.2.0"


def attempt(libraries: Path, work: Path) -> list[kit.Tried]:
    data = next(kit.wheel("umf", VERSION).glob("*.data/data"))
    # It needs one library that a system may lack.
    hwloc = next(kit.debian("libhwloc15").glob("usr/lib/*/libhwloc.so.15"))
    options = [
        "-isystem",
        data / "include",
        data / "lib/libumf.so.1",
        f"-Wl,-rpath,{data / 'lib'}",
        f"-Wl,-rpath-link,{hwloc.parent}",
    ]
    for source in (kit.ROOT / "tests/hosts/umf.cpp", kit.ROOT / "examples/frameworks/umf/provider.cpp"):
        kit.compile_program(source, work / source.stem, *options, libraries=libraries)
        kit.run(work / source.stem, LD_LIBRARY_PATH=str(hwloc.parent))
    return [kit.Tried(".".join(VERSION.split(".")[:2]), "ran on CPU")]
