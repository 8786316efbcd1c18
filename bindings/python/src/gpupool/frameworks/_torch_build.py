# SPDX-License-Identifier: Apache-2.0
"""Compiles the allocator class for one PyTorch. Needs only what it is told, so that tools can use it too."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from . import _torch_newer
from ._torch_cache import ShimError

SOURCES = Path(__file__).resolve().parent / "torch_shim"
# Those that decide what the class must look like.
_DECIDING = tuple(file for _, file in _torch_newer.CLASSES)


@dataclass(frozen=True)
class PyTorch:
    """What a shim is compiled for."""

    version: str
    root: Path  # the package's folder, with include and lib
    cuda: Path  # the CUDA runtime's headers
    has_cxx11_abi: bool = True

    @property
    def include(self) -> Path:
        return self.root / "include"


def unknown(include: Path) -> _torch_newer.Newer:
    """What a PyTorch's headers ask of the shim, and it does not know."""
    return _torch_newer.find(include, SOURCES)


def name_of_prebuilt(version: str, cuda: str, include: Path) -> str:
    """The name of a shim that was compiled beforehand: 2.15.0+cu132 with 13.2 has torch-2.15.0-cuda13-DIGEST.so. The
    digest is that of the headers, for who builds PyTorch may change them. Raises OSError where there are none."""
    digest = hashlib.sha256()
    for file in _DECIDING:
        digest.update((include / file).read_bytes())
    return f"torch-{version.partition('+')[0]}-cuda{cuda.partition('.')[0]}-{digest.hexdigest()[:16]}.so"


def compile_shim(
    pytorch: PyTorch,
    compiler: str,
    path: Path,
    *,
    headers: Path,
    libraries: list[Path],
    options: list[str] | None = None,
) -> None:
    """Writes the library to `path`. headers: where gpupool/torch.h is; libraries: ours, and others to link. Raises
    ShimError."""
    written = path.with_suffix(".include")
    shutil.rmtree(written, ignore_errors=True)
    newer = unknown(pytorch.include)
    if newer:
        written.mkdir(exist_ok=True)
        (written / "newer.hpp").write_text(newer.header(pytorch.version), encoding="utf-8")
    command = [
        *(compiler, "-std=c++20", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-w", "-o", str(path)),
        f"-D_GLIBCXX_USE_CXX11_ABI={int(pytorch.has_cxx11_abi)}",
        *("-I", str(SOURCES), "-I", str(written), "-I", str(headers)),
        *("-isystem", str(pytorch.include), "-isystem", str(pytorch.cuda), "-isystem", str(SOURCES / "cuda")),
        str(SOURCES / "allocator.cpp"),
        *(f"-L{pytorch.root / 'lib'}", "-lc10", "-lc10_cuda", *map(str, libraries)),
        *(options or ()),
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        lines = [line for line in result.stderr.splitlines() if "error" in line or "undefined" in line]
        raise ShimError(
            f"{compiler} failed for PyTorch {pytorch.version}: {(lines or ['it ended without a message'])[0]}"
        )
