# SPDX-License-Identifier: Apache-2.0
"""Copies that are not waited for."""

import asyncio
import gc

import pytest

import gpupool


def test_there_and_back(pool: gpupool.Pool) -> None:
    sent = bytearray(range(256))
    with pool.stream() as stream:
        buffer = pool.alloc(256, stream)
        there = buffer.upload(sent)
        back, part = buffer.download(), buffer.download(offset=16, size=4)
        assert repr(back) == "<gpupool.Transfer, under way>"
        with pytest.raises(BufferError):
            sent.clear()  # it is held
        assert there.wait() is None
        assert (back.wait(), part.wait()) == (bytes(range(256)), bytes(range(16, 20)))
        assert back.wait() == bytes(sent)
        assert repr(back) == "<gpupool.Transfer, done>"
        sent.clear()
        out = bytearray(4)
        with buffer[8:12].download(out=out) as into:
            pass
        assert into.wait() is out
        assert out == bytes(range(8, 12))


def test_a_transfer_keeps_block_and_stream(pool: gpupool.Pool) -> None:
    stream = pool.stream()
    buffer = pool.alloc(1000, stream)
    there, back = buffer.upload(b"x" * 1000), buffer.download()
    buffer.free()
    stream.close()
    with pytest.raises(gpupool.UnknownPointerError):
        buffer.download()
    del stream, buffer
    gc.collect()
    assert pool.memory_allocated() == 1024
    there.wait()
    assert back.wait() == b"x" * 1000
    assert pool.memory_allocated() == 0


def test_a_transfer_that_is_dropped_has_waited(pool: gpupool.Pool) -> None:
    buffer = pool.alloc(1 << 20, pool.stream())
    buffer.upload(bytes([5]) * (1 << 20))
    buffer.free()
    assert pool.memory_allocated() == 0


def test_awaiting_one(pool: gpupool.Pool) -> None:
    async def there_and_back() -> bytes:
        buffer = pool.alloc(4, pool.stream())
        await buffer.upload(b"text")
        return await buffer.download()

    assert asyncio.run(there_and_back()) == b"text"


def test_refused_transfers_hold_nothing(pool: gpupool.Pool) -> None:
    buffer = pool.alloc(10)
    with pytest.raises(ValueError, match="11 bytes from offset 0 on do not fit in a buffer of 10"):
        buffer.upload(bytes(11))
    with pytest.raises(ValueError, match="offset is 11"):
        buffer.download(offset=11)
    with pytest.raises(BufferError):
        buffer.download(out=bytes(10))
    buffer.free()
    assert pool.memory_allocated() == 0
