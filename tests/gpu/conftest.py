# SPDX-License-Identifier: Apache-2.0
"""These tests need a GPU. Without one, or without the library, all of them are skipped and say why."""

import importlib.util
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


def pytest_collection_modifyitems(items):
    if reason := why_not():
        for item in items:
            item.add_marker(pytest.mark.skip(reason=reason))
