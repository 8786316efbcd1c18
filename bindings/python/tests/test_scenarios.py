# SPDX-License-Identifier: Apache-2.0
"""The scenarios of all languages, the check that this runner can fail, and the examples."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
RUNNER = Path(__file__).with_name("scenario_runner.py")
SCENARIOS = sorted((ROOT / "tests/scenario").glob("*.json"))
ENVIRONMENT = {**os.environ, "GPUPOOL_BACKEND": "sim"}


def run(*command: object, **more: str) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        env={**ENVIRONMENT, **more},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_scenarios() -> None:
    lines = [json.loads(line) for line in run(sys.executable, RUNNER, *SCENARIOS).splitlines()]
    assert [line["name"] for line in lines] == [path.stem for path in SCENARIOS]
    assert len(lines) > 10


def test_the_runner_can_fail() -> None:
    run(sys.executable, "-B", ROOT / "tests/scenario/test_runner.py", SCENARIO_RUNNER=f"{sys.executable} {RUNNER}")


def test_basic_example() -> None:
    assert "refused" in run(sys.executable, ROOT / "examples/python/basic.py")


def test_example_with_nothing_but_the_library() -> None:
    import gpupool  # noqa: PLC0415

    library = Path(gpupool.__file__).with_name("libgpupool.so.0.2")
    assert "freed already" in run(sys.executable, "-I", ROOT / "examples/python/ctypes_dlopen.py", library)


@pytest.mark.parametrize("trace", ["streams_prefetch", "zero_gather"])
def test_replay(trace: str) -> None:
    """As the command says, if it is there."""
    file = ROOT / f"tests/data/{trace}.trace.gz"
    found = json.loads(run(sys.executable, ROOT / "examples/python/replay.py", file))
    assert (found["language"], found["trace"]) == ("python", trace)
    command = Path(os.environ.get("GPUPOOL_PREFIX", "")) / "bin/gpupool"
    if not command.exists():
        pytest.skip("GPUPOOL_PREFIX has no gpupool command")
    expected = json.loads(run(command, "replay", "--json", file))
    timed = ("language", "ns_per_event")
    assert {k: v for k, v in found.items() if k not in timed} == {k: expected[k] for k in found if k not in timed}


def test_bench() -> None:
    line = json.loads(run(sys.executable, Path(__file__).parents[1] / "bench/pair.py"))
    assert line.keys() == {"language", "pair_ns_4k", "pair_ns_1m"}
