# SPDX-License-Identifier: Apache-2.0
"""What waits can be interrupted: handlers of signals run meanwhile, and what they raise ends the wait."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest
from conftest import MIB

import gpupool
from gpupool._native import ffi

SOON = 3.0
"""Seconds. A call that is interrupted is expected back after 0.05 to 0.1 s; a busy machine takes longer."""
LONG = 60.0


@pytest.fixture(autouse=True)
def _ctrl_c() -> Iterator[None]:
    """What a shell runs in the background ignores it, and Python then installs no handler."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@contextmanager
def signalled(number: signal.Signals, after: float = 0.3) -> Iterator[None]:
    """This process gets a signal meanwhile, which ends a call long before it would end by itself."""
    timer = threading.Timer(after, os.kill, (os.getpid(), number))
    start = time.monotonic()
    timer.start()
    try:
        yield
    finally:
        timer.join()
    assert after <= time.monotonic() - start < after + SOON


@pytest.fixture
def asleep(pool: gpupool.Pool) -> Iterator[gpupool.Pool]:
    """A pool that holds mallocs."""
    block = pool.malloc(4 * MIB)
    pool.sleep(hold_mallocs=True)
    yield pool
    assert pool.sleep_state == gpupool.SleepState.ASLEEP
    pool.wake()
    pool.free(block)


@pytest.mark.parametrize("call", ["malloc", "alloc", "reserve"])
def test_ctrl_c_ends_a_malloc_that_is_held(asleep: gpupool.Pool, call: str) -> None:
    with signalled(signal.SIGINT), pytest.raises(KeyboardInterrupt) as raised:
        getattr(asleep, call)(8 * MIB)
    assert raised.value.__context__ is None


def test_ctrl_c_ends_a_wake_that_waits(small_pool: gpupool.Pool) -> None:
    block = small_pool.malloc(16 * MIB)
    small_pool.fill(block, 7, 16 * MIB)
    small_pool.sleep()
    with gpupool.Pool(1) as other:
        taken = other.malloc(60 * MIB)
        with signalled(signal.SIGINT), pytest.raises(KeyboardInterrupt):
            small_pool.wake(timeout=LONG)
        other.free(taken)
    assert small_pool.wake().saved_bytes == 16 * MIB
    small_pool.free(block)


def test_ctrl_c_ends_a_wake_by_name(small_pool: gpupool.Pool) -> None:
    small_pool.name = "interrupted"
    block = small_pool.malloc(16 * MIB)
    small_pool.sleep()
    with gpupool.Pool(1) as other:
        taken = other.malloc(60 * MIB)
        with signalled(signal.SIGINT), pytest.raises(KeyboardInterrupt):
            gpupool.wake_tag("interrupted", timeout=LONG)
        other.free(taken)
    small_pool.wake()
    small_pool.free(block)


def test_a_handler_that_raises_nothing_runs_and_the_wait_goes_on(pool: gpupool.Pool) -> None:
    """As the handler of SIGTERM does that begins an orderly end; and it may use gpupool itself."""
    block = pool.malloc(4 * MIB)
    pool.sleep(hold_mallocs=True)
    seen: list[int] = []

    def handler(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        with pytest.raises(gpupool.UnknownPointerError):
            pool.free(12345)
        if len(seen) == 2:
            pool.wake()

    before = signal.signal(signal.SIGTERM, handler)
    try:
        with signalled(signal.SIGTERM, 0.6):
            first = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM))
            first.start()
            second = pool.malloc(MIB)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert seen == [signal.SIGTERM] * 2
    pool.free(second)
    pool.free(block)


def test_what_a_handler_raises_is_what_the_call_raises(asleep: gpupool.Pool) -> None:
    class Overdue(Exception):
        pass

    def handler(number: int, frame: FrameType | None) -> None:
        raise Overdue("too late")

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with signalled(signal.SIGALRM), pytest.raises(Overdue, match="too late"):
            asleep.malloc(MIB)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_other_threads_run_meanwhile_and_are_not_interrupted(pool: gpupool.Pool) -> None:
    block = pool.malloc(4 * MIB)
    pool.sleep(hold_mallocs=True)
    held: list[int] = []
    thread = threading.Thread(target=lambda: held.append(pool.malloc(MIB)))
    thread.start()
    with signalled(signal.SIGINT), pytest.raises(KeyboardInterrupt):
        pool.malloc(MIB)
    time.sleep(0.2)
    assert thread.is_alive()
    pool.wake()
    thread.join()
    pool.free(held[0])
    pool.free(block)


def test_ctrl_c_reaches_a_program_whose_framework_calls_the_library(asleep: gpupool.Pool) -> None:
    """As PyTorch's allocator does, which knows of no exception of Python's: it is raised once Python goes on."""
    library = ctypes.CDLL(str(next(Path(gpupool.__file__).parent.glob("libgpupool.so.*"))))
    handle = int(ffi.cast("uintptr_t", asleep._owner.handle))
    address = ctypes.c_uint64()
    with signalled(signal.SIGINT), pytest.raises(KeyboardInterrupt):
        library.gpupool_malloc(ctypes.c_void_p(handle), ctypes.c_uint64(MIB), ctypes.c_size_t(0), ctypes.byref(address))
        for _ in range(1000):
            time.sleep(0.001)


REAL = """
import os, signal, threading, time, gpupool
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
pool = gpupool.Pool("sim")
stream = pool.stream()
block = pool.alloc(1 << 20, stream)
def interrupted(call):
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    start = time.monotonic()
    try:
        call()
    except KeyboardInterrupt:
        print(f"{call.__name__} {time.monotonic() - start:.3f}", flush=True)
    else:
        print(f"{call.__name__} was not interrupted", flush=True)
gpupool.sim.work(5_000_000_000, stream, address=block.address, size=1 << 20)
interrupted(pool.synchronize)
interrupted(stream.synchronize)
interrupted(pool.sleep)
"""


def test_ctrl_c_ends_waits_for_the_device() -> None:
    """In a program of its own, on a simulated device that takes the machine's time."""
    environment = {**os.environ, "GPUPOOL_SIM": "time=real,capacity=1GiB"}
    ran = subprocess.run(
        [sys.executable, "-c", REAL + "os._exit(0)"],
        env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    lines = [line.split() for line in ran.stdout.splitlines()]
    assert [line[0] for line in lines] == ["synchronize", "synchronize", "sleep"], ran.stdout
    assert all(0.3 <= float(line[1]) < 2.0 for line in lines), ran.stdout
