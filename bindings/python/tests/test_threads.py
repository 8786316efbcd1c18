# SPDX-License-Identifier: Apache-2.0
"""Many threads on one pool, and a pool that is closed under them."""

import functools
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import pytest
from conftest import MIB

import gpupool
from gpupool import _content
from gpupool._native import lib

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


SLOW_USES: dict[str, tuple[str, Callable[[gpupool.Buffer], object]]] = {
    "fill": ("gpupool_fill", lambda buffer: buffer.fill(0xEE)),
    "fill of a slice": ("gpupool_fill", lambda buffer: buffer[100:200].fill(0xEE)),
    "copy_from_host": ("gpupool_copy", lambda buffer: buffer.copy_from_host(b"\xee" * 1000)),
    "copy_to_host": ("gpupool_copy", lambda buffer: buffer.copy_to_host()),
    "record_stream": ("gpupool_record_stream", lambda buffer: buffer.record_stream(11)),
    "synchronize": ("gpupool_stream_synchronize", lambda buffer: buffer.synchronize()),
    "view": ("gpupool_stream_synchronize", lambda buffer: buffer.view()),
}


@pytest.mark.parametrize("use", SLOW_USES)
def test_a11_a_use_that_is_under_way_holds_the_block_and_the_stream(
    pool: gpupool.Pool, use: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, call = SLOW_USES[use]
    inside, may_go_on = threading.Event(), threading.Event()

    class Slow:
        """The library, with one function that waits."""

        def __getattr__(self, wanted: str) -> object:
            if wanted != name:
                return getattr(lib, wanted)

            def wait(*arguments: object) -> object:
                inside.set()
                assert may_go_on.wait(10)
                return getattr(lib, name)(*arguments)

            return wait

    stream = pool.stream()
    buffer = pool.alloc(1000, stream)
    address = buffer.address
    errors: list[BaseException] = []

    def body() -> None:
        try:
            call(buffer)
        except BaseException as error:
            errors.append(error)

    with monkeypatch.context() as patch:
        patch.setattr(_content, "lib", Slow())
        thread = threading.Thread(target=body)
        thread.start()
        assert inside.wait(10)
    buffer.free()
    stream.close()
    with pytest.raises(gpupool.UnknownPointerError, match="the buffer has been freed"):
        buffer.fill(1)
    assert pool.block_info(address).requested_bytes == 1000
    may_go_on.set()
    thread.join()
    assert errors == []
    assert pool.memory_allocated() == 0
    with pytest.raises(gpupool.InvalidArgumentError, match="the stream is closed"):
        stream.synchronize()


def outcome(use: Callable[[], object]) -> str:
    try:
        use()
    except gpupool.UnknownPointerError as error:
        return str(error)
    except gpupool.InvalidArgumentError as error:
        return str(error)
    return "in time"


def test_a11_a_free_waits_for_what_other_threads_do(pool: gpupool.Pool) -> None:
    """One thread frees a buffer and closes its stream while another uses them, 1,200 times. A use either happens in
    time or says what has gone; it never reaches the memory of the next owner, whose content is looked at."""
    rounds, size = 1200, 4096
    uses: list[Callable[[gpupool.Buffer], object]] = [
        lambda buffer: buffer.fill(0xEE),
        lambda buffer: buffer.copy_from_host(b"\xee" * size),
        lambda buffer: buffer.copy_to_host(),
        lambda buffer: buffer.record_stream(0),
        lambda buffer: buffer[100:200].fill(0xEE),
        lambda buffer: buffer.view(),
        lambda buffer: buffer.synchronize(),
    ]
    slots: list[gpupool.Buffer | None] = [None]
    outcomes: Counter[str] = Counter()
    errors: list[BaseException] = []
    done = threading.Event()

    def use() -> None:
        chance = random.Random(7)
        while not done.is_set():
            if (buffer := slots[0]) is not None:
                try:
                    outcomes[outcome(functools.partial(uses[chance.randrange(len(uses))], buffer))] += 1
                except BaseException as error:
                    errors.append(error)

    others = [threading.Thread(target=use) for _ in range(2)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    for thread in others:
        thread.start()
    try:
        for n in range(rounds):
            stream = pool.stream()
            slots[0] = pool.alloc(size, stream)
            time.sleep(1e-5 * (n % 7))
            shared, slots[0] = slots[0], None
            assert shared is not None
            stream.close() if n % 2 else None
            shared.free()
            if n % 3 == 0:
                pool.empty_cache()  # so that a late use finds nothing mapped
            with pool.alloc(size) as mine:
                mine.fill(1)
                mine.synchronize()
                assert mine.copy_to_host() == b"\1" * size
            stream.close()
    finally:
        done.set()
        for thread in others:
            thread.join()
        sys.setswitchinterval(interval)
    assert errors == []
    assert outcomes["in time"]
    assert set(outcomes) <= {"in time", "the buffer has been freed", "the stream is closed"}
    assert pool.memory_allocated() == 0
