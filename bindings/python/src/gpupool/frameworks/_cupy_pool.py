# SPDX-License-Identifier: Apache-2.0
"""What cupy.get_default_memory_pool() returns once gpupool serves CuPy."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from .._pool import Pool, default_pool

_cupy: Any = importlib.import_module("cupy")


class DefaultPool:
    """The methods of cupy.cuda.MemoryPool, on the default pool of the current device."""

    def __init__(self, allocator: Callable[[int], Any]) -> None:
        self._allocator = allocator

    @property
    def pool(self) -> Pool:
        return default_pool(_cupy.cuda.Device().id)

    def malloc(self, size: int) -> Any:
        return self._allocator(size)

    def used_bytes(self) -> int:
        """Bytes of live blocks, of all frameworks."""
        return self.pool.memory_allocated()

    def total_bytes(self) -> int:
        """Bytes of physical memory that the pool holds."""
        return self.pool.memory_reserved()

    def free_bytes(self) -> int:
        """Bytes held but not in use."""
        return self.total_bytes() - self.used_bytes()

    def n_free_blocks(self) -> int:
        """How many pieces of memory are cached."""
        return len([segment for segment in self.pool.snapshot().segments if segment.blocks == 0])

    def free_all_blocks(self, stream: Any = None) -> None:
        """Gives every cached chunk back to the driver, whichever stream used it."""
        self.pool.empty_cache()

    def free_all_free(self) -> None:
        self.free_all_blocks()

    def get_limit(self) -> int:
        """In bytes; 0: none."""
        return int(self.pool.stats().limit_bytes)

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        """Limits the pool, for all frameworks that share it. Neither, or 0, removes the limit. Raises ValueError, and
        OverLimitError if live blocks hold more."""
        if size is not None and fraction is not None:
            raise ValueError("size and fraction cannot be specified at one time")
        if fraction:
            self.pool.set_per_process_memory_fraction(fraction)
        else:
            self.pool.set_limit(size or 0)
