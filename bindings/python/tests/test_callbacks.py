# SPDX-License-Identifier: Apache-2.0
"""Functions that the library calls: they may free, allocate and fail."""

import ctypes
import gc
import os
import weakref

import pytest
from conftest import MIB

import gpupool


def test_oom_handler(small_pool: gpupool.Pool) -> None:
    kept = [small_pool.alloc(40 * MIB)]
    asked: list[tuple[int, int]] = []

    def handler(size: int, attempt: int) -> bool:
        asked.append((size, attempt))
        kept.clear()
        return True

    small_pool.set_oom_handler(handler)
    small_pool.alloc(40 * MIB).free()
    assert asked == [(40 * MIB, 1)]
    small_pool.set_oom_handler(lambda size, attempt: attempt < 3)
    with pytest.raises(gpupool.OutOfMemoryError):
        small_pool.malloc(80 * MIB)
    assert small_pool.stats().oom_handler_calls == 4
    small_pool.set_oom_handler(None)
    with pytest.raises(gpupool.OutOfMemoryError):
        small_pool.malloc(80 * MIB)
    assert small_pool.stats().oom_handler_calls == 4


def test_a_handler_that_fails(small_pool: gpupool.Pool, unraisable: list[BaseException]) -> None:
    def handler(size: int, attempt: int) -> bool:
        raise KeyError(size)

    small_pool.set_oom_handler(handler)
    with pytest.raises(gpupool.OutOfMemoryError):
        small_pool.malloc(80 * MIB)
    assert [repr(error) for error in unraisable] == [f"KeyError({80 * MIB})"]


def test_a_handler_does_not_keep_its_pool() -> None:
    pool = gpupool.Pool(6)
    pool.set_oom_handler(lambda size, attempt: False)
    gone = weakref.ref(pool)
    del pool
    gc.collect()
    assert gone() is None
    gpupool.sim.configure(6)


class HostMemory:
    """An upstream that gives memory of the host."""

    def __init__(self, limit: int) -> None:
        self.left = limit
        self.given: dict[int, ctypes.Array[ctypes.c_char]] = {}

    def malloc(self, size: int, stream: int) -> int | None:
        if size > self.left:
            return None
        memory = ctypes.create_string_buffer(size + 4096)
        address = -(-ctypes.addressof(memory) // 4096) * 4096
        self.given[address] = memory
        self.left -= size
        return address

    def free(self, address: int, size: int, stream: int) -> None:
        del self.given[address]
        self.left += size


def test_upstream() -> None:
    memory = HostMemory(64 * MIB)
    pool = gpupool.Pool(upstream=(memory.malloc, memory.free))
    buffer = pool.alloc(1000)
    assert any(start <= buffer.address < start + len(block) for start, block in memory.given.items())
    with pytest.raises(gpupool.OutOfMemoryError):
        pool.malloc(80 * MIB)
    pool.close()
    assert memory.given
    buffer.free()
    assert not memory.given
    assert memory.left == 64 * MIB


def test_upstream_is_kept_while_it_is_needed_and_no_longer() -> None:
    memory = HostMemory(64 * MIB)
    gone = weakref.ref(memory)
    pool = gpupool.Pool(upstream=(memory.malloc, memory.free))
    del memory
    buffer = pool.alloc(1000)
    del pool
    gc.collect()
    assert gone() is not None
    del buffer
    gc.collect()
    assert gone() is None


def test_an_upstream_that_fails(unraisable: list[BaseException]) -> None:
    def malloc(size: int, stream: int) -> int:
        raise OSError("no memory today")

    def free(address: int, size: int, stream: int) -> None:
        pass

    with gpupool.Pool(upstream=(malloc, free)) as pool, pytest.raises(gpupool.OutOfMemoryError):
        pool.malloc(1000)
    assert {str(error) for error in unraisable} == {"no memory today"}


def test_an_upstream_that_gives_no_address(unraisable: list[BaseException]) -> None:
    upstream = (lambda size, stream: -5, lambda *_: None)
    with gpupool.Pool(upstream=upstream) as pool, pytest.raises(gpupool.OutOfMemoryError):
        pool.malloc(1000)
    assert {type(error) for error in unraisable} == {OverflowError}


def test_log(unraisable: list[BaseException]) -> None:
    lines: list[tuple[gpupool.LogLevel, str]] = []
    try:
        gpupool.set_log(lambda level, message: lines.append((level, message)), "debug")
        with gpupool.Pool() as pool:
            pool.free(pool.malloc(MIB))
        assert lines
        assert all(level <= gpupool.LogLevel.DEBUG and message for level, message in lines)
        gpupool.set_log(lambda level, message: 1 // 0, gpupool.LogLevel.DEBUG)
        gpupool.Pool().close()
        assert {type(error) for error in unraisable} == {ZeroDivisionError}
    finally:
        gpupool.set_log(None, "off")
    with pytest.raises(KeyError):
        gpupool.set_log(None, "loud")


def test_retry(small_pool: gpupool.Pool) -> None:
    calls = []

    @gpupool.retry_on_oom
    def step(size: int) -> gpupool.Buffer:
        """A step."""
        calls.append(size)
        mine = small_pool.alloc(8 * MIB)
        cycle: list[object] = [mine]
        cycle.append(cycle)
        return small_pool.alloc(size)

    garbage: list[object] = [small_pool.alloc(40 * MIB)]
    garbage.append(garbage)
    del garbage
    assert step.__doc__ == "A step."
    buffer = step(40 * MIB)
    assert (calls, buffer.nbytes) == ([40 * MIB] * 2, 40 * MIB)
    gc.collect()


def test_retry_gives_up(small_pool: gpupool.Pool) -> None:
    seen: list[object] = []
    small_pool.free(small_pool.malloc(10 * MIB))
    look = lambda error: seen.append((bool(error.report), small_pool.memory_reserved()))  # noqa: E731

    @gpupool.retry_on_oom(stages=[gpupool.empty_caches, look])
    def step() -> int:
        seen.append("step")
        raise gpupool.OutOfMemoryError("no")

    with pytest.raises(gpupool.OutOfMemoryError):
        step()
    assert seen == ["step", "step", (False, 0), "step"]


def test_retry_lets_other_errors_pass() -> None:
    @gpupool.retry_on_oom
    def step() -> None:
        raise KeyError(os.getpid())

    with pytest.raises(KeyError):
        step()
