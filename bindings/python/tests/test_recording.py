# SPDX-License-Identifier: Apache-2.0
"""Tags, holders, recordings: what the binding adds to the library's."""

from __future__ import annotations

import gc
import os
import random
import re
import threading
from pathlib import Path
from typing import Any

import pytest

import gpupool

MIB = 1 << 20


@pytest.fixture(autouse=True)
def _samples() -> None:
    """Every malloc of 64 MiB is a sample, however slow the machine is."""
    gpupool.set_sampling(MIB)


def load(pool: gpupool.Pool) -> gpupool.Buffer:
    with gpupool.tag("kv cache"):
        return pool.alloc(64 * MIB)


def test_holders_name_tag_file_and_function(pool: gpupool.Pool) -> None:
    with load(pool):
        largest = pool.holders()[0]
        assert largest.tag == "kv cache"
        assert 60 * MIB < largest.live_bytes < 70 * MIB
        first, second = largest.stack.splitlines()[:2]
        assert first.startswith("load (") and "test_recording.py:" in first
        assert second.startswith("test_holders_name_tag_file_and_function (")
        assert 'of "kv cache" from load (' in pool.report()
    assert pool.holders() == ()


def test_stacks_that_were_seen_before_are_still_right(pool: gpupool.Pool) -> None:
    size = 64 * MIB

    def one(depth: int) -> gpupool.Buffer:
        return pool.alloc(size) if depth == 0 else one(depth - 1)

    def names() -> list[str]:
        return [line.partition(" ")[0] for line in pool.holders()[0].stack.splitlines()]

    def first() -> tuple[str, int]:
        line = pool.holders()[0].stack.splitlines()[0]
        return line.partition(" ")[0], int(line.rpartition(":")[2].rstrip(")"))

    for _ in range(3):
        for depth in (0, 1, 7, 60):
            with one(depth):
                found = names()[:-1]  # the text may end within the last
                assert found[: depth + 1] == ["one"] * min(depth + 1, len(found))
        with pool.alloc(size):
            here = first()
        with pool.alloc(size):
            assert first() == (here[0], here[1] + 2)
    # More functions than are remembered, whose code lies where that of others was.
    for number in range(3000):
        scope: dict[str, Any] = {}
        exec(f"def function_{number}(pool, size):\n" + "\n" * (number % 7) + "  return pool.alloc(size)", scope)
        with scope.pop(f"function_{number}")(pool, size):
            assert first() == (f"function_{number}", number % 7 + 2)
    # And more that stay, called again when others have pushed them out.
    kept: dict[str, Any] = {}
    for number in range(3000):
        exec(f"def kept_{number}(pool, size):\n  return pool.alloc(size)", kept)
    for number in [*range(3000), *range(3000), 1, 2, 1, 2]:
        with kept[f"kept_{number}"](pool, size):
            assert first() == (f"kept_{number}", 2)


def test_the_failure_says_who() -> None:
    who = r'of "kv cache" from load \(.*test_recording.py:\d+\)'
    with (
        gpupool.Pool(limit=100 * MIB) as pool,
        load(pool),
        pytest.raises(gpupool.OutOfMemoryError, match=who),
    ):
        pool.alloc(64 * MIB)


def test_the_failure_names_the_three_largest_holders_with_their_bytes() -> None:
    """As tests/gpu/torch_shortage.py does with PyTorch: within 10 per cent, beside what comes and goes."""
    pick = random.Random(5)
    kept: list[gpupool.Buffer] = []
    with gpupool.Pool(limit=12 << 30) as pool:

        def keys(count: int) -> None:
            for _ in range(count):
                kept.append(pool.alloc(4 * MIB))

        def weights(count: int) -> None:
            for i in range(count):
                kept.append(pool.alloc((24 + 8 * (i % 5)) * MIB))

        def activations(count: int) -> None:
            for _ in range(count):
                kept.append(pool.alloc(pick.randrange(4 * MIB, 28 * MIB)))

        def small(count: int) -> None:
            for _ in range(count):
                kept.append(pool.alloc(MIB))

        held = {}
        for function, count in ((keys, 700), (small, 300), (weights, 100), (activations, 110)):
            before = pool.memory_allocated()
            function(count)
            held[function.__name__] = pool.memory_allocated() - before
            for _ in range(200):
                pool.alloc(700 * MIB).free()
        with pytest.raises(gpupool.OutOfMemoryError) as raised:
            pool.alloc(6 << 30)
        for block in kept:
            block.free()
    told = str(raised.value).partition("Most is held by:\n")[2]
    holders = re.findall(r"([\d.]+) GiB from (\w+) \(\S*test_recording.py:\d+\)", told)
    assert [name for _, name in holders] == sorted(held, key=held.__getitem__, reverse=True)[:3], told
    for gib, name in holders:
        assert float(gib) * (1 << 30) == pytest.approx(held[name], rel=0.1), told


def test_a_tag_decorates_and_ends_with_an_exception(pool: gpupool.Pool) -> None:
    @gpupool.tag("decorated")
    def work() -> gpupool.Buffer:
        return pool.alloc(64 * MIB)

    with work():
        assert pool.holders()[0].tag == "decorated"
    with pytest.raises(ZeroDivisionError), gpupool.tag("gone"):
        1 / 0  # noqa: B018
    with pool.alloc(64 * MIB):
        assert pool.holders()[0].tag == ""


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("", gpupool.InvalidArgumentError),
        ("x" * 64, gpupool.InvalidArgumentError),
        ("a\0b", ValueError),
        (5, TypeError),
    ],
)
def test_wrong_tags(name: str, error: type[Exception]) -> None:
    with pytest.raises(error), gpupool.tag(name):
        pytest.fail("this must not run")


def test_recording(pool: gpupool.Pool, tmp_path: Path) -> None:
    path = tmp_path / "recording.gpt"
    gpupool.record_start(path)
    with pytest.raises(gpupool.InvalidArgumentError, match="under way"):
        gpupool.record_start(tmp_path / "other")
    gpupool.mark("step 1")
    with load(pool):
        pass
    gpupool.record_stop()
    with pytest.raises(gpupool.InvalidArgumentError, match="no recording"):
        gpupool.record_stop()
    content = path.read_bytes()
    for text in (b"GPUPOOL\x01", b"step 1", b"kv cache", b"load (", b"test_recording.py:"):
        assert text in content
    with pytest.raises(gpupool.InvalidArgumentError, match="File exists"):
        gpupool.record_start(path)
    with pytest.raises(ValueError, match="there are 'none'"):
        gpupool.record_start(tmp_path / "x", stacks="some")  # type: ignore[arg-type]


@pytest.mark.parametrize("turn", range(int(os.environ.get("GPUPOOL_TEST_TURNS", "1"))))
def test_threads_and_a_busy_collector_do_not_deadlock(pool: gpupool.Pool, tmp_path: Path, turn: int) -> None:
    """Each thread frees blocks of the others, in destructors that the collector runs in the middle of mallocs."""
    gpupool.record_start(tmp_path / f"recording{turn}.gpt", stacks="all")
    kept: list[object] = []
    steps = [0] * 8

    class Cycle:
        def __init__(self) -> None:
            self.buffer = pool.alloc(1 * MIB)
            self.me = self

    def work(number: int) -> None:
        for i in range(150):
            steps[number] = i
            kept.append(Cycle())
            if i % 5 == 0:
                kept.clear()
                gc.collect()

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(len(steps))]
    for thread in threads:
        thread.start()
    for thread in threads:
        # A busy machine may be slow, but threads that wait for one another make no step at all.
        before: list[int] = []
        while thread.is_alive() and steps != before:
            before = steps.copy()
            thread.join(timeout=60)
    stuck = [thread for thread in threads if thread.is_alive()]
    gpupool.record_stop()
    assert not stuck
    kept.clear()
    gc.collect()
    assert pool.holders() == ()
