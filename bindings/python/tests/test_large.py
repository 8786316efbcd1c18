# SPDX-License-Identifier: Apache-2.0
"""A size has 64 bits everywhere: blocks of 4 GiB and 5 bytes."""

import mmap
from collections.abc import Iterator

import pytest

import gpupool

numpy = pytest.importorskip("numpy")
FOUR_GIB = 4 << 30
SIZE = FOUR_GIB + 5


@pytest.fixture(params=[True, False], ids=["data", "addresses"])
def large(request: pytest.FixtureRequest) -> Iterator[gpupool.Buffer]:
    """With data, only the pages that are touched take memory."""
    gpupool.sim.configure(3, data=request.param, capacity_bytes="8GiB")
    with gpupool.Pool(3) as pool, pool.alloc(SIZE) as buffer:
        yield buffer


def has_data(buffer: gpupool.Buffer) -> bool:
    try:
        buffer.copy_to_host(size=1)
    except gpupool.UnsupportedError:
        return False
    return True


def test_sizes_and_slices(large: gpupool.Buffer) -> None:
    assert large.nbytes == len(large) == SIZE
    assert large.pool.block_info(large.address).requested_bytes == SIZE
    tail = large[FOUR_GIB:]
    assert (tail.nbytes, tail.address - large.address) == (5, FOUR_GIB)
    assert large[1:].nbytes == SIZE - 1 and large[1:][FOUR_GIB:].address == large.address + FOUR_GIB + 1
    for offset, size in ((FOUR_GIB, 6), (SIZE + 1, 0), (0, SIZE + 1), (2**64, 1)):
        with pytest.raises((ValueError, OverflowError)):
            large.copy_to_host(offset=offset, size=size)


def test_reads_and_writes(large: gpupool.Buffer) -> None:
    if not has_data(large):
        with mmap.mmap(-1, SIZE) as host:  # no page of it is touched
            for copy in (large.copy_from_host, large.upload, lambda data: large.copy_to_host(out=data)):
                with pytest.raises(gpupool.UnsupportedError):
                    copy(host)
            with pytest.raises(ValueError, match=f"{SIZE} bytes from offset 1 on do not fit"):
                large.copy_from_host(host, 1)
            with pytest.raises(ValueError, match=f"size is 5, and out has {SIZE} bytes"):
                large.copy_to_host(size=5, out=host)
        return
    large.copy_from_host(b"front")
    large.copy_from_host(b"later", FOUR_GIB)
    assert large.copy_to_host(offset=FOUR_GIB) == large[FOUR_GIB:].copy_to_host() == b"later"
    assert large.copy_to_host(size=5) == b"front"
    large.upload(b"LAT", FOUR_GIB).wait()
    assert large.download(offset=FOUR_GIB).wait() == b"LATer"
    large[FOUR_GIB:].fill(7)
    assert large.copy_to_host(offset=FOUR_GIB - 1) == b"\0" + b"\7" * 5


def test_views(large: gpupool.Buffer) -> None:
    if not has_data(large):
        with pytest.raises(gpupool.UnsupportedError):
            large.view()
        return
    view = large.view()
    assert view.nbytes == SIZE
    view[FOUR_GIB:] = b"views"
    array = numpy.frombuffer(large, "uint8")
    assert array.shape == (SIZE,) and array[FOUR_GIB:].tobytes() == b"views"
    assert numpy.from_dlpack(large).shape == large.numpy().shape == (SIZE,)
    del view, array


def test_arrays(large: gpupool.Buffer) -> None:
    with large.pool.empty((1 << 30) + 2, "uint16") as array:
        assert array.nbytes == 2 * ((1 << 30) + 2)
        assert array[-1].address == array.address + (1 << 31) + 2
    large.free()
    with large.pool.empty(((1 << 30) + 2, 1, 2), "uint16") as array:
        assert array.nbytes == FOUR_GIB + 8 and len(array) == (1 << 30) + 2
        assert array[-1].address == array.address + FOUR_GIB + 4
        assert array.reshape(-1)[(2 << 30) + 1 :].nbytes == 6
