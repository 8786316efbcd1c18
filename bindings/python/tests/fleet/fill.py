# SPDX-License-Identifier: Apache-2.0
"""What workers do in the tests of Ray and Dask, and a look at their group from outside."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import gpupool

MIB = 1 << 20
CARD = 1024 * MIB
_kept: list[gpupool.Buffer] = []


def fill() -> tuple[int, int, int]:
    """Takes all that this process may have; returns its number, what it got and its limit."""
    pool = gpupool.default_pool(0)
    try:
        while True:
            _kept.append(pool.alloc(16 * MIB))
    except (gpupool.OverLimitError, gpupool.OutOfMemoryError):
        return os.getpid(), pool.memory_allocated(), pool.stats().limit_bytes


def free() -> None:
    """Frees it, into the cache."""
    _kept.clear()


def used(group: str = "team") -> int:
    """What the group's members have taken."""
    try:
        return gpupool.share_info(group, "sim").share.used_bytes
    except gpupool.UnavailableError:
        return 0


def until(holds: Callable[[], bool], seconds: float = 20) -> float:
    """Waits for it; returns how long that took."""
    began = time.monotonic()
    while not holds():
        if time.monotonic() - began > seconds:
            raise AssertionError(f"not within {seconds} s")
        time.sleep(0.01)
    return time.monotonic() - began


@contextmanager
def watched(group: str = "team") -> Iterator[list[int]]:
    """Looks all the time at what is taken, which must never be more than the card has."""
    seen: list[int] = []
    ends = threading.Event()

    def watch() -> None:
        while not ends.wait(0.002):
            seen.append(used(group))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield seen
    finally:
        ends.set()
        watcher.join()
    assert max(seen) <= CARD, max(seen)
