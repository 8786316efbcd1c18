# SPDX-License-Identifier: Apache-2.0
"""Blocks between processes on a GPU: each case of ipc_cases.py in processes of its own."""

from pathlib import Path

import pytest
from programs import run

PROGRAM = Path(__file__).parent / "ipc_cases.py"


@pytest.mark.parametrize("order", ["exporter", "importer", "killed", "flat"])
def test_order(order):
    done = run(str(PROGRAM), order)
    print(done.stdout)
    assert done.returncode == 0, done.stderr[-3000:]
