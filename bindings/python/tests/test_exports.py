# SPDX-License-Identifier: Apache-2.0
"""Blocks between processes; one of them is a program in C."""

from __future__ import annotations

import ctypes
import multiprocessing
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gpupool

if sys.platform != "linux":
    pytest.skip("memory between processes is for Linux", allow_module_level=True)

MIB = 1 << 20
PACKAGE = Path(gpupool.__file__).parent
TESTS = Path(__file__).resolve().parents[3] / "tests"


def bytes_at(address: int, count: int) -> bytes:
    return ctypes.string_at(address, count)


def write_and_close(handle: str) -> None:
    with gpupool.Pool("sim") as pool, pool.import_block(handle) as block:
        assert bytes_at(block.address, block.size) == b"\1" * block.size
        ctypes.memset(block.address, 2, block.size)


@pytest.fixture(autouse=True)
def importers_may_be_children() -> None:
    """Where Yama restricts it, a process must allow others than its ancestors to take its memory."""
    ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)  # PR_SET_PTRACER, any


def test_a_block_of_another_process() -> None:
    with gpupool.Pool("sim") as pool:
        address = pool.malloc(3 * MIB)
        ctypes.memset(address, 1, 3 * MIB)
        child = multiprocessing.get_context("spawn").Process(target=write_and_close, args=(pool.export_block(address),))
        child.start()
        child.join()
        assert child.exitcode == 0
        assert bytes_at(address, 3 * MIB) == b"\2" * (3 * MIB)
        pool.free(address)
        assert pool.stats().all.active_bytes.current == 0


def test_an_import_keeps_the_memory() -> None:
    with gpupool.Pool("sim") as pool, gpupool.Pool("sim") as other:
        address = pool.malloc(MIB)
        handle = pool.export_block(address)
        assert handle == pool.export_block(address)
        block, again = other.import_block(handle), other.import_block(handle)
        assert (block.address, block.size) == (again.address, MIB)
        with pytest.raises(gpupool.UnavailableError):
            pool.sleep()
        pool.free(address)
        assert pool.stats().all.active_bytes.current == MIB
        block.close()
        block.close()
        assert pool.stats().all.active_bytes.current == MIB
        again.close()
        assert pool.stats().all.active_bytes.current == 0
        with pytest.raises(gpupool.UnavailableError, match="has freed the block"):
            other.import_block(handle)


def test_what_is_refused() -> None:
    with gpupool.Pool("sim") as pool, gpupool.Pool("sim", mode="driver") as other:
        with pytest.raises(gpupool.UnknownPointerError):
            pool.export_block(4096)
        for bad in ("", "gpupool2:1:2:3:sim-0:4", "x" * 1000):
            with pytest.raises(gpupool.InvalidArgumentError):
                pool.import_block(bad)
        with pytest.raises(gpupool.UnsupportedError):
            other.export_block(other.malloc(MIB))
        address = pool.malloc(MIB)
        block = pool.import_block(pool.export_block(address))
        with pytest.raises(TypeError, match="send the handle"):
            pickle.dumps(block)
    block.close()  # it has ended with its pool


def test_c_exports_and_python_imports(tmp_path: Path) -> None:
    compiler, source = shutil.which("cc"), TESTS / "process" / "export_block.c"
    libraries = sorted(PACKAGE.glob("libgpupool.so*"))
    if compiler is None or not source.exists() or not libraries:
        pytest.skip("no compiler, or no sources of the tests")
    program = tmp_path / "export_block"
    folders = [f"-I{PACKAGE / 'include'}", f"-I{TESTS}", f"-Wl,-rpath,{PACKAGE}"]
    subprocess.run([compiler, source, *folders, libraries[0], "-o", program], check=True)
    with subprocess.Popen(
        [program, "export"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={"GPUPOOL_BACKEND": "sim"}
    ) as exporter:
        assert exporter.stdin is not None
        assert exporter.stdout is not None
        handle = exporter.stdout.readline().strip()
        with gpupool.Pool("sim") as pool, pool.import_block(handle) as block:
            assert block.size == 37 * MIB
            assert bytes_at(block.address, block.size) == b"\1" * block.size
            ctypes.memset(block.address, 2, block.size)
            exporter.stdin.write("written\n")
            exporter.stdin.flush()
            assert exporter.stdout.readline() == "freed\n"
            assert bytes_at(block.address, block.size) == b"\2" * block.size
        exporter.stdin.close()
        assert exporter.wait() == 0
