# SPDX-License-Identifier: Apache-2.0
"""The memory handlers of cuStateVec, cuTensorNet and cuDSS, by their packages' headers, fetched part by part."""

from pathlib import Path

import kit

PACKAGES = {"custatevec-cu13": "1.15.0", "cutensornet-cu13": "2.14.0", "nvidia-cudss-cu13": "1.0.0.35"}


def attempt(libraries: Path, work: Path) -> list[kit.Tried]:
    options = kit.cuda_headers()
    for project, version in PACKAGES.items():
        folder = kit.wheel(project, version, lambda name: name.endswith(".h"))
        options += ["-isystem", next(folder.glob("**/include"))]
    kit.compile_program(kit.ROOT / "tests/hosts/cuquantum.cpp", work / "handlers", *options, libraries=libraries)
    kit.run(work / "handlers")
    example = kit.ROOT / "examples/frameworks/cuquantum/handler.cpp"
    kit.compile_program(example, work / "example.o", "-c", *options, libraries=libraries)
    titles = zip(("cuStateVec", "cuTensorNet", "cuDSS"), PACKAGES.values(), strict=True)
    return [
        kit.Tried(f"{title} {'.'.join(version.split('.')[:2])}", "compiled, ran with a stand-in")
        for title, version in titles
    ]
