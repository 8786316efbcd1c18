# SPDX-License-Identifier: Apache-2.0
"""Memory registered with NCCL, by its headers, with a stand-in for its library, which needs a GPU."""

from pathlib import Path

import kit

# The oldest with registered buffers, with windows, and the newest, which also suspends communicators.
PACKAGES = {"2.19.3": "nvidia-nccl-cu12", "2.27.7": "nvidia-nccl-cu13", "2.32.3": "nvidia-nccl-cu13"}


def attempt(libraries: Path, work: Path) -> list[kit.Tried]:
    # cuda_fp16.h includes one file of these.
    target = next(kit.wheel("nvidia-cuda-cccl", "13.0.", lambda name: "/nv/" in name).glob("**/nv")).parent
    tried = []
    for version, project in PACKAGES.items():
        folder = kit.wheel(project, version, lambda name: name.endswith("include/nccl.h"))
        headers = ["-isystem", folder / "nvidia/nccl/include", "-isystem", target, *kit.cuda_headers()]
        kit.compile_program(kit.ROOT / "tests/hosts/nccl.cpp", work / "registered", *headers, libraries=libraries)
        kit.run(work / "registered")
        example = kit.ROOT / "examples/frameworks/nccl/registered.cpp"
        kit.compile_program(example, work / "example.o", "-c", *headers, libraries=libraries)
        tried.append(kit.Tried(".".join(version.split(".")[:2]), "compiled, ran with a stand-in"))
    return tried
