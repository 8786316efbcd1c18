# SPDX-License-Identifier: Apache-2.0
"""The statistics under their own names, under PyTorch's, as a table, and the snapshot behind them."""

from conftest import MIB

import gpupool

METRICS = ("current", "peak", "allocated", "freed")
NAMES = (
    "allocation segment active inactive_split allocated_bytes reserved_bytes active_bytes inactive_split_bytes "
    "requested_bytes"
).split()


def test_keys_of_pytorch(pool: gpupool.Pool) -> None:
    keys = {f"{n}.{group}.{m}" for n in NAMES for group in ("all", "large_pool", "small_pool") for m in METRICS}
    keys |= {f"{name}.{m}" for name in ("oversize_allocations", "oversize_segments") for m in METRICS}
    keys |= {"num_alloc_retries", "num_ooms", "max_split_size", "num_sync_all_streams"}
    keys |= {"num_device_alloc", "num_device_free"}
    stats = pool.memory_stats()
    assert len(stats) == 122
    assert stats.keys() == keys
    assert list(stats) == sorted(stats)


def test_values(pool: gpupool.Pool) -> None:
    small, large = pool.malloc(1000), pool.malloc(3 * MIB)
    pool.free(large)
    stats = pool.memory_stats()
    assert [stats[f"allocated_bytes.all.{m}"] for m in METRICS] == [1024, 3 * MIB + 1024, 3 * MIB + 1024, 3 * MIB]
    assert [stats[f"requested_bytes.small_pool.{m}"] for m in METRICS] == [1000, 1000, 1000, 0]
    assert [stats[f"allocation.large_pool.{m}"] for m in METRICS] == [0, 1, 1, 1]
    assert stats["reserved_bytes.all.current"] == pool.memory_reserved()
    assert stats["segment.all.current"] == pool.stats().all.chunks.current
    assert stats["num_device_alloc"] == pool.stats().driver.create.count > 0
    assert (stats["num_ooms"], stats["max_split_size"]) == (0, -1)
    pool.free(small)


def test_summary(pool: gpupool.Pool) -> None:
    pool.malloc(1000)
    pool.free(pool.malloc(800 * MIB))
    lines = pool.memory_summary().splitlines()
    assert {len(line) for line in lines} == {77}
    assert "gpupool memory summary, device ID 0" in lines[1]
    assert "| Requested memory      |   1000 B   |    800 MiB |    800 MiB |    800 MiB |" in lines
    assert "|       from small pool |   1000 B   |      0 MiB |      0 MiB |      0 MiB |" in lines
    assert "| Allocations           |      1     |      2     |      2     |      1     |" in lines
    short = pool.memory_summary(abbreviated=True).splitlines()
    assert len(short) == len(lines) - 14
    assert not any("from" in line for line in short)


def test_summary_of_much(pool: gpupool.Pool) -> None:
    for _ in range(800):
        pool.free(pool.malloc(2000 * MIB))
    assert "   1562 GiB |" in pool.memory_summary()


def test_snapshot_agrees_with_the_statistics(pool: gpupool.Pool) -> None:
    blocks = [pool.malloc(size) for size in (1000, 5 * MIB, 700_000, 30 * MIB)]
    pool.free(blocks[1])
    snapshot, stats = pool.snapshot(), pool.stats()
    assert sum(segment.size_bytes for segment in snapshot.segments) == stats.all.reserved_bytes.current
    live = [block for block in snapshot.blocks if block.state == gpupool.BlockState.LIVE]
    assert sorted(block.address for block in live) == sorted({*blocks} - {blocks[1]})
    assert sum(block.requested_bytes for block in live) == stats.all.requested_bytes.current
    addresses = [segment.address for segment in snapshot.segments]
    assert addresses == sorted(addresses)


def test_an_empty_snapshot(pool: gpupool.Pool) -> None:
    assert pool.snapshot() == gpupool.Snapshot(segments=(), blocks=())


def test_report(pool: gpupool.Pool) -> None:
    pool.malloc(3 * MIB)
    assert "3.00 MiB in 1 live blocks" in pool.report()
