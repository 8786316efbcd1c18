# SPDX-License-Identifier: Apache-2.0
"""The adapters with the oldest and the newest releases of their libraries: the light ones here, and with
GPUPOOL_HOST_RELEASES=all, as once a week, every one: some gigabytes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

MATRIX = Path(__file__).resolve().parents[3] / "tools/host_matrix.py"
CHOSEN = os.environ.get("GPUPOOL_HOST_RELEASES", "rmm,vllm")


@pytest.mark.skipif(not MATRIX.exists(), reason="a source archive of the package alone")
def test_the_oldest_and_the_newest_release_take_the_adapter(capsys: pytest.CaptureFixture[str]) -> None:
    names = [] if CHOSEN == "all" else CHOSEN.split(",")
    command = [sys.executable, "-B", str(MATRIX), *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    with capsys.disabled():
        print(f"\n{done.stdout.strip()}")
    if done.returncode == 77:
        pytest.skip("some could not be fetched")
    assert done.returncode == 0, done.stdout + done.stderr
