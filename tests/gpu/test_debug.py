# SPDX-License-Identifier: Apache-2.0
"""Debug modes, fences and protected blocks on a real GPU."""

import re
from functools import cache
from pathlib import Path

import pytest
from programs import read_cases, run

PROGRAM = Path(__file__).parent / "debug_cases.py"


@cache
def results():
    process = run(str(PROGRAM))
    return read_cases(process), process


@pytest.mark.parametrize("case", re.findall(r"^def (case_\w+)", PROGRAM.read_text(encoding="utf-8"), re.MULTILINE))
def test_case(case):
    found, process = results()
    assert case in found, process.stderr[-3000:]
    assert found[case] == ""
