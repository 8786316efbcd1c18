# SPDX-License-Identifier: Apache-2.0
"""compute-sanitizer, on a pool that tells it where the blocks are."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "sanitizer_cases.py"
TOOL = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"

pytestmark = pytest.mark.skipif(not Path(TOOL).exists(), reason="no compute-sanitizer")


def check(case, *options):
    """What the tool says of one case: how many errors, and the text."""
    done = subprocess.run(
        [TOOL, *options, sys.executable, str(PROGRAM), case],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=os.environ,
    )
    said = done.stdout + done.stderr
    summary = [line for line in said.splitlines() if "ERROR SUMMARY" in line]
    assert summary, said
    return int(summary[-1].split("SUMMARY:")[1].split()[0]), said


def test_a_program_that_is_right_has_no_errors():
    errors, said = check("right")
    assert errors == 0, said


@pytest.mark.parametrize("case", ["past_the_end", "before_the_begin", "after_the_free"])
def test_an_access_outside_of_blocks_is_an_error(case):
    errors, said = check(case)
    assert errors > 0, said
    assert "Invalid __global__ write of size 1 bytes" in said, said
    assert re.search(r"^=+ +at (.*\W)?write_bytes\b", said, re.MULTILINE), said  # the kernel


@pytest.mark.parametrize("case", ["past_the_end", "past_a_tensor"])
def test_the_block_is_named_by_its_own_size(case):
    if case == "past_a_tensor" and importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    said = check(case)[1]
    assert "write_bytes" in said, said
    assert "size 1,000 bytes" in said or "size 1000 bytes" in said, said


def test_a_leak_is_a_block():
    errors, said = check("leak", "--leak-check", "full")
    assert errors > 0, said
    assert "Leaked 1,000 bytes" in said or "1000 bytes" in said, said
