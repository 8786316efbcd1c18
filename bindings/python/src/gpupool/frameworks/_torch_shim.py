# SPDX-License-Identifier: Apache-2.0
"""The allocator class for the installed PyTorch: the one that came with this package, or else one that is compiled
once per version and then kept."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import _torch_build, _torch_cache
from ._torch_cache import ShimError

_PACKAGE = Path(__file__).resolve().parents[1]
PREBUILT = _PACKAGE / "shims"
HEADERS = _PACKAGE / "include"


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
    prebuilt = _prebuilt(torch)
    if prebuilt is not None:
        return prebuilt
    compiler = find_compiler()
    library = _torch_cache.load(
        f"torch-{torch.__version__}-{_key(torch, compiler)}.so", lambda path: _build(torch, compiler, path)
    )
    newer = _torch_build.unknown(_include(torch)).words()
    if newer:
        warnings.warn(
            f"PyTorch {torch.__version__} asks allocators for functions that this gpupool does not know: "
            f"{newer}. All else works; a newer gpupool may know them",
            RuntimeWarning,
            stacklevel=4,
        )
    return library


def _include(torch: Any) -> Path:
    return Path(torch.__file__).parent / "include"


def _prebuilt(torch: Any) -> ctypes.CDLL | None:
    """The one for just this release and its headers, if this package has it and it can be loaded here."""
    try:
        name = _torch_build.name_of_prebuilt(str(torch.__version__), str(torch.version.cuda), _include(torch))
        return ctypes.CDLL(str(PREBUILT / name))
    except OSError:
        return None


# How it is compiled matters too.
_BUILDERS = [Path(_torch_build.__file__), Path(_torch_build.__file__).with_name("_torch_newer.py")]


def find_compiler() -> str | None:
    return os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++") or shutil.which("clang++")


def _key(torch: Any, compiler: str | None) -> str:
    """A key of everything that the shim depends on: machines and containers may share a home folder."""
    libc = "".join(platform.libc_ver())
    made_by = [str(torch.version.git_version), platform.machine(), libc, str(library_path()), _version_of(compiler)]
    digest = hashlib.sha256("\n".join(made_by).encode())
    headers = HEADERS / "gpupool"
    for path in sorted([*_torch_build.SOURCES.rglob("*.*"), *headers.glob("*.h"), *_BUILDERS]):
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


def cuda_folders() -> Iterator[Path]:
    """Where the CUDA runtime's headers may be: beside PyTorch, in separate packages, or in a toolkit."""
    for entry in map(Path, sys.path):
        yield from sorted(entry.glob("nvidia/cu*/include"), reverse=True)
        yield entry / "nvidia" / "cuda_runtime" / "include"
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if name in os.environ:
            yield Path(os.environ[name]) / "include"
    yield Path("/usr/local/cuda/include")


def _standard_library() -> list[Path]:
    """The C++ library that PyTorch has loaded. A compiler may have only a static one, and two in a process clash."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    paths = {line.split(maxsplit=5)[-1] for line in lines if "/libstdc++.so." in line}
    return [Path(path) for path in sorted(paths)[:1]]


def _build(torch: Any, compiler: str | None, path: Path) -> None:
    if compiler is None:
        raise ShimError("there is no C++ compiler (g++)")
    cuda = next((folder for folder in cuda_folders() if (folder / "cuda_runtime_api.h").exists()), None)
    if cuda is None:
        raise ShimError(
            "there is no cuda_runtime_api.h: neither a CUDA toolkit nor the package nvidia-cuda-runtime is installed"
        )
    root, library, hooks = Path(torch.__file__).parent, library_path(), torch_library_path()
    pytorch = _torch_build.PyTorch(str(torch.__version__), root, cuda, bool(torch.compiled_with_cxx11_abi()))
    _torch_build.compile_shim(
        pytorch,
        compiler,
        path,
        headers=HEADERS,
        libraries=[hooks, library, *_standard_library()],
        options=[f"-Wl,-rpath,{root / 'lib'}", f"-Wl,-rpath,{library.parent}"],
    )
