# SPDX-License-Identifier: Apache-2.0
"""gpupool in frameworks other than PyTorch, on a GPU: each case of others_cases.py in its own process."""

import importlib.util
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest
from programs import run

CASES_FILE = Path(__file__).parent / "others_cases.py"
SOURCE = CASES_FILE.read_text(encoding="utf-8")
CASES = re.findall(r"^def (case_\w+)", SOURCE, re.MULTILINE)
ENVIRONMENTS = {
    "case_numba_by_its_variable": {"NUMBA_CUDA_MEMORY_MANAGER": "gpupool.numba"},
    "case_from_the_environment": {"GPUPOOL_INSTALL": "torch,cupy,warp", "GPUPOOL_CAP": "40%"},
}


@cache
def why_not():
    """Why these tests cannot run here; empty if they can."""
    if importlib.util.find_spec("gpupool") is None:
        return "gpupool is not installed"
    program = "import gpupool; assert gpupool.Feature.CUDA in gpupool.features()"
    return "" if run("-c", program).returncode == 0 else "there is no GPU here"


pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())


def missing(case):
    """What the case imports and is not installed."""
    body = SOURCE[SOURCE.index(f"def {case}(") :].split("\ndef ", 1)[0]
    names = set(re.findall(r"^ +(?:import|from) (\w+)", body, re.MULTILINE)) - {"gpupool"}
    return [name for name in sorted(names) if importlib.util.find_spec(name) is None]


@pytest.mark.parametrize("case", CASES)
def test_case(case):
    if missing(case):
        pytest.skip(f"not installed: {', '.join(missing(case))}")
    done = run(str(CASES_FILE), case, **ENVIRONMENTS.get(case, {}))
    assert done.returncode == 0, done.stderr[-3000:]


def test_running_a_program():
    case = "case_from_the_environment"
    if missing(case):
        pytest.skip(f"not installed: {', '.join(missing(case))}")
    done = run("-m", "gpupool", "--cap", "40%", "--install", "torch,cupy", str(CASES_FILE), case)
    assert done.returncode == 0, done.stderr[-3000:]


def folder(package):
    return Path(importlib.util.find_spec(package).origin).parent


def test_rmm_in_cpp(tmp_path):
    absent = [name for name in ("librmm", "rapids_logger") if importlib.util.find_spec(name) is None]
    absent += [name for name in ("g++", "nvcc") if shutil.which(name) is None]
    if absent:
        pytest.skip(f"not installed: {', '.join(absent)}")
    cuda = Path(shutil.which("nvcc")).resolve().parent.parent
    includes = [folder("librmm") / "include", folder("librmm") / "include/rapids", folder("rapids_logger") / "include"]
    libraries = [folder("librmm") / "lib64", folder("rapids_logger") / "lib64", cuda / "lib64"]
    program = tmp_path / "rmm_resource"
    command = ["g++", "-std=c++20", f"-I{CASES_FILE.parents[2] / 'include'}"]
    command += [f"-isystem{path}" for path in (*includes, cuda / "include")]
    command += [str(CASES_FILE.parent / "rmm_resource.cpp"), "-o", str(program)]
    command += [text for path in (*libraries, folder("gpupool")) for text in (f"-L{path}", f"-Wl,-rpath,{path}")]
    command += ["-lrmm", "-lrapids_logger", "-lcudart", "-l:libgpupool.so.0.2"]
    built = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert built.returncode == 0, built.stderr[-3000:]
    done = subprocess.run([program], capture_output=True, text=True, check=False, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
