# SPDX-License-Identifier: Apache-2.0
"""Streams of the pool and of other libraries, and what the pool does with them."""

import gc

import pytest
from conftest import MIB

import gpupool


class Torch:
    def __init__(self, number: int) -> None:
        self.cuda_stream = number


class Cupy:
    def __init__(self, number: int) -> None:
        self.ptr = number


class Cuda:
    def __init__(self, number: int) -> None:
        self.number = number

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self.number)


def test_each_kind_of_stream(pool: gpupool.Pool) -> None:
    stream = pool.stream()
    number = int(stream)
    each: list[gpupool.StreamLike] = [stream, number, Cuda(number), Torch(number), Cupy(number)]
    for given in each:
        address = pool.malloc(1000, given)
        assert pool.block_info(address).stream == number
        pool.record_stream(address, given)
        pool.free(address, given)
        with pool.alloc(1000, given) as buffer:
            assert buffer.stream == number
    assert stream.__cuda_stream__() == (0, number)
    assert repr(stream) == f"<gpupool.Stream {number:#x}>"


def test_another_stream_must_pass_first(pool: gpupool.Pool) -> None:
    with pool.stream() as one, pool.stream() as two:
        address = pool.malloc(5 * MIB, one)
        gpupool.sim.work(1_000_000, two, address=0, size=0)
        pool.free(address, two)
        assert pool.stats().all.active_bytes.current == 5 * MIB
        assert pool.memory_allocated() == 0
        pool.synchronize()
        assert pool.stats().all.active_bytes.current == 0


def test_an_unknown_stream(pool: gpupool.Pool) -> None:
    with pool.stream() as one, pool.stream() as two:
        pool.free(pool.malloc(MIB, two), two)
        gpupool.sim.work(1_000_000, two)
        pool.free(pool.malloc(5 * MIB, one), gpupool.STREAM_UNKNOWN)
        assert pool.stats().all.active_bytes.current > 0
        with pytest.raises(gpupool.InvalidArgumentError):
            pool.record_stream(pool.malloc(512), gpupool.STREAM_UNKNOWN)


def test_record_stream_of_a_buffer(pool: gpupool.Pool) -> None:
    with pool.stream() as one, pool.stream() as two:
        buffer = pool.alloc(5 * MIB, one)
        buffer.record_stream(two)
        gpupool.sim.work(1_000_000, two, address=buffer.address, size=5 * MIB)
        buffer.free()
        assert pool.stats().all.active_bytes.current == 5 * MIB
        pool.reserve(0, two)  # only a call of its user touches a stream, here to leave an event behind the work
        two.synchronize()
        assert pool.stats().all.active_bytes.current == 0


def test_closed(pool: gpupool.Pool) -> None:
    stream = pool.stream()
    assert not stream.is_closed
    stream.close()
    stream.close()
    assert stream.is_closed
    assert repr(stream) == "<gpupool.Stream, closed>"
    uses = (stream.synchronize, lambda: int(stream), lambda: pool.malloc(512, stream), lambda: pool.alloc(512, stream))
    for use in uses:
        with pytest.raises(gpupool.InvalidArgumentError, match="the stream is closed"):
            use()
    assert pool.memory_allocated() == 0


def test_dropped_streams_are_released(pool: gpupool.Pool) -> None:
    before = pool.stats().streams
    for _ in range(3):
        stream = pool.stream()
        pool.free(pool.malloc(512, stream), stream)
    del stream
    gc.collect()
    assert pool.stats().streams == before


def test_a_buffer_keeps_its_stream(pool: gpupool.Pool) -> None:
    buffer = pool.alloc(MIB, pool.stream())
    gc.collect()
    buffer.synchronize()
    buffer.copy_from_host(b"abc")
    buffer.free()


def test_a_stream_closed_before_its_buffers(pool: gpupool.Pool) -> None:
    stream = pool.stream()
    buffer = pool.alloc(MIB, stream)
    stream.close()
    for use in (buffer.synchronize, buffer.copy_to_host, buffer.fill, buffer.view, buffer.__dlpack__):
        with pytest.raises(gpupool.InvalidArgumentError, match="the stream is closed"):
            use()
    buffer.free()
    assert pool.memory_allocated() == 0
    pool.validate()


def test_release_stream(pool: gpupool.Pool) -> None:
    pool.free(pool.malloc(5 * MIB, 77), 77)
    streams = pool.stats().streams
    pool.release_stream(Cuda(77))
    assert pool.stats().streams == streams - 1
    pool.release_stream(78)


def test_park_stream(pool: gpupool.Pool) -> None:
    address = pool.malloc(5 * MIB, 77)
    pool.free(address, 77)
    pool.park_stream(Cuda(77))
    creates = pool.stats().driver.create.count
    assert pool.malloc(5 * MIB, 77) == address
    assert pool.stats().driver.create.count == creates
    pool.free(address, 77)
    pool.park_stream(78)


def test_a_number_that_is_another_streams_by_now(pool: gpupool.Pool) -> None:
    """A buffer is not freed on the stream that has its own stream's number since."""
    first = pool.alloc(5 * MIB, 0x7000)
    second = pool.alloc(5 * MIB, 0x7000)
    address = first.address
    assert pool.block_info(address).stream == 0x7000
    pool.release_stream(0x7000)
    assert pool.block_info(address).stream == gpupool.STREAM_UNKNOWN
    gpupool.sim.work(1_000_000, 0x7000, address=address, size=5 * MIB)  # of a new stream
    first.free()
    streams = pool.stats().streams
    second.free()
    assert pool.stats().streams == streams, "nobody has named a stream"
    pool.free(pool.malloc(5 * MIB, 0x7000), 0x7000)
    with pool.alloc(5 * MIB, 0x7000) as third:
        assert pool.block_info(third.address).stream == 0x7000
    pool.synchronize()
