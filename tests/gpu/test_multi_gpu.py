# SPDX-License-Identifier: Apache-2.0
"""gpupool in PyTorch, on two GPUs: in one process, and in two that talk to each other."""

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
