# SPDX-License-Identifier: Apache-2.0
"""ggml's own library, on its CPU, with weights in a pool."""

from pathlib import Path

import kit

VERSION = "0.20.2.post1"


def attempt(libraries: Path, work: Path) -> list[kit.Tried]:
    library = next(kit.wheel("libggml-python", VERSION).glob("libggml/lib*/libggml-base.so")).parent
    # Buffer types of one's own need a header that ggml does not install.
    sources = kit.sdist(
        "libggml-python", VERSION, lambda name: name.endswith(".h") and "/ggml-" in name or name.endswith("ggml.h")
    )
    headers = next(sources.glob("*/ggml"))
    options = [
        "-isystem",
        headers / "include",
        "-isystem",
        headers / "src",
        *(library / f"lib{name}.so" for name in ("ggml", "ggml-cpu", "ggml-base")),
        f"-Wl,-rpath,{library}",
    ]
    for source in (kit.ROOT / "tests/hosts/ggml.cpp", kit.ROOT / "examples/frameworks/ggml/weights.cpp"):
        kit.compile_program(source, work / source.stem, *options, libraries=libraries)
        kit.run(work / source.stem)
    return [kit.Tried(".".join(VERSION.split(".")[:2]), "ran on CPU (50 runs)")]
