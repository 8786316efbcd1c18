# SPDX-License-Identifier: Apache-2.0
"""Sleep and wake on a GPU: each case of sleep_cases.py in a process of its own, engines that rotate, and the figures of
sleep_bench.py. `pytest -rP` shows the figures."""

import importlib.util
import os
import re
import subprocess
from pathlib import Path

import pytest
from programs import run

CASES_FILE = Path(__file__).parent / "sleep_cases.py"
SOURCE = CASES_FILE.read_text(encoding="utf-8")
CASES = re.findall(r"^def (case_\w+)", SOURCE, re.MULTILINE)


def gpu_count():
    if (visible := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return len(visible.split(",")) if visible else 0
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False, timeout=60).stdout
    return sum(line.startswith("GPU ") for line in listed.splitlines())


def needs_torch(case):
    body = SOURCE[SOURCE.index(f"def {case}(") :].split("\ndef ", 1)[0]
    return "import torch" in body


@pytest.mark.parametrize("case", CASES)
def test_case(case):
    if needs_torch(case) and importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    if "peers" in case and gpu_count() < 2:
        pytest.skip("there is one GPU")
    done = run(str(CASES_FILE), case)
    print(done.stdout)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("part", ["0.15", "0.6"])  # of the card for each: six can be awake, or one
def test_s30_eight_engines_rotate_on_one_card(part):
    bench = str(CASES_FILE.parent / "rotation_bench.py")
    done = run(bench, "--part", part, "--rotations", os.environ.get("GPUPOOL_ROTATIONS", "200"))
    print(done.stdout)
    assert done.returncode == 0, done.stderr[-3000:]


def test_s21_the_figures():
    done = run(str(CASES_FILE.parent / "sleep_bench.py"), "--drop", "8GiB", "--save", "4GiB", "--cycles", "50")
    print(done.stdout)
    assert done.returncode == 0, done.stderr[-3000:]
    rates = [int(each) for each in re.findall(r"\((\d+)%(?: of plain copies)?\)", done.stdout)]
    assert len(rates) == 4 and min(rates) >= 85, done.stdout
