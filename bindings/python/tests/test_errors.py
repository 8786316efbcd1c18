# SPDX-License-Identifier: Apache-2.0
"""Each status is an exception of its own, with the library's message; nothing crashes."""

import pickle
from collections.abc import Callable

import pytest
from conftest import MIB

import gpupool
from gpupool._error import failure


def test_hierarchy() -> None:
    assert issubclass(gpupool.OverLimitError, gpupool.OutOfMemoryError)
    assert issubclass(gpupool.OutOfMemoryError, MemoryError)
    assert issubclass(gpupool.OutOfMemoryError, gpupool.Error)
    assert issubclass(gpupool.UnknownPointerError, ValueError)


@pytest.mark.parametrize("status", [s for s in gpupool.Status if s != gpupool.Status.SUCCESS])
def test_each_status(status: gpupool.Status) -> None:
    error = failure(status)
    assert (type(error), error.status) == (gpupool.Error._classes[status], status)
    assert error.message


def test_an_unknown_status() -> None:
    error = failure(999)
    assert type(error) is gpupool.Error
    assert (error.status, str(error)) == (999, "unknown status")


REFUSED: dict[str, tuple[type[gpupool.Error], str, Callable[[], object]]] = {
    "fraction": (gpupool.InvalidArgumentError, "fraction", lambda: gpupool.Pool(fraction=1.5)),
    "nan": (gpupool.InvalidArgumentError, "fraction", lambda: gpupool.Pool(fraction=float("nan"))),
    "slack": (gpupool.InvalidArgumentError, "slack", lambda: gpupool.Pool(slack=-0.5)),
    "device": (gpupool.InvalidArgumentError, "device", lambda: gpupool.Pool(99)),
    "no such device": (gpupool.InvalidArgumentError, "device", lambda: gpupool.device_info(-1)),
    "default device": (gpupool.InvalidArgumentError, "device", lambda: gpupool.default_pool(99)),
    "kind": (gpupool.UnsupportedError, ".", lambda: gpupool.Pool(kind="pinned", mode="vmm")),
    "upstream": (gpupool.InvalidArgumentError, "upstream", lambda: gpupool.Pool(mode="upstream")),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what: str) -> None:
    kind, words, call = REFUSED[what]
    with pytest.raises(kind, match=words):
        call()


@pytest.mark.skipif(bool(gpupool.features() & gpupool.Feature.CUDA), reason="there is a GPU")
def test_unavailable() -> None:
    with pytest.raises(gpupool.UnavailableError, match="CUDA") as caught:
        gpupool.Pool(backend="cuda")
    assert caught.value.status == gpupool.Status.UNAVAILABLE


def test_names() -> None:
    with pytest.raises(ValueError, match="'rocm' is no backend; there are 'auto', 'cuda', 'sim'"):
        gpupool.Pool(backend="rocm")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="7"):
        gpupool.Pool(kind=7)  # type: ignore[arg-type]


def test_out_of_memory(small_pool: gpupool.Pool) -> None:
    live = small_pool.alloc(40 * MIB)
    with pytest.raises(gpupool.OutOfMemoryError, match=r"40\.00 MiB in 1 live") as caught:
        small_pool.malloc(40 * MIB)
    assert type(caught.value) is gpupool.OutOfMemoryError
    assert "40.00 MiB in 1 live" in caught.value.report
    live.free()
    small_pool.alloc(60 * MIB).free()


def test_over_limit(pool: gpupool.Pool) -> None:
    pool.set_limit(8 * MIB)
    with pytest.raises(gpupool.OverLimitError) as caught:
        pool.alloc(9 * MIB)
    assert caught.value.report
    with pytest.raises(gpupool.OverLimitError):
        pool.reserve(9 * MIB)


def test_driver(small_pool: gpupool.Pool) -> None:
    gpupool.sim.script("create:1=error", 1)
    with pytest.raises(gpupool.DriverError) as caught:
        small_pool.malloc(2 * MIB)
    assert caught.value.driver_code != 0
    small_pool.free(small_pool.malloc(2 * MIB))


def test_pointers(pool: gpupool.Pool) -> None:
    address = pool.malloc(1000)
    for bad in (address + 1, address + 512, 4096, 2**64 - 1):
        with pytest.raises(gpupool.UnknownPointerError):
            pool.free(bad)
        with pytest.raises(gpupool.UnknownPointerError):
            pool.record_stream(bad, 7)
    pool.free(address)
    with pytest.raises(gpupool.UnknownPointerError, match="freed already"):
        pool.free(address)
    with pytest.raises(gpupool.UnknownPointerError):
        pool.block_info(address)


def test_numbers(pool: gpupool.Pool) -> None:
    with pytest.raises(OverflowError):
        pool.malloc(-1)
    with pytest.raises(OverflowError):
        pool.malloc(1 << 64)
    for size in ((1 << 64) - 1, 1 << 63):
        with pytest.raises((gpupool.OutOfMemoryError, gpupool.InvalidArgumentError)):
            pool.malloc(size)
    for bad in (1.5, True, None, b"1"):
        with pytest.raises(TypeError, match="size is "):
            pool.malloc(bad)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="stream is "):
            pool.malloc(512, bad)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="stream is '1'"):
        pool.malloc(512, "1")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        pool.malloc()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        pool.malloc(512, 0, 0)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        pool.malloc(512, bytes=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        pool.malloc(512, size=512)  # type: ignore[misc]
    with pytest.raises(gpupool.InvalidArgumentError, match="alignment"):
        pool.alloc(512, alignment=3)
    assert pool.memory_allocated() == 0


def test_an_error_can_be_pickled(small_pool: gpupool.Pool) -> None:
    with pytest.raises(gpupool.OutOfMemoryError) as caught:
        small_pool.malloc(1 << 40)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again), again.report) == (type(caught.value), str(caught.value), caught.value.report)


CLOSED_CALLS: dict[str, Callable[[gpupool.Pool], object]] = {
    "malloc": lambda pool: pool.malloc(512),
    "malloc_aligned": lambda pool: pool.malloc_aligned(512, 4096),
    "free": lambda pool: pool.free(4096),
    "alloc": lambda pool: pool.alloc(512),
    "record_stream": lambda pool: pool.record_stream(4096, 0),
    "release_stream": lambda pool: pool.release_stream(0),
    "park_stream": lambda pool: pool.park_stream(0),
    "stream": lambda pool: pool.stream(),
    "synchronize": lambda pool: pool.synchronize(),
    "copy": lambda pool: pool.copy(0, 0, 0),
    "fill": lambda pool: pool.fill(0, 0, 0),
    "empty_cache": lambda pool: pool.empty_cache(),
    "trim": lambda pool: pool.trim(0),
    "reserve": lambda pool: pool.reserve(1),
    "set_fraction": lambda pool: pool.set_per_process_memory_fraction(0.5),
    "set_limit": lambda pool: pool.set_limit(0),
    "set_oom_handler": lambda pool: pool.set_oom_handler(None),
    "stats": lambda pool: pool.stats(),
    "memory_stats": lambda pool: pool.memory_stats(),
    "reset_peaks": lambda pool: pool.reset_peak_memory_stats(),
    "snapshot": lambda pool: pool.snapshot(),
    "block_info": lambda pool: pool.block_info(4096),
    "report": lambda pool: pool.report(),
    "validate": lambda pool: pool.validate(),
}


@pytest.mark.parametrize("name", CLOSED_CALLS)
def test_a_closed_pool(name: str) -> None:
    pool = gpupool.Pool()
    pool.close()
    pool.close()
    assert pool.is_closed
    with pytest.raises(gpupool.InvalidArgumentError, match="the pool is closed"):
        CLOSED_CALLS[name](pool)
