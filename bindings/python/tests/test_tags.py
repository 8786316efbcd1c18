# SPDX-License-Identifier: Apache-2.0
"""Tags follow the context, whatever runs on the thread meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator, Iterator
from contextlib import ExitStack

import pytest

import gpupool

MIB = 1 << 20


@pytest.fixture(autouse=True)
def _samples() -> None:
    gpupool.set_sampling(1)


@pytest.fixture
def kept(pool: gpupool.Pool) -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def held(pool: gpupool.Pool) -> dict[str, int]:
    """MiB by tag."""
    found: dict[str, int] = {}
    for holder in pool.holders():
        found[holder.tag] = found.get(holder.tag, 0) + round(holder.live_bytes / MIB)
    return found


def test_requests_that_take_turns(pool: gpupool.Pool, kept: ExitStack) -> None:
    async def request(name: str, size: int) -> None:
        with gpupool.tag(name):
            await asyncio.sleep(0)
            kept.enter_context(pool.alloc(size * MIB))
            with gpupool.tag(name + "'s own"):
                await asyncio.sleep(0)
                kept.enter_context(pool.alloc(size * MIB))
            await asyncio.sleep(0)
            pool.free(pool.malloc_aligned(MIB, 1024))
            kept.enter_context(pool.alloc(size * MIB))

    async def main() -> None:
        await asyncio.gather(request("A", 10), request("B", 20), request("C", 40))
        kept.enter_context(pool.alloc(80 * MIB))

    asyncio.run(main())
    assert held(pool) == {"A": 20, "B": 40, "C": 80, "A's own": 10, "B's own": 20, "C's own": 40, "": 80}


def test_a_request_that_is_cancelled(pool: gpupool.Pool, kept: ExitStack) -> None:
    async def cancelled() -> None:
        with gpupool.tag("cancelled"):
            await asyncio.sleep(10)

    async def main() -> None:
        task = asyncio.create_task(cancelled())
        await asyncio.sleep(0)
        with gpupool.tag("alive"):
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            kept.enter_context(pool.alloc(10 * MIB))

    asyncio.run(main())
    assert held(pool) == {"alive": 10}


def test_a_generator_that_ends_inside_another_tag(pool: gpupool.Pool, kept: ExitStack) -> None:
    def generator() -> Generator[int, None, None]:
        with gpupool.tag("generator"):
            yield 1

    one = generator()
    next(one)
    with gpupool.tag("outer"):
        kept.enter_context(pool.alloc(10 * MIB))
        one.close()
        kept.enter_context(pool.alloc(10 * MIB))
        with gpupool.tag("inner"):
            kept.enter_context(pool.alloc(20 * MIB))
    kept.enter_context(pool.alloc(40 * MIB))
    assert held(pool) == {"outer": 20, "inner": 20, "": 40}


def test_threads_have_contexts_of_their_own(pool: gpupool.Pool, kept: ExitStack) -> None:
    async def main() -> None:
        with gpupool.tag("task"):
            kept.enter_context(await asyncio.to_thread(pool.alloc, 10 * MIB))
        kept.enter_context(await asyncio.to_thread(pool.alloc, 20 * MIB))

    asyncio.run(main())
    with gpupool.tag("this thread's"):
        thread = threading.Thread(target=lambda: kept.enter_context(pool.alloc(40 * MIB)))
        thread.start()
        thread.join()
    assert held(pool) == {"task": 10, "": 60}


def test_a_decorator(pool: gpupool.Pool, kept: ExitStack) -> None:
    @gpupool.tag("function")
    def function(size: int, *, depth: int = 2) -> None:
        kept.enter_context(pool.alloc(size))
        if depth:
            function(size, depth=depth - 1)

    @gpupool.tag("coroutine")
    async def coroutine() -> None:
        await asyncio.sleep(0)
        kept.enter_context(pool.alloc(10 * MIB))

    async def main() -> None:
        await asyncio.gather(coroutine(), coroutine())

    function(10 * MIB)
    asyncio.run(main())
    assert held(pool) == {"function": 30, "coroutine": 20}
    assert function.__name__ == "function" and asyncio.iscoroutinefunction(coroutine)
    with pytest.raises(TypeError, match="is a generator, and runs when the tag has ended"):

        @gpupool.tag("generator")
        def generator() -> Iterator[int]:
            yield 1


def test_one_tag_many_times(pool: gpupool.Pool, kept: ExitStack) -> None:
    tag = gpupool.tag("again")
    with tag, tag, gpupool.tag("other"), tag:
        kept.enter_context(pool.alloc(10 * MIB))
    kept.enter_context(pool.alloc(20 * MIB))
    assert held(pool) == {"again": 10, "": 20}


def test_a_name_that_cannot_be_one_changes_nothing(pool: gpupool.Pool, kept: ExitStack) -> None:
    with gpupool.tag("good"):
        for bad in ("", "x" * 64):
            with pytest.raises(gpupool.InvalidArgumentError), gpupool.tag(bad):
                pass
        kept.enter_context(pool.alloc(10 * MIB))
    assert held(pool) == {"good": 10}


def test_what_python_does_not_see(pool: gpupool.Pool, kept: ExitStack) -> None:
    """A tag of the thread that no Python code set stays as it is."""
    from gpupool._native import lib  # noqa: PLC0415

    with gpupool.tag("used once"):
        pass
    assert lib.gpupool_tag_push(b"native") == 0
    kept.enter_context(pool.alloc(10 * MIB))
    with gpupool.tag("python"):
        kept.enter_context(pool.alloc(20 * MIB))
    kept.enter_context(pool.alloc(10 * MIB))
    assert lib.gpupool_tag_pop() == 0
    assert held(pool) == {"native": 20, "python": 20}
