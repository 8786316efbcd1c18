# SPDX-License-Identifier: Apache-2.0
"""The laboratory: broken rules are noticed, calls fail on demand, time passes."""

import pytest
from conftest import MIB

import gpupool
from gpupool import sim


def test_faults() -> None:
    with gpupool.Pool(2) as pool, pool.stream() as stream:
        before = sim.faults(2)
        address = pool.malloc(5 * MIB)
        pool.free(address)
        pool.empty_cache()
        with pytest.raises(gpupool.DriverError, match="unmapped"):
            sim.work(1000, stream, address=address, size=1, device=2)
        after = sim.faults(2)
    assert after.count == before.count + 1
    assert after.last


def test_time(pool: gpupool.Pool) -> None:
    with pool.stream() as one, pool.stream() as two:
        address = pool.malloc(5 * MIB, one)
        sim.work(1_000_000, two)
        pool.free(address, two)
        assert pool.stats().all.active_bytes.current == 5 * MIB
        sim.advance(2_000_000)
        assert pool.stats().all.active_bytes.current == 0


def test_script(small_pool: gpupool.Pool) -> None:
    sim.script("create:*=out_of_memory", 1)
    with pytest.raises(gpupool.OutOfMemoryError):
        small_pool.malloc(MIB)
    sim.script("", 1)
    small_pool.free(small_pool.malloc(MIB))
    with pytest.raises(gpupool.InvalidArgumentError, match="nonsense"):
        sim.script("nonsense:1", 1)


def test_capture() -> None:
    with gpupool.Pool(capture_aware=True) as pool, pool.stream() as stream:
        with sim.capture(stream):
            pool.free(pool.malloc(5 * MIB, stream), stream)
            with pytest.raises(gpupool.InvalidArgumentError):
                pool.release_stream(stream)
        assert pool.stats().slack_bytes >= 5 * MIB


def test_configure() -> None:
    sim.configure(2, capacity_bytes=128 * MIB, price_scale=2.0)
    assert gpupool.device_info(2).total_bytes == 128 * MIB
    sim.configure(2)
    for bad in (-1, 8):
        with pytest.raises(gpupool.InvalidArgumentError):
            sim.configure(bad)
        with pytest.raises(gpupool.InvalidArgumentError):
            sim.advance(1, bad)
        with pytest.raises(gpupool.InvalidArgumentError):
            sim.faults(bad)
