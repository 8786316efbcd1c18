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


def test_a_launch_does_what_was_captured() -> None:
    with gpupool.Pool("sim:2", capture_aware=True) as pool, pool.stream() as stream, pool.stream() as other:
        faults = sim.faults(2)
        with pool.alloc(4, stream) as buffer:
            buffer.copy_from_host(b"then")
            with sim.capture(stream, 2):
                capture = pool.capture_id(stream)
                sim.work(1_000_000, stream, address=buffer.address, size=4, device=2)
                pool.fill(buffer.address, ord("n"), 4, stream)
                with pytest.raises(gpupool.InvalidArgumentError):
                    sim.launch(capture, other, 2)
            assert bytes(buffer) == b"then"
            sim.launch(capture, other, device=2)
            other.synchronize()
            assert bytes(buffer) == b"nnnn"
            with pytest.raises(gpupool.InvalidArgumentError, match=str(capture + 1)):
                sim.launch(capture + 1, other, 2)
            with pytest.raises(gpupool.InvalidArgumentError):
                sim.launch(capture, device=3)
            with pytest.raises(TypeError, match="capture"):
                sim.launch("1")  # type: ignore[arg-type]
        assert sim.faults(2) == faults


def test_strict_streams_refuse_numbers_that_nobody_made() -> None:
    sim.configure(2, strict_streams=True)
    with gpupool.Pool(2) as pool, pool.stream() as stream:
        sim.work(1, stream, device=2)
        with pytest.raises(gpupool.DriverError):
            sim.work(1, 12345, device=2)
    sim.configure(2)
    with gpupool.Pool(2):
        sim.work(1, 12345, device=2)


def test_configure_names_the_argument_that_is_wrong() -> None:
    def says(message: str, **arguments: float) -> None:
        with pytest.raises(gpupool.InvalidArgumentError) as caught:
            sim.configure(2, **arguments)  # type: ignore[arg-type]
        assert str(caught.value) == message

    says("capacity_bytes is 1, not 2 MiB to 64 TiB, nor 0 for an H200's", capacity_bytes=1)
    says("price_scale is -2, not in (0, 1e6], nor 0 for an H200's", price_scale=-2)


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
