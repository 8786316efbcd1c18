# SPDX-License-Identifier: Apache-2.0
"""The allocator class for the PyTorch that is installed: compiled once for each version, then kept."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).resolve().parents[1]
_SOURCES = Path(__file__).resolve().parent / "torch_shim"


class ShimError(Exception):
    """Why there is no shim."""


def library_path() -> Path:
    """The libgpupool that this package uses."""
    for path in sorted(_PACKAGE.glob("libgpupool.so*")):
        return path
    raise ShimError(f"{_PACKAGE} has no libgpupool.so")


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "gpupool"


def load(torch: Any) -> ctypes.CDLL:
    """The shim for this PyTorch, compiled if need be: about ten seconds, once. Raises ShimError."""
    path = cache_folder() / f"torch-{torch.__version__}-{_key()}.so"
    if not path.exists():
        _build(torch, path)
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise ShimError(str(error)) from error


def _key() -> str:
    """Stands for everything that the shim is made of, but PyTorch."""
    digest = hashlib.sha256(str(library_path()).encode())
    headers = _PACKAGE / "include" / "gpupool"
    for path in sorted([*_SOURCES.rglob("*.[ch]pp"), *headers.glob("*.h")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _cuda_folders() -> Iterator[Path]:
    """Where the CUDA runtime's headers may lie: beside PyTorch, as packages of their own, or in a toolkit."""
    for entry in map(Path, sys.path):
        yield from sorted(entry.glob("nvidia/cu*/include"), reverse=True)
        yield entry / "nvidia" / "cuda_runtime" / "include"
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if name in os.environ:
            yield Path(os.environ[name]) / "include"
    yield Path("/usr/local/cuda/include")


def _standard_library() -> list[str]:
    """The C++ library that PyTorch has loaded. A compiler may have only the static one, and two in a process clash."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    paths = {line.split(maxsplit=5)[-1] for line in lines if "/libstdc++.so." in line}
    return sorted(paths)[:1]


def _build(torch: Any, path: Path) -> None:
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++") or shutil.which("clang++")
    if compiler is None:
        raise ShimError("there is no C++ compiler (g++)")
    needed = ("cuda_runtime_api.h", "crt/host_config.h")
    cuda = next((folder for folder in _cuda_folders() if all((folder / name).exists() for name in needed)), None)
    if cuda is None:
        raise ShimError(f"there is no {needed[1]}: neither a CUDA toolkit nor the package nvidia-cuda-crt is installed")
    root, library = Path(torch.__file__).parent, library_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Processes that start together each build it; the last one to rename wins, and all are the same.
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            built = Path(folder) / path.name
            command = [
                *(compiler, "-std=c++20", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-w", "-o", str(built)),
                f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
                *("-I", str(_PACKAGE / "include")),
                *("-isystem", str(root / "include"), "-isystem", str(cuda)),
                str(_SOURCES / "allocator.cpp"),
                *(f"-L{root / 'lib'}", "-lc10", "-lc10_cuda", str(library), *_standard_library()),
                *(f"-Wl,-rpath,{root / 'lib'}", f"-Wl,-rpath,{library.parent}"),
            ]
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            if result.returncode != 0:
                lines = [line for line in result.stderr.splitlines() if "error" in line] or ["it ended without a word"]
                raise ShimError(f"{compiler} failed for PyTorch {torch.__version__}: {lines[0]}")
            built.replace(path)
    except OSError as error:
        raise ShimError(str(error)) from error
