# SPDX-License-Identifier: Apache-2.0
"""Sleep and wake."""

import sys

import pytest
from conftest import MIB

import gpupool


def read(pool: gpupool.Pool, address: int, size: int) -> bytes:
    into = bytearray(size)
    view = memoryview(into)
    import ctypes  # noqa: PLC0415

    host = (ctypes.c_char * size).from_buffer(view)
    pool.copy(ctypes.addressof(host), address, size)
    pool.synchronize()
    return bytes(into)


def test_what_was_saved_is_there_again(pool: gpupool.Pool) -> None:
    block = pool.malloc(3 * MIB)
    pool.fill(block, 7, 3 * MIB)
    slept = pool.sleep()
    assert (slept.pools, slept.saved_bytes, slept.dropped_bytes) == (1, 3 * MIB, 0)
    assert pool.sleep_state == gpupool.SleepState.ASLEEP
    assert pool.block_info(block).state == gpupool.BlockState.ASLEEP
    assert pool.memory_reserved() == 0
    assert pool.stats().asleep_bytes >= 3 * MIB
    with pytest.raises(gpupool.AsleepError):
        pool.malloc(512)
    saved = pool.backup(block)
    assert saved.readonly
    assert bytes(saved[:100]) == b"\x07" * 100
    assert pool.sleep().pools == 0
    woken = pool.wake()
    assert woken.saved_bytes == 3 * MIB
    assert read(pool, block, 3 * MIB) == b"\x07" * (3 * MIB)
    pool.free(block)


def test_dropping_keeps_what_is_marked(pool: gpupool.Pool) -> None:
    kept, dropped = pool.malloc(3 * MIB), pool.malloc(3 * MIB)
    pool.fill(kept, 1, 3 * MIB)
    pool.set_keep(kept)
    with pool.asleep("drop") as slept:
        assert (slept.saved_bytes, slept.dropped_bytes) == (3 * MIB, 3 * MIB)
        with pytest.raises(gpupool.UnavailableError):
            pool.backup(dropped)
    assert read(pool, kept, 100) == b"\x01" * 100
    pool.sleep("drop")
    pool.wake(fill=0xFF)
    assert read(pool, dropped, 100) == b"\xff" * 100
    pool.free(kept)
    pool.free(dropped)


def test_blocks_wake_ahead_of_their_pool(pool: gpupool.Pool) -> None:
    first, second = pool.malloc(4 * MIB), pool.malloc(4 * MIB)
    pool.fill(first, 1, 4 * MIB)
    pool.fill(second, 2, 4 * MIB)
    pool.sleep()
    woken = pool.wake_block(second)
    assert (woken.pools, woken.saved_bytes) == (0, 4 * MIB)
    assert pool.wake_block(second).created_bytes == 0
    assert read(pool, second, 100) == b"\2" * 100
    pool.fill(second, 3, 4 * MIB)
    assert pool.sleep_state == gpupool.SleepState.ASLEEP
    assert pool.block_info(first).state == gpupool.BlockState.ASLEEP
    assert pool.block_info(second).state == gpupool.BlockState.LIVE
    with pytest.raises(gpupool.UnavailableError):
        pool.sleep()
    with pytest.raises(gpupool.UnknownPointerError):
        pool.wake_block(second + 512)
    assert pool.wake().saved_bytes == 4 * MIB
    assert read(pool, first, 100) + read(pool, second, 100) == b"\1" * 100 + b"\3" * 100
    pool.free(first)
    pool.free(second)


def test_one_block_sleeps_alone() -> None:
    with gpupool.Pool("sim", max_chunk_bytes="2MiB") as pool:
        block, other = pool.malloc(4 * MIB), pool.malloc(4 * MIB)
        pool.fill(block, 1, 4 * MIB)
        assert pool.sleep_block(block).released_bytes == 4 * MIB
        assert pool.block_info(block).state == gpupool.BlockState.ASLEEP
        assert pool.sleep_state == gpupool.SleepState.AWAKE
        assert bytes(pool.backup(block)[:3]) == b"\1\1\1"
        assert pool.sleep_block(block, "drop").released_bytes == 0
        assert pool.sleep_block(other, "drop").dropped_bytes == 4 * MIB
        assert pool.wake_block(block, retain_backup=True).created_bytes == 4 * MIB
        assert read(pool, block, 100) == b"\1" * 100
        with pytest.raises(gpupool.UnknownPointerError):
            pool.sleep_block(block + 512)
        pool.free(block)
        pool.free(other)


def test_a_target_takes_the_idlest_blocks() -> None:
    with gpupool.Pool("sim", max_chunk_bytes="2MiB") as pool:
        pool.name = "some"
        blocks = [pool.malloc(4 * MIB) for _ in range(4)]
        for at, block in enumerate(blocks):
            pool.fill(block, at, 4 * MIB)
        slept = pool.sleep(target="5MiB")
        assert (slept.pools, slept.released_bytes, slept.saved_bytes) == (0, 8 * MIB, 8 * MIB)
        assert pool.sleep_state == gpupool.SleepState.AWAKE
        asleep = [pool.block_info(block).state == gpupool.BlockState.ASLEEP for block in blocks]
        assert asleep == [True, True, False, False]
        pool.set_keep(blocks[2])
        assert gpupool.sleep_tag("some", "drop", target=1).dropped_bytes == 4 * MIB
        assert gpupool.sleep_tag("some", "drop", target="1GiB").saved_bytes == 4 * MIB
        assert pool.wake().saved_bytes == 12 * MIB
        for at in range(3):
            assert read(pool, blocks[at], 100) == bytes([at]) * 100
        with pytest.raises(ValueError, match="target"):
            pool.sleep(target=0)
        with pytest.raises(ValueError):
            pool.sleep(target="much")
        with pytest.raises(TypeError):
            pool.sleep(target=1.5)  # type: ignore[arg-type]
        assert pool.sleep_state == gpupool.SleepState.AWAKE
        for block in blocks:
            pool.free(block)


def test_hooks_are_called_around_a_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    with gpupool.Pool("sim", max_chunk_bytes="2MiB") as pool:
        block = pool.malloc(4 * MIB)
        calls: list[tuple[str, int]] = []
        pool.set_sleep_hooks(lambda at: calls.append(("before", at)), lambda at: calls.append(("after", at)))
        pool.sleep()
        pool.wake()
        pool.sleep_block(block)
        pool.wake_block(block)
        assert calls == [("before", 0), ("after", 0), ("before", block), ("after", block)]
        pool.set_sleep_hooks(before_release=lambda at: False)
        with pytest.raises(gpupool.UnavailableError, match="before_release refused"):
            pool.sleep()
        seen: list[object] = []
        monkeypatch.setattr(sys, "unraisablehook", lambda info: seen.append(info.exc_type))
        pool.set_sleep_hooks(after_map=lambda at: bool(1 / 0))
        pool.sleep()
        with pytest.raises(gpupool.UnavailableError, match="after_map failed"):
            pool.wake()
        assert seen == [ZeroDivisionError]
        pool.set_sleep_hooks()
        pool.wake()
        with pytest.raises(TypeError):
            pool.set_sleep_hooks(3)  # type: ignore[arg-type]
        pool.free(block)


def test_asleep_wakes_behind_an_exception(pool: gpupool.Pool) -> None:
    with pytest.raises(ZeroDivisionError), pool.asleep():
        raise ZeroDivisionError
    assert pool.sleep_state == gpupool.SleepState.AWAKE


def test_tags(pool: gpupool.Pool) -> None:
    assert pool.name == ""
    pool.name = "weights"
    assert pool.name == "weights"
    assert gpupool.sleep_tag("kv_cache").pools == 0
    assert gpupool.sleep_tag("weights").pools == 1
    assert gpupool.wake_tag().pools == 1
    with pytest.raises(gpupool.InvalidArgumentError):
        pool.name = "x" * 64


def test_backup_memory_is_prepared_and_retained(pool: gpupool.Pool) -> None:
    pool.prepare_backup("4MiB")
    assert pool.stats().backup_bytes == 4 * MIB
    block = pool.malloc(8 * MIB)
    pool.sleep()
    pool.wake(retain_backup=True)
    assert pool.stats().backup_bytes == 8 * MIB
    pool.prepare_backup(0)
    assert pool.stats().backup_bytes == 0
    pool.free(block)


def test_what_was_saved_can_be_read_while_it_sleeps(pool: gpupool.Pool) -> None:
    kept, lost = pool.malloc(4 * MIB), pool.malloc(4 * MIB)
    pool.fill(kept, 7, 4 * MIB)
    pool.fill(kept + 100, 9, 10)
    pool.synchronize()
    with pytest.raises(gpupool.UnavailableError, match="is not asleep"):
        pool.read_backup(kept)
    pool.set_keep(kept)
    with pool.asleep("drop"):
        whole = pool.read_backup(kept)
        assert len(whole) == 4 * MIB
        assert whole[:120] == b"\x07" * 100 + b"\x09" * 10 + b"\x07" * 10
        assert pool.read_backup(kept + 95, 10) == whole[95:105]
        assert pool.read_backup(kept, 0) == b""
        assert pool.read_backup(kept + MIB, "1MiB") == b"\x07" * MIB
        for size in (4 * MIB, 1 << 62):
            with pytest.raises(gpupool.InvalidArgumentError, match="are wanted, and the block has"):
                pool.read_backup(kept + 1, size)
        with pytest.raises(OverflowError, match="size"):
            pool.read_backup(kept, -1)
        with pytest.raises(gpupool.UnavailableError, match="was dropped"):
            pool.read_backup(lost)
        with pytest.raises(gpupool.UnknownPointerError):
            pool.read_backup(4096)
    with pytest.raises(gpupool.UnavailableError, match="is not asleep"):
        pool.read_backup(kept, 1)
    pool.free(kept)
    pool.free(lost)


def test_a_pool_that_may_sleeps_when_another_one_is_short() -> None:
    gpupool.sim.configure(7, capacity_bytes="64MiB")
    with gpupool.Pool("sim:7") as idle, gpupool.Pool("sim:7") as busy:
        block = idle.malloc("40MiB")
        idle.fill(block, 5, 40 * MIB)
        with pytest.raises(ValueError, match="mode"):
            idle.allow_sleep("forget")  # type: ignore[arg-type]
        with pytest.raises(gpupool.OutOfMemoryError):
            busy.malloc("40MiB")
        idle.allow_sleep()
        busy.free(busy.malloc("40MiB"))
        assert idle.sleep_state == gpupool.SleepState.ASLEEP
        idle.wake()
        assert read(idle, block, 100) == b"\x05" * 100
        idle.allow_sleep()
        idle.wake()
        taken = busy.malloc("20MiB")
        with pytest.raises(gpupool.OutOfMemoryError):
            busy.malloc("20MiB")
        assert idle.stats().asleep_bytes == 0
        busy.free(taken)
        idle.free(block)
    gpupool.sim.configure(7)


def test_bad_values(pool: gpupool.Pool) -> None:
    with pytest.raises(ValueError, match="mode"):
        pool.sleep("forget")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="timeout"):
        pool.wake(-1)
    with pytest.raises(ValueError, match="fill"):
        pool.wake(fill=256)
    with pytest.raises(gpupool.UnknownPointerError):
        pool.set_keep(4096)
    with pytest.raises(OverflowError, match="size"):
        pool.prepare_backup(-1)
    with pytest.raises(gpupool.HostOutOfMemoryError):
        pool.prepare_backup(1 << 60)
    assert pool.stats().backup_bytes == 0
    with pytest.raises(ValueError, match="timeout"):
        gpupool.wake_tag("weights", -1)
    assert gpupool.wake_tag("nobody's").pools == 0
    assert pool.sleep_state == gpupool.SleepState.AWAKE
