# SPDX-License-Identifier: Apache-2.0
"""PyTorch's functions, on a device's default pool: device 0 if none is given."""

from __future__ import annotations

from ._pool import default_pool
from ._statistics import Snapshot


def memory_allocated(device: int | None = None) -> int:
    """Bytes of live blocks."""
    return default_pool(device or 0).memory_allocated()


def max_memory_allocated(device: int | None = None) -> int:
    """The peak of bytes in live blocks."""
    return default_pool(device or 0).max_memory_allocated()


def memory_reserved(device: int | None = None) -> int:
    """Bytes of physical memory that the pool holds."""
    return default_pool(device or 0).memory_reserved()


def max_memory_reserved(device: int | None = None) -> int:
    """The peak of physical memory that the pool held, in bytes."""
    return default_pool(device or 0).max_memory_reserved()


def reset_peak_memory_stats(device: int | None = None) -> None:
    """Sets every peak to the current value."""
    default_pool(device or 0).reset_peak_memory_stats()


def memory_stats(device: int | None = None) -> dict[str, int]:
    """See Pool.memory_stats."""
    return default_pool(device or 0).memory_stats()


def memory_summary(device: int | None = None, abbreviated: bool = False) -> str:
    """See Pool.memory_summary."""
    return default_pool(device or 0).memory_summary(abbreviated)


def snapshot(device: int | None = None) -> Snapshot:
    """See Pool.snapshot."""
    return default_pool(device or 0).snapshot()


def empty_cache(device: int | None = None) -> int:
    """Gives every cached chunk back to the driver; returns how many bytes that was."""
    return default_pool(device or 0).empty_cache()


def synchronize(device: int | None = None) -> None:
    """Waits until every stream that the pool has seen has passed the work queued on it so far."""
    default_pool(device or 0).synchronize()


def set_per_process_memory_fraction(fraction: float, device: int | None = None) -> None:
    """Limits what the pool may reserve to a fraction of the device's memory, in (0, 1]."""
    default_pool(device or 0).set_per_process_memory_fraction(fraction)
