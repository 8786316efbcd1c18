# SPDX-License-Identifier: Apache-2.0
"""Numba's External Memory Management."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

from .cudadrv import driver

Context = type("Context", (), {"device": SimpleNamespace(id=0)})
CONTEXT = Context()


class HostOnlyCUDAMemoryManager:
    def __init__(self, context: Any = CONTEXT) -> None:
        self.context = context


class MemoryPointer:
    def __init__(self, context: Any, pointer: Any, size: int, finalizer: Callable[[], None]) -> None:
        self.pointer, self.size, self.free = pointer, size, finalizer


class MemoryInfo(NamedTuple):
    free: int
    total: int


def set_memory_manager(manager: Any) -> None:
    driver._memory_manager = manager
