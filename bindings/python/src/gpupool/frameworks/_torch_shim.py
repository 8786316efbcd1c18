# SPDX-License-Identifier: Apache-2.0
"""The allocator class for the installed PyTorch: compiled once per version, then kept."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import _torch_cache
from ._torch_cache import ShimError

_PACKAGE = Path(__file__).resolve().parents[1]
_SOURCES = Path(__file__).resolve().parent / "torch_shim"


def library_path() -> Path:
    """The libgpupool that this package uses."""
    return _find("gpupool")


def torch_library_path() -> Path:
    """The libgpupool_torch beside it, with the functions that PyTorch calls."""
    return _find("gpupool_torch")


def names_of(library: str, system: str = sys.platform) -> str:
    """What the files of a library are called on a system, as a pattern."""
    if system == "win32":
        return f"{library}*.dll"
    return f"lib{library}*.dylib" if system == "darwin" else f"lib{library}.so*"


def _find(library: str) -> Path:
    pattern = names_of(library)
    for path in sorted(_PACKAGE.glob(pattern)):
        return path
    raise ShimError(f"{_PACKAGE} has no {pattern}")


def load(torch: Any) -> ctypes.CDLL:
    """The shim for this PyTorch, compiled if necessary: about ten seconds, once. Raises ShimError."""
    compiler = _compiler()
    return _torch_cache.load(
        f"torch-{torch.__version__}-{_key(torch, compiler)}.so", lambda path: _build(torch, compiler, path)
    )


def _compiler() -> str | None:
    return os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++") or shutil.which("clang++")


def _key(torch: Any, compiler: str | None) -> str:
    """A key of everything that the shim depends on: machines and containers may share a home folder."""
    libc = "".join(platform.libc_ver())
    made_by = [str(torch.version.git_version), platform.machine(), libc, str(library_path()), _version_of(compiler)]
    digest = hashlib.sha256("\n".join(made_by).encode())
    headers = _PACKAGE / "include" / "gpupool"
    for path in sorted([*_SOURCES.rglob("*.[ch]pp"), *headers.glob("*.h")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:32]


def _version_of(compiler: str | None) -> str:
    """The compiler's version text; empty if there is none."""
    if compiler is None:
        return ""
    try:
        return subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ShimError(f"the C++ compiler {compiler} cannot be run: {error}") from error


def _cuda_folders() -> Iterator[Path]:
    """Where the CUDA runtime's headers may be: beside PyTorch, in separate packages, or in a toolkit."""
    for entry in map(Path, sys.path):
        yield from sorted(entry.glob("nvidia/cu*/include"), reverse=True)
        yield entry / "nvidia" / "cuda_runtime" / "include"
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if name in os.environ:
            yield Path(os.environ[name]) / "include"
    yield Path("/usr/local/cuda/include")


def _standard_library() -> list[str]:
    """The C++ library that PyTorch has loaded. A compiler may have only a static one, and two in a process clash."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    paths = {line.split(maxsplit=5)[-1] for line in lines if "/libstdc++.so." in line}
    return sorted(paths)[:1]


def _build(torch: Any, compiler: str | None, path: Path) -> None:
    if compiler is None:
        raise ShimError("there is no C++ compiler (g++)")
    needed = ("cuda_runtime_api.h", "crt/host_config.h")
    cuda = next((folder for folder in _cuda_folders() if all((folder / name).exists() for name in needed)), None)
    if cuda is None:
        raise ShimError(f"there is no {needed[1]}: neither a CUDA toolkit nor the package nvidia-cuda-crt is installed")
    root, library, hooks = Path(torch.__file__).parent, library_path(), torch_library_path()
    command = [
        *(compiler, "-std=c++20", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-w", "-o", str(path)),
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        *("-I", str(_PACKAGE / "include")),
        *("-isystem", str(root / "include"), "-isystem", str(cuda)),
        str(_SOURCES / "allocator.cpp"),
        *(f"-L{root / 'lib'}", "-lc10", "-lc10_cuda", str(hooks), str(library), *_standard_library()),
        *(f"-Wl,-rpath,{root / 'lib'}", f"-Wl,-rpath,{library.parent}"),
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        lines = [line for line in result.stderr.splitlines() if "error" in line] or ["it ended without a message"]
        raise ShimError(f"{compiler} failed for PyTorch {torch.__version__}: {lines[0]}")
