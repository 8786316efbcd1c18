# SPDX-License-Identifier: Apache-2.0
"""Memory lent to NumPy and borrowed from it: no copies, and nothing freed twice or never."""

from typing import Any

import pytest

import gpupool

numpy = pytest.importorskip("numpy")


def test_lent(pool: gpupool.Pool) -> None:
    buffer = pool.alloc(1000)
    array = numpy.from_dlpack(buffer)
    assert (array.dtype, array.shape, array.ctypes.data) == (numpy.uint8, (1000,), buffer.address)
    array[:4] = [1, 2, 3, 4]
    assert buffer.copy_to_host(size=4) == b"\1\2\3\4"
    buffer.free()
    assert pool.memory_allocated() == 1024
    assert array[3] == 4
    del array
    assert pool.memory_allocated() == 0


@pytest.mark.parametrize("max_version", [None, (0, 8), (1, 0), (1, 3)])
def test_a_capsule_that_nobody_takes(pool: gpupool.Pool, max_version: tuple[int, int] | None) -> None:
    capsule = pool.alloc(1000).__dlpack__(max_version=max_version)
    versioned = max_version is not None and max_version >= (1, 0)
    assert ('"dltensor_versioned"' if versioned else '"dltensor"') in repr(capsule)
    assert pool.memory_allocated() == 1024
    del capsule
    assert pool.memory_allocated() == 0


class Legacy:
    """A producer from before DLPack 1.0."""

    def __init__(self, buffer: gpupool.Buffer) -> None:
        self.buffer = buffer

    def __dlpack__(self, *, stream: int | None = None) -> Any:
        return self.buffer.__dlpack__(stream=stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.buffer.__dlpack_device__()


def test_legacy_both_ways(pool: gpupool.Pool) -> None:
    buffer = pool.alloc(1000)
    array = numpy.from_dlpack(Legacy(buffer))
    borrowed = gpupool.from_dlpack(Legacy(buffer))
    assert array.ctypes.data == borrowed.address == buffer.address
    assert borrowed.strides == (1,)
    buffer.free()
    borrowed.free()
    assert pool.memory_allocated() == 1024
    del array
    assert pool.memory_allocated() == 0


def test_device(pool: gpupool.Pool) -> None:
    assert pool.alloc(1).__dlpack_device__() == (1, 0)


def test_refused(pool: gpupool.Pool) -> None:
    buffer = pool.alloc(1000)
    with pytest.raises(BufferError, match="without a copy"):
        buffer.__dlpack__(copy=True)
    with pytest.raises(BufferError, match="not on"):
        buffer.__dlpack__(dl_device=(2, 0))
    for stream in (0, 1, 7):
        with pytest.raises(BufferError, match="does not fit"):
            buffer.__dlpack__(stream=stream)
    assert buffer.__dlpack__(stream=-1, copy=False, dl_device=(1, 0)) is not None
    buffer.free()
    assert pool.memory_allocated() == 0


def test_lending_waits_for_the_stream(pool: gpupool.Pool) -> None:
    stream = pool.stream()
    with pool.alloc(1000, stream) as buffer:
        gpupool.sim.work(1_000_000, stream, address=buffer.address, size=1000)
        waits = pool.stats().driver.host_wait.count
        numpy.from_dlpack(buffer)[0] = 1
        gpupool.sim.work(1_000_000, stream, address=buffer.address, size=1000)
        assert pool.stats().driver.host_wait.count >= waits


def test_borrowed() -> None:
    array = numpy.arange(12, dtype="float32").reshape(3, 4)
    with gpupool.from_dlpack(array) as tensor:
        assert (tensor.address, tensor.shape, tensor.strides) == (array.ctypes.data, (3, 4), (4, 1))
        assert (tensor.dtype, tensor.device, tensor.nbytes, tensor.is_read_only) == ("<f4", (1, 0), 48, False)
        assert repr(tensor) == "<gpupool.BorrowedTensor <f4 (3, 4) on device (1, 0)>"
    with pytest.raises(gpupool.UnknownPointerError, match="has been freed"):
        _ = tensor.address
    tensor.free()


def test_borrowed_keeps_the_memory(pool: gpupool.Pool) -> None:
    tensor = gpupool.from_dlpack(pool.alloc(1000))
    assert pool.memory_allocated() == 1024
    del tensor
    assert pool.memory_allocated() == 0


def test_what_is_borrowed_can_be_copied(pool: gpupool.Pool) -> None:
    array = numpy.arange(10, dtype="uint8")
    with gpupool.from_dlpack(array) as tensor, pool.alloc(10) as buffer:
        pool.copy(buffer.address, tensor.address, tensor.nbytes)
        assert buffer.copy_to_host() == array.tobytes()


@pytest.mark.parametrize(
    ("dtype", "name"),
    [("int8", "|i1"), ("uint16", "<u2"), ("int64", "<i8"), ("float64", "<f8"), ("complex64", "<c8"), ("bool", "|b1")],
)
def test_types(dtype: str, name: str) -> None:
    assert gpupool.from_dlpack(numpy.zeros(3, dtype)).dtype == name


def test_parts_and_read_only() -> None:
    array = numpy.arange(12, dtype="int16").reshape(3, 4)
    part = gpupool.from_dlpack(array[1:, ::2])
    assert (part.address, part.strides) == (array.ctypes.data + 8, (4, 2))
    with pytest.raises(gpupool.InvalidArgumentError, match="not contiguous"):
        _ = part.nbytes
    array.flags.writeable = False
    try:
        assert gpupool.from_dlpack(array).is_read_only
    except BufferError:
        pytest.skip("this NumPy lends nothing that is read only")


def test_what_is_no_tensor() -> None:
    with pytest.raises(AttributeError):
        gpupool.from_dlpack(7)
    with pytest.raises(TypeError, match="did not return a capsule"):
        gpupool.from_dlpack(Holder(7))


class Holder:
    """Gives the same capsule every time."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule


def test_a_capsule_that_was_taken(pool: gpupool.Pool) -> None:
    holder = Holder(pool.alloc(1000).__dlpack__())
    first = gpupool.from_dlpack(holder)
    with pytest.raises(TypeError, match="an unused tensor"):
        gpupool.from_dlpack(holder)
    first.free()
    del holder
    assert pool.memory_allocated() == 0
