# SPDX-License-Identifier: Apache-2.0
"""Many threads on one pool, and a pool that is closed under them."""

import random
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest
from conftest import MIB

import gpupool

THREADS = 6


def run(work: Callable[[int], None]) -> None:
    """Runs work(i) on each thread at once, and raises what one of them raised."""
    errors: list[BaseException] = []
    start = threading.Barrier(THREADS)

    def body(i: int) -> None:
        start.wait()
        try:
            work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=body, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_malloc_and_free(pool: gpupool.Pool) -> None:
    shared: list[gpupool.Buffer] = []

    def work(i: int) -> None:
        chance = random.Random(i)
        with pool.stream() as stream:
            for _ in range(300):
                address = pool.malloc(chance.randrange(1, 2 * MIB), stream)
                shared.append(pool.alloc(chance.randrange(1, MIB), stream))
                pool.free(address, stream)
                # Others may have taken it in between.
                with suppress(IndexError):
                    shared.pop(chance.choice([0, -1])).free()
            with suppress(IndexError):
                while True:
                    shared.pop().free()

    run(work)
    stats = pool.stats()
    assert stats.all.allocated_bytes.current == 0
    assert stats.all.allocated_blocks.total_allocated == THREADS * 600
    pool.validate()


def test_the_limit_holds(pool: gpupool.Pool) -> None:
    pool.set_limit(16 * MIB)

    def work(i: int) -> None:
        for n in range(200):
            try:
                pool.alloc((1 + (i + n) % 4) * MIB).free()
            except gpupool.OverLimitError as error:
                assert error.report

    run(work)
    assert pool.max_memory_reserved() <= 16 * MIB


@pytest.mark.parametrize("repeat", range(10))
def test_closing_under_use(repeat: int) -> None:
    pool = gpupool.Pool()

    def work(i: int) -> None:
        kept = []
        try:
            for n in range(200):
                if i == 0 and n == 20 + repeat * 5:
                    pool.close()
                kept.append(pool.alloc(1000 * (i + 1)))
                stream = pool.stream()
                kept.append(pool.alloc(1000, stream))
                del kept[: n % 3]
        except gpupool.InvalidArgumentError as error:
            assert "closed" in str(error)

    run(work)
    assert pool.is_closed


@pytest.mark.parametrize("repeat", range(10))
def test_addresses_freed_while_the_pool_is_closed(repeat: int) -> None:
    pool = gpupool.Pool()
    blocks = [[pool.malloc(1000) for _ in range(50)] for _ in range(THREADS)]

    def work(i: int) -> None:
        for n, address in enumerate(blocks[i]):
            if i == 0 and n == repeat * 5:
                pool.close()
            pool.free(address)

    run(work)
    with pytest.raises(gpupool.InvalidArgumentError, match="closed"):
        pool.free(blocks[0][0])


def test_one_buffer_freed_and_used_by_all(pool: gpupool.Pool) -> None:
    for _ in range(50):
        buffer, stream = pool.alloc(1000), pool.stream()

        def work(i: int, buffer: gpupool.Buffer = buffer, stream: gpupool.Stream = stream) -> None:
            uses: list[Callable[[], object]] = [buffer.copy_to_host, buffer.__dlpack__, buffer.view]
            try:
                uses[i % 3]()
                buffer.free()
                stream.synchronize()
                stream.close()
            except gpupool.UnknownPointerError as error:
                assert "buffer has been freed" in str(error)
            except gpupool.InvalidArgumentError as error:
                assert "stream is closed" in str(error)

        run(work)
        assert pool.memory_allocated() == 0
