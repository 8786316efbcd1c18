# SPDX-License-Identifier: Apache-2.0
"""The allocator class for a libtorch in a folder: include and lib, as in PyTorch's archives for C++ and in its package
for Python. Needs only what it is told, as _torch_build."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from . import _torch_build
from ._torch_cache import ShimError


def read(root: Path) -> tuple[str, str]:
    """PyTorch's version, 2.15.0+cu132, and CUDA's, 13.2. Raises ShimError if this is no libtorch with CUDA."""
    for name, pattern in (
        ("build-version", r"^(\S+?\+cu(\d+)(\d))$"),
        ("version.py", r"^__version__ = '(\S+?\+cu(\d+)(\d))'"),
    ):
        if (root / name).is_file():
            found = re.search(pattern, (root / name).read_text(encoding="utf-8").strip(), flags=re.MULTILINE)
            if found is not None and (root / "lib/libc10_cuda.so").is_file():
                return found[1], f"{found[2]}.{found[3]}"
    raise ShimError(f"{root} is no libtorch with CUDA: it needs build-version, or version.py, and lib/libc10_cuda.so")


def build(
    root: Path, path: Path, *, prebuilt: Path, compiler: str | None, cuda: Path | None, headers: Path,
    libraries: list[Path],
) -> bool:  # fmt: skip
    """Writes the library to `path`: from the folder `prebuilt` if that has the one for just these headers, else with
    the compiler and the CUDA runtime's headers. Returns whether it was compiled. Raises ShimError."""
    version, cuda_version = read(root)
    kept = prebuilt / _torch_build.name_of_prebuilt(version, cuda_version, root / "include")
    if kept.is_file():
        shutil.copyfile(kept, path)
        return False
    if compiler is None:
        raise ShimError("there is no C++ compiler (g++)")
    if cuda is None:
        raise ShimError("there is no cuda_runtime_api.h: name the folder that has it with --cuda")
    has_cxx11_abi = b"torchCheckFailEPKcS2_jRKNSt7__cxx11" in (root / "lib/libc10.so").read_bytes()
    rpaths = [root / "lib", *dict.fromkeys(library.parent for library in libraries)]
    _torch_build.compile_shim(
        _torch_build.PyTorch(version, root, cuda, has_cxx11_abi),
        compiler,
        path,
        headers=headers,
        libraries=libraries,
        options=[f"-Wl,-rpath,{folder}" for folder in rpaths],
    )
    return True
