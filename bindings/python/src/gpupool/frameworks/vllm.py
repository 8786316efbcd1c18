# SPDX-License-Identifier: Apache-2.0
"""gpupool behind vLLM's sleep mode.

    GPUPOOL_INSTALL=vllm vllm serve MODEL --enable-sleep-mode --sleep-mode-backend gpupool

vLLM finds the backend through its plugins (register). GPUPOOL_INSTALL is for vLLM's own processes, in which weights and
caches must come from gpupool before the first sleep.
"""

from __future__ import annotations

import importlib
from typing import Any

from . import Undo
from ._vllm_allocator import allocator_instance

BACKEND = "gpupool"


def check() -> None:
    """vLLM looks its allocator up at each use."""


def put() -> Undo:
    """Makes allocator_instance vLLM's get_mem_allocator_instance; returns a function that undoes it.
    Raises RuntimeError if this version of vLLM has none."""
    module: Any = importlib.import_module("vllm.device_allocator")
    before = getattr(module, "get_mem_allocator_instance", None)
    if before is None:
        raise RuntimeError("gpupool needs vLLM 0.23, whose workers ask vllm.device_allocator for their allocator")
    module.get_mem_allocator_instance = allocator_instance

    def back() -> None:
        module.get_mem_allocator_instance = before

    return back


def register() -> None:
    """For vLLM's entry points "vllm.general_plugins": registers the sleep mode backend "gpupool". vLLM may call it more
    than once in a process, and older versions have no such backends."""
    try:
        module: Any = importlib.import_module("vllm.device_allocator.sleep_mode_backend")
    except ImportError:
        return
    factory = module.SleepModeBackendFactory
    try:
        factory.get_backend_class(BACKEND)
    except ValueError:
        factory.register_backend(BACKEND, "gpupool.frameworks.vllm_backend", "GpupoolBackend")
