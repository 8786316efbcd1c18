# SPDX-License-Identifier: Apache-2.0
"""The shim with PyTorch's newest releases: their own headers and libraries, fetched part by part.

GPUPOOL_TORCH_RELEASES says how many; the weekly workflow and tests/gpu try all."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from gpupool.frameworks import _torch_shim

ROOT = Path(__file__).resolve().parents[3]
MATRIX = ROOT / "tools/torch_matrix.py"
KEPT = ROOT / "build/pytorch"
RELEASES = os.environ.get("GPUPOOL_TORCH_RELEASES", "2")

pytestmark = pytest.mark.skipif(platform.system() != "Linux", reason="PyTorch's functions are for Linux")


def matrix(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    libraries = str(_torch_shim.library_path().parent)
    command = [sys.executable, "-B", str(MATRIX), "--libraries", libraries, *options]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode == 77:
        with capsys.disabled():
            print(f"\n{result.stdout.strip()}")
        pytest.skip(result.stdout)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_the_newest_releases_take_the_shim(capsys: pytest.CaptureFixture[str]) -> None:
    rows = matrix(capsys, "--newest", RELEASES).splitlines()[2:]
    assert len(rows) == int(RELEASES)
    assert all(row.count("yes") == 3 for row in rows)


def libtorch(folder: Path, output: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpupool.libtorch", str(folder), "-o", str(output), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_library_for_programs_without_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    matrix(capsys, "--newest", "1")
    newest = max(KEPT.glob("2.*.*/torch"), key=lambda path: tuple(map(int, path.parent.name.split("."))))
    shim = tmp_path / "shim.so"
    done = libtorch(newest, shim, "--cuda", str(next(newest.parent.glob("nvidia/*/include"))))
    assert done.returncode == 0, done.stderr
    assert b"gpupool_torch_install" in shim.read_bytes()
    done = libtorch(tmp_path, shim)
    assert done.returncode == 1
    assert "is no libtorch with CUDA" in done.stderr


# PyTorch's own libraries, and of PyTorch itself just what is asked of it.
PROGRAM = """
import ctypes, sys, time
from pathlib import Path
from types import SimpleNamespace
from gpupool.frameworks import _torch_cache, _torch_shim

root, _torch_shim.PREBUILT = map(Path, sys.argv[1:3])
_torch_cache.load = None  # nothing is compiled
for name in ("nvidia/*/lib/libcudart.so.*", "torch/lib/libc10.so", "torch/lib/libc10_cuda.so"):
    ctypes.CDLL(str(next(root.glob(name))))
version = {}
exec((root / "torch/version.py").read_text(), version)
torch = SimpleNamespace(__version__=version["__version__"], __file__=str(root / "torch/__init__.py"),
                        version=SimpleNamespace(cuda=version["cuda"]))
start = time.perf_counter()
assert _torch_shim.load(torch).gpupool_torch_install() == 0
print(time.perf_counter() - start)
"""


def test_a_shim_from_the_wheel_needs_no_compiler_and_no_time(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    [shim] = matrix(capsys, "--newest", "1", "--prebuild", str(tmp_path / "shims")).split()
    release = KEPT / Path(shim).name.split("-")[1]
    # As in a wheel, our libraries are in the folder above.
    for library in _torch_shim.library_path().parent.glob("libgpupool*.so*"):
        (tmp_path / library.name).symlink_to(library)
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(release), str(tmp_path / "shims")],
        env=os.environ | {"PATH": "/nonexistent", "GPUPOOL_LIBCUDA": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert float(result.stdout) < 1
