# SPDX-License-Identifier: Apache-2.0
"""TensorRT's allocator interface over a pool, called by a stand-in for TensorRT.

No registry that tests may use has NVIDIA's headers: GPUPOOL_TENSORRT_INCLUDE names folders of them, with colons."""

import os
import re
from pathlib import Path

import kit

SOURCE = kit.ROOT / "tests/hosts/tensorrt.cpp"
EXAMPLE = kit.ROOT / "examples/frameworks/tensorrt/engine.cpp"


def attempt(libraries: Path, work: Path) -> list[kit.Tried]:
    stand_in = kit.ROOT / "tests/hosts/stand_ins/tensorrt"
    tried = []
    for major in ("10", "11"):
        kit.compile_program(
            SOURCE, work / f"host_{major}", "-isystem", stand_in, f"-DNV_TENSORRT_MAJOR={major}", libraries=libraries
        )
        kit.run(work / f"host_{major}")
        tried.append(kit.Tried(major, "ran with a stand-in"))
    for folder in filter(None, os.environ.get("GPUPOOL_TENSORRT_INCLUDE", "").split(":")):
        found = re.findall(
            r"^#define (?:NV_TENSORRT|TRT)_M\w+ (\d+)",
            (Path(folder) / "NvInferVersion.h").read_text(),
            flags=re.MULTILINE,
        )
        for source in (SOURCE, EXAMPLE):
            kit.compile_program(
                source, work / "real.o", "-c", "-isystem", folder, *kit.cuda_headers(), libraries=libraries
            )
        tried.append(kit.Tried(".".join(found[:2]), "compiled"))
    return tried
