# SPDX-License-Identifier: Apache-2.0
"""gpupool in Triton: the memory that kernels ask for at launch.

    gpupool.install("triton")       # or triton.set_allocator(gpupool.triton.allocator)

Triton keeps its allocator per thread and context; call it in each thread that launches such kernels.
"""

from __future__ import annotations

import importlib
from contextvars import ContextVar
from typing import Any

from .._buffer import Buffer
from . import Undo
from ._pools import pool_of

_triton: Any = importlib.import_module("triton")


class Memory:
    """A block that is freed on its stream when it is dropped, as a Triton kernel needs it."""

    __slots__ = ("buffer",)

    buffer: Buffer

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer

    def data_ptr(self) -> int:
        """The block's address."""
        return self.buffer.address


def allocator(size: int, alignment: int, stream: int | None) -> Memory:
    """For triton.set_allocator: memory from the current device's default pool. stream None is the current one. Raises
    as Pool.alloc."""
    driver = _triton.runtime.driver.active
    device = driver.get_current_device()
    number = driver.get_current_stream(device) if stream is None else stream
    return Memory(pool_of(device).alloc(size, number, alignment=max(alignment, 512)))


def check() -> None:
    """Raises RuntimeError if this version of Triton accepts no allocator. Others accept one at any time."""
    if not hasattr(_triton, "set_allocator"):
        raise RuntimeError(f"gpupool needs Triton 3.3, which accepts allocators; this is {_triton.__version__}")


def put() -> Undo:
    """Makes `allocator` Triton's in this thread, before Triton 3.5 in all; returns a function that undoes it."""
    current: Any = importlib.import_module("triton.runtime._allocation")._allocator
    before = current.get() if isinstance(current, ContextVar) else current
    _triton.set_allocator(allocator)
    return lambda: _triton.set_allocator(before)
