# SPDX-License-Identifier: Apache-2.0
"""Functions that the library calls: they may free, allocate and fail."""

import ctypes
import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable

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


MALLOCS: dict[str, Callable[[gpupool.Pool], object]] = {
    "malloc": lambda pool: pool.malloc(80 * MIB),
    "alloc": lambda pool: pool.alloc(80 * MIB),
    "malloc_aligned": lambda pool: pool.malloc_aligned(80 * MIB, 1024),
}


@pytest.mark.parametrize("malloc", MALLOCS)
def test_a2_what_a_handler_raises_is_raised_by_the_malloc(
    small_pool: gpupool.Pool, unraisable: list[BaseException], malloc: str
) -> None:
    def handler(size: int, attempt: int) -> bool:
        raise KeyError(size)

    small_pool.set_oom_handler(handler)
    with pytest.raises(KeyError, match=str(80 * MIB)) as caught:
        MALLOCS[malloc](small_pool)
    assert isinstance(caught.value.__context__, gpupool.OutOfMemoryError)
    assert caught.value.__context__.report
    assert [each.name for each in caught.traceback][-1] == "handler"
    small_pool.set_oom_handler(None)
    with pytest.raises(gpupool.OutOfMemoryError) as plain:
        MALLOCS[malloc](small_pool)
    assert plain.value.__context__ is None
    assert unraisable == []


def test_g_what_cannot_be_called_is_refused_at_once(small_pool: gpupool.Pool) -> None:
    with pytest.raises(TypeError, match="handler is 5, which cannot be called"):
        small_pool.set_oom_handler(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="handler is 'x', which cannot be called"):
        gpupool.set_log("x")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="upstream's free is 7, which cannot be called"):
        gpupool.Pool(upstream=(lambda size, stream: 0, 7))  # type: ignore[arg-type]


def test_a2_a_handler_may_end_the_program(small_pool: gpupool.Pool) -> None:
    def handler(size: int, attempt: int) -> bool:
        raise KeyboardInterrupt

    small_pool.set_oom_handler(handler)
    with pytest.raises(KeyboardInterrupt):
        small_pool.malloc(80 * MIB)


async def _asynchronous(size: int, attempt: int) -> bool:
    return False


@pytest.mark.parametrize("malloc", MALLOCS)
def test_an_answer_that_comes_later_is_refused(
    small_pool: gpupool.Pool, unraisable: list[BaseException], malloc: str
) -> None:
    """A coroutine is true, whatever it will say: the malloc would be tried for ever."""
    with pytest.raises(TypeError, match=r"handler is .*_asynchronous.*, whose answer comes later"):
        small_pool.set_oom_handler(_asynchronous)  # type: ignore[arg-type]
    small_pool.set_oom_handler(lambda size, attempt: _asynchronous(size, attempt))  # type: ignore[arg-type,return-value]
    with pytest.raises(TypeError, match=r"returned <coroutine .*, which is to be awaited"):
        MALLOCS[malloc](small_pool)
    assert small_pool.stats().oom_handler_calls == 1
    gc.collect()
    assert unraisable == []


def test_no_hook_and_no_upstream_answers_later(pool: gpupool.Pool, unraisable: list[BaseException]) -> None:
    async def hook(address: int) -> bool:
        return True

    with pytest.raises(TypeError, match=r"before_release is .*, whose answer comes later"):
        pool.set_sleep_hooks(hook)  # type: ignore[arg-type]
    pool.set_sleep_hooks(lambda address: hook(address))  # type: ignore[arg-type,return-value]
    with pytest.raises(gpupool.UnavailableError):
        pool.sleep()
    assert [type(error) for error in unraisable] == [TypeError]
    pool.set_sleep_hooks()

    async def malloc(size: int, stream: int) -> int:
        return 0

    upstream = (lambda size, stream: malloc(size, stream), lambda address, size, stream: None)
    with (
        gpupool.Pool(1, upstream=upstream) as other,  # type: ignore[arg-type]
        pytest.raises(gpupool.OutOfMemoryError) as failed,
    ):
        other.malloc(MIB)
    assert isinstance(failed.value.__cause__, TypeError)


def test_an_interrupt_ends_a_handler_that_always_tries_again() -> None:
    """Wherever it strikes: in the handler, or before and behind it."""
    program = """
import _thread, gpupool, random, signal, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
pool = gpupool.Pool("sim", limit="64MiB")
class Handler:
    def __call__(self, size, attempt): return True
kinds = [lambda size, attempt: True, Handler()]
upstream = gpupool.Pool("sim:1", upstream=(lambda size, stream: 0, lambda address, size, stream: None))
for pool, turn in [(pool, turn) for turn in range(60)] + [(upstream, 0)] * 20:
    pool.set_oom_handler(kinds[turn % 2])
    try:
        threading.Timer(0.001 + random.random() / 500, _thread.interrupt_main).start()
        pool.malloc_aligned(1 << 30, 1024) if turn % 3 == 0 else pool.malloc(1 << 30)
    except KeyboardInterrupt: pass
    else: raise AssertionError
print("interrupted")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert (done.stdout, done.stderr) == ("interrupted\n", "")


def test_no_malloc_succeeds_in_spite_of_an_interrupt(unraisable: list[BaseException]) -> None:
    """A shortage may end by other means after the handler has failed."""

    def interrupted(size: int, stream: int) -> int:
        if not attempts:
            attempts.append(size)
            raise KeyboardInterrupt
        return (1 << 40) + 512

    attempts: list[int] = []
    with gpupool.Pool(1, upstream=(interrupted, lambda address, size, stream: None)) as pool:
        pool.set_oom_handler(lambda size, attempt: attempt == 1)
        with pytest.raises(KeyboardInterrupt):
            pool.malloc(MIB)
        assert attempts and pool.memory_allocated() == 0
    assert unraisable == []


def test_a2_a_handler_whose_own_malloc_fails(small_pool: gpupool.Pool) -> None:
    """The inner error is the handler's, which may catch it."""
    gpupool.sim.configure(2, capacity_bytes=64 * MIB)
    with gpupool.Pool(2) as other:
        caught: list[BaseException] = []

        def inner(size: int, attempt: int) -> bool:
            raise KeyError("inner")

        def outer(size: int, attempt: int) -> bool:
            try:
                other.malloc(80 * MIB)
            except KeyError as error:
                caught.append(error)
            return False

        other.set_oom_handler(inner)
        small_pool.set_oom_handler(outer)
        with pytest.raises(gpupool.OutOfMemoryError) as failed:
            small_pool.malloc(80 * MIB)
        assert len(caught) == 1
        assert failed.value.__context__ is None
    gpupool.sim.configure(2)


def test_a2_an_error_of_a_thread_is_raised_on_that_thread(small_pool: gpupool.Pool) -> None:
    small_pool.set_oom_handler(lambda size, attempt: bool(int(f"not a number {size}")))
    seen: dict[int, str] = {}

    def work(i: int) -> None:
        for _ in range(50):
            try:
                small_pool.malloc((80 + i) * MIB)
            except ValueError as error:
                seen[i] = str(error)
                assert f"not a number {(80 + i) * MIB}" in str(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 4


DEFAULT_HOOK = """
import os
os.environ["GPUPOOL_BACKEND"] = "sim"
import ctypes, gpupool

def broken(*arguments):
    raise RuntimeError("my own bug")

pool = gpupool.Pool(limit_bytes=4 << 20)
pool.set_oom_handler(broken)
what = %r
if what == "handler":
    pool.alloc(64 << 20)
elif what == "handler of a malloc in C":
    # As PyTorch's allocator does: there is no call of Python that could raise it.
    malloc = gpupool._native.lib.gpupool_malloc
    assert malloc(pool._record.handle, 64 << 20, 0, gpupool._native.ffi.new("gpupool_ptr_t *")) == 4
elif what == "upstream":
    gpupool.Pool(upstream=(broken, broken)).alloc(100)
elif what == "upstream that is helped":
    memory = ctypes.create_string_buffer(64 << 20)
    broken_once = iter([broken])
    give = lambda *_: next(broken_once, lambda: -(-ctypes.addressof(memory) // 4096) * 4096)()
    with gpupool.Pool(upstream=(give, lambda *_: None)) as pool:
        pool.set_oom_handler(lambda *_: True)
        pool.alloc(100).free()
elif what == "upstream's free":
    memory = ctypes.create_string_buffer(64 << 20)
    give = lambda *_: -(-ctypes.addressof(memory) // 4096) * 4096
    pool = gpupool.Pool(upstream=(give, broken))
    pool.alloc(100).free()
    pool.close()
elif what == "log":
    gpupool.set_log(broken, "debug")
    gpupool.Pool().close()
    gpupool.set_log(None, "off")
"""


@pytest.mark.parametrize(
    ("what", "also"),
    [
        ("handler", "gpupool.OverLimitError: "),
        ("handler of a malloc in C", "Exception ignored"),
        ("upstream", "OutOfMemoryError: "),
        ("upstream that is helped", "Exception ignored"),
        ("upstream's free", "Exception ignored"),
        ("log", "Exception ignored"),
    ],
)
def test_a2_the_default_hook_shows_what_a_callback_raised(what: str, also: str) -> None:
    done = subprocess.run([sys.executable, "-c", DEFAULT_HOOK % what], capture_output=True, text=True, check=False)
    assert "RuntimeError: my own bug" in done.stderr
    assert ", in broken\n" in done.stderr
    assert also in done.stderr
    assert "UnraisableHookArgs" not in done.stderr
    assert (done.returncode != 0) == ("Exception ignored" not in also)
    if "ignored" not in also:
        assert done.stderr.count("RuntimeError: my own bug") == 1


def test_a_handler_does_not_keep_its_pool() -> None:
    pool = gpupool.Pool(6)
    pool.set_oom_handler(lambda size, attempt: False)
    gone = weakref.ref(pool)
    del pool
    gc.collect()
    assert gone() is None
    gpupool.sim.configure(6)


class HostMemory:
    """An upstream that gives host memory."""

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

    with gpupool.Pool(upstream=(malloc, free)) as pool:
        with pytest.raises(gpupool.OutOfMemoryError) as caught:
            pool.malloc(1000)
        assert repr(caught.value.__cause__) == "OSError('no memory today')"
        with pytest.raises(gpupool.OutOfMemoryError) as caught:
            pool.reserve(1000)
        assert repr(caught.value.__cause__) == "OSError('no memory today')"
    assert unraisable == []


def test_an_upstream_that_gives_no_address(unraisable: list[BaseException]) -> None:
    upstream = (lambda size, stream: -5, lambda *_: None)
    with gpupool.Pool(upstream=upstream) as pool, pytest.raises(gpupool.OutOfMemoryError) as caught:
        pool.malloc(1000)
    assert type(caught.value.__cause__) is OverflowError
    assert unraisable == []


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
    with pytest.raises(ValueError, match="'loud' is no loglevel; there are 'off', 'error', 'warning', 'info', 'debug'"):
        gpupool.set_log(None, "loud")  # type: ignore[arg-type]


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
