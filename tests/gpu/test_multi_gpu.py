# SPDX-License-Identifier: Apache-2.0
"""gpupool in PyTorch on two GPUs: in one process, and in two that communicate."""

import importlib.util
import re
from functools import cache
from pathlib import Path

import pytest
from programs import read_cases, run

HERE = Path(__file__).parent


@cache
def why_not():
    """Why these tests cannot run here; empty if they can."""
    for name in ("torch", "gpupool"):
        if importlib.util.find_spec(name) is None:
            return f"{name} is not installed"
    found = run("-c", "import torch; print(torch.cuda.device_count())").stdout.strip()
    return "" if found.isdigit() and int(found) >= 2 else f"two GPUs are needed, PyTorch sees {found or 'none'}"


pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())


def names(program):
    return re.findall(r"^def (case_\w+)", (HERE / program).read_text(encoding="utf-8"), re.MULTILINE)


@cache
def results(program, shim):
    process = run(str(HERE / program), GPUPOOL_TORCH_SHIM=shim)
    return read_cases(process), process


both_ways = pytest.mark.parametrize("shim", ["1", "0"], ids=["shim", "pluggable"])


@pytest.mark.parametrize("case", names("multi_gpu_cases.py"))
@both_ways
def test_one_process(shim, case):
    found, process = results("multi_gpu_cases.py", shim)
    assert case in found, process.stderr[-3000:]
    assert found[case] == ""


@pytest.mark.parametrize("case", names("nccl_cases.py"))
@both_ways
def test_two_processes(shim, case):
    found, process = results("nccl_cases.py", shim)
    for number in (0, 1):
        assert f"{case}_{number}" in found, process.stderr[-3000:]
        assert found[f"{case}_{number}"] == ""


@pytest.mark.parametrize("program", ["multi_gpu_cases.py", "nccl_cases.py"])
@both_ways
def test_a_good_end(shim, program):
    _, process = results(program, shim)
    assert process.returncode == 0, process.stderr[-3000:]


def test_copies_without_peer_access():
    """What the shim does where devices cannot reach each other: the runtime's copy between devices, of memory that
    the other device has no access to."""
    process = run(
        "-c",
        """
import ctypes, re, torch, gpupool.torch
assert gpupool.torch.install() == "shim"
source = torch.arange(5_000_000, dtype=torch.int64, device="cuda:0")
target = torch.zeros(5_000_000, dtype=torch.int64, device="cuda:1")
torch.cuda.synchronize(0)
torch.cuda.synchronize(1)
with open("/proc/self/maps") as maps:
    runtime = ctypes.CDLL(re.search(r"\\S*libcudart\\S*", maps.read())[0])
runtime.cudaMemcpyPeerAsync.argtypes = [ctypes.c_void_p, ctypes.c_int] * 2 + [ctypes.c_size_t, ctypes.c_void_p]
stream = torch.cuda.current_stream(0).cuda_stream
assert runtime.cudaMemcpyPeerAsync(target.data_ptr(), 1, source.data_ptr(), 0, source.nbytes, stream) == 0
torch.cuda.synchronize(0)
assert torch.equal(target.cpu(), torch.arange(5_000_000))
""",
        GPUPOOL_TORCH_SHIM="1",
    )
    assert process.returncode == 0, process.stderr[-3000:]
