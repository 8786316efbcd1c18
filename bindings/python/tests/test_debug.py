# SPDX-License-Identifier: Apache-2.0
"""Debug modes, protected blocks, and why."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import gpupool

MIB = 1 << 20


@pytest.fixture(autouse=True)
def no_modes() -> Iterator[None]:
    yield
    gpupool.set_debug()


def test_a_word_that_is_no_mode_is_named() -> None:
    with pytest.raises(gpupool.InvalidArgumentError, match="fense"):
        gpupool.set_debug("poison,fense")
    with pytest.raises(TypeError, match="not a string"):
        gpupool.set_debug(1)  # type: ignore[arg-type]


def test_a_write_beyond_the_end_is_found() -> None:
    gpupool.set_debug("canary")
    with gpupool.Pool(device="sim") as pool:
        block = pool.alloc(1000)
        assert pool.check() == (0, "")
        pool.fill(block.address, 0, 1001)
        count, text = pool.check()
        assert count == 1
        assert "1 byte was written beyond the end of a block, from +1000" in text
        block.free()


def test_a_protected_block_is_not_written() -> None:
    with gpupool.Pool(device="sim", max_chunk_bytes=2 * MIB) as pool:
        block = pool.alloc(4 * MIB, alignment=2 * MIB)
        pool.protect(block.address)
        with pytest.raises(gpupool.DriverError, match="read-only"):
            pool.fill(block.address, 0, 1)
        pool.protect(block.address, "write")
        pool.fill(block.address, 0, 1)
        with pytest.raises(ValueError, match="execute"):
            pool.protect(block.address, "execute")  # type: ignore[arg-type]
        block.free()


def test_why_names_a_block() -> None:
    gpupool.set_debug("quarantine=1MiB")
    with gpupool.Pool(device="sim") as pool:
        with gpupool.tag("grads"):
            block = pool.alloc(1000)
        address = block.address
        assert "10 bytes into a live block of 1000 bytes" in gpupool.why(address + 10)
        block.free()
        text = gpupool.why(address)
        assert "freed block" in text
        assert '"grads"' in text
        assert "test_debug.py" in text
    assert "is not in any pool" in gpupool.why(12345)
