# SPDX-License-Identifier: Apache-2.0
"""Tools that look at every name of the package, where no framework can be imported."""

import subprocess
import sys

# In a fresh interpreter in which every framework is missing, or breaks when it is imported.
MISSING = """
import sys, inspect
from unittest import mock
for name in ("cuda", "cupy", "dask", "numba", "ray", "rmm", "torch", "triton", "vllm", "warp"):
    sys.modules[name] = None
import gpupool
"""


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", MISSING + program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_help() -> None:
    text = run("help(gpupool)")
    assert "class Pool" in text and "install(" in text


def test_every_name_can_be_asked_for() -> None:
    run("""
assert not hasattr(gpupool, "cupy") and not hasattr(gpupool, "nonsense")
assert getattr(gpupool, "warp", None) is None
found = dict(inspect.getmembers(gpupool))
assert found["Pool"] is gpupool.Pool and found["install"] is gpupool.install
mock.create_autospec(gpupool)
""")


def test_the_reason_is_told() -> None:
    run("""
try: gpupool.cupy
except AttributeError as error:
    assert str(error).startswith("gpupool.cupy cannot be imported: ") and "cupy" in str(error.__cause__)
else: raise AssertionError
try: import gpupool.cupy
except ModuleNotFoundError as error: assert error.name == "cupy"
else: raise AssertionError
""")
