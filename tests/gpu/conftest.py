# SPDX-License-Identifier: Apache-2.0
"""These tests need a GPU. Without one, or without the library, all of them are skipped and say why."""

import importlib.util
import os
import shutil
import subprocess
from functools import cache

import pytest


@cache
def why_not():
    """Why no test can run here; empty if they can."""
    if importlib.util.find_spec("gpupool") is None:
        return "the Python package gpupool is not installed"
    if shutil.which("nvidia-smi") is None:
        return "there is no NVIDIA driver here (no nvidia-smi)"
    found = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False, timeout=60)
    return "" if "GPU 0" in found.stdout else "nvidia-smi sees no GPU"


# With debug modes, blocks are larger than asked for, and none is exported to other processes.
EXACT_BYTES = [
    "case_all_on_one_pool",
    "case_bytes_by_step",
    "case_cuda_core",
    "case_history_and_recording",
    "case_snapshot",
    "case_statistics",
    "test_mem_pool",
]
EXPORTS = ["test_ipc.py", "test_sharing_between_processes"]


def pytest_collection_modifyitems(items):
    if reason := why_not():
        for item in items:
            item.add_marker(pytest.mark.skip(reason=reason))
    if os.environ.get("GPUPOOL_DEBUG"):
        for item in items:
            if any(part in item.nodeid for part in EXACT_BYTES + EXPORTS):
                item.add_marker(pytest.mark.skip(reason="counts exact bytes, or exports, which debug modes change"))
