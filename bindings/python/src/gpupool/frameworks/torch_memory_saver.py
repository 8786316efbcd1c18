# SPDX-License-Identifier: Apache-2.0
"""gpupool.torch.sleep in place of torch_memory_saver, even if that is not installed."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any

from . import Undo, _torch_saver

_NAMES = ("torch_memory_saver", "configure_subprocess")


def check() -> None:
    """Its object hooks into PyTorch on first use, which cannot be undone."""
    module = sys.modules.get("torch_memory_saver")
    saver = getattr(module, "torch_memory_saver", None)
    if getattr(saver, "_impl", None) is not None:
        raise RuntimeError(
            'gpupool.install("torch_memory_saver") comes too late: torch_memory_saver already has memory. Call it '
            "before the first region, or set GPUPOOL_INSTALL=torch_memory_saver in the environment"
        )


def put() -> Undo:
    """Installs gpupool's object and configure_subprocess; returns a function that undoes it."""
    if importlib.util.find_spec("torch_memory_saver") is None:
        stand_in = ModuleType("torch_memory_saver", "gpupool.torch.sleep, in the place of torch_memory_saver.")
        stand_in.__spec__ = importlib.util.spec_from_loader("torch_memory_saver", loader=None)
        _fill(stand_in)
        sys.modules["torch_memory_saver"] = stand_in
        return lambda: sys.modules.pop("torch_memory_saver", None)
    module = importlib.import_module("torch_memory_saver")
    before = {name: getattr(module, name) for name in _NAMES if hasattr(module, name)}
    _fill(module)

    def back() -> None:
        for name in _NAMES:
            delattr(module, name)
        for name, value in before.items():
            setattr(module, name, value)

    return back


def _fill(module: Any) -> None:
    for name in _NAMES:
        setattr(module, name, getattr(_torch_saver, name))
