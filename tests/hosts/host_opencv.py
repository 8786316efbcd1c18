# SPDX-License-Identifier: Apache-2.0
"""OpenCV's matrices of the GPU, by Debian's headers. Its library is built without CUDA."""

from pathlib import Path

import kit


def attempt(libraries: Path, work: Path) -> list[kit.Tried]:
    package = kit.debian("libopencv-core-dev")
    headers = ("-isystem", package / "usr/include/opencv4")
    kit.compile_program(kit.ROOT / "tests/hosts/opencv.cpp", work / "matrices", *headers, libraries=libraries)
    kit.run(work / "matrices")
    example = kit.ROOT / "examples/frameworks/opencv/matrix.cpp"
    kit.compile_program(example, work / "example.o", "-c", *headers, libraries=libraries)
    return [kit.Tried(".".join(kit.debian_version(package).split(".")[:2]), "compiled, ran with a stand-in")]
