# SPDX-License-Identifier: Apache-2.0
"""Buffers free themselves, once, in any order with their pool, and keep what is made of them."""

import gc
import threading
from collections.abc import Callable

import pytest
from conftest import MIB

import gpupool

numpy = pytest.importorskip("numpy")


def test_with(pool: gpupool.Pool) -> None:
    with pool.alloc(1000) as buffer:
        assert (len(buffer), buffer.nbytes, buffer.stream, buffer.pool) == (1000, 1000, 0, pool)
        assert repr(buffer) == f"<gpupool.Buffer of 1000 bytes, at {buffer.address:#x}>"
        assert pool.memory_allocated() == 1024
    assert pool.memory_allocated() == 0
    assert buffer.is_freed
    assert repr(buffer) == "<gpupool.Buffer of 1000 bytes, freed>"
    buffer.free()


def test_dropped(pool: gpupool.Pool) -> None:
    buffer = pool.alloc(1000)
    del buffer
    assert pool.memory_allocated() == 0
    cycle: list[object] = [pool.alloc(1000)]
    cycle.append(cycle)
    del cycle
    gc.collect()
    assert pool.memory_allocated() == 0


USES: dict[str, Callable[[gpupool.Buffer], object]] = {
    "address": lambda buffer: buffer.address,
    "copy_from_host": lambda buffer: buffer.copy_from_host(b"x"),
    "copy_to_host": lambda buffer: buffer.copy_to_host(),
    "fill": lambda buffer: buffer.fill(1),
    "record_stream": lambda buffer: buffer.record_stream(11),
    "synchronize": lambda buffer: buffer.synchronize(),
    "view": lambda buffer: buffer.view(),
    "numpy": lambda buffer: buffer.numpy(),
    "dlpack": lambda buffer: buffer.__dlpack__(),
}


@pytest.mark.parametrize("use", USES)
def test_a_freed_buffer(pool: gpupool.Pool, use: str) -> None:
    buffer = pool.alloc(1000)
    buffer.free()
    with pytest.raises(gpupool.UnknownPointerError, match="the buffer has been freed"):
        USES[use](buffer)


def test_a_block_that_was_freed_by_its_address(pool: gpupool.Pool) -> None:
    buffer = pool.alloc(1000)
    pool.free(buffer.address)
    with pytest.raises(gpupool.UnknownPointerError, match="freed already"):
        buffer.free()


def test_no_bytes(pool: gpupool.Pool) -> None:
    with pool.alloc(0) as buffer:
        assert buffer.address == 0
        buffer.copy_from_host(b"")
        assert buffer.copy_to_host() == b""
        assert len(buffer.numpy()) == 0
        assert len(numpy.from_dlpack(buffer)) == 0


def test_pool_closed_first() -> None:
    pool = gpupool.Pool(6)
    stream = pool.stream()
    kept, dropped, raw = pool.alloc(5 * MIB), pool.alloc(MIB, stream), pool.malloc(MIB)
    pool.close()
    assert kept.copy_to_host(size=1) == b"\0"
    del dropped
    kept.free()
    kept.free()
    stream.close()
    with pytest.raises(gpupool.InvalidArgumentError, match="in use"):
        gpupool.sim.configure(6)
    with pytest.raises(gpupool.UnknownPointerError):
        pool.free(raw + 1)
    pool.free(raw)
    with pytest.raises(gpupool.InvalidArgumentError, match="the pool is closed"):
        pool.free(raw)
    gpupool.sim.configure(6)


def test_pool_dropped_first() -> None:
    pool = gpupool.Pool(5)
    buffer, stream = pool.alloc(MIB), pool.stream()
    view = buffer.numpy()
    del pool
    gc.collect()
    buffer.copy_from_host(b"abc")
    del buffer
    assert bytes(view[:3]) == b"abc"
    stream.synchronize()
    del stream, view
    gpupool.sim.configure(5)


def test_close_gives_the_cache_back() -> None:
    gpupool.sim.configure(4, capacity_bytes=64 * MIB)
    pool = gpupool.Pool(4)
    keeps, cached = pool.alloc(2 * MIB), pool.alloc(40 * MIB)
    cached.free()
    pool.close()
    assert gpupool.device_info(4).free_bytes >= 60 * MIB
    keeps.free()
    assert gpupool.device_info(4).free_bytes == 64 * MIB


def test_freed_by_another_thread(pool: gpupool.Pool) -> None:
    buffers = [pool.alloc(1000) for _ in range(100)]

    def work() -> None:
        for buffer in buffers:
            buffer.free()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pool.stats().all.allocated_blocks.total_freed == 100


def test_copies(pool: gpupool.Pool) -> None:
    with pool.alloc(1000, pool.stream()) as buffer:
        buffer.fill(7)
        buffer.copy_from_host(numpy.arange(10, dtype="uint8"), offset=100)
        buffer.copy_from_host(bytearray(b"end"), offset=997)
        content = buffer.copy_to_host()
        assert content == b"\7" * 100 + bytes(range(10)) + b"\7" * 887 + b"end"
        assert buffer.copy_to_host(offset=105, size=3) == b"\5\6\7"
        for offset, size in ((-1, None), (1001, None), (1, 1000)):
            with pytest.raises(ValueError, match="in a buffer of 1000 bytes"):
                buffer.copy_to_host(offset=offset, size=size)
        with pytest.raises(ValueError, match="do not fit in"):
            buffer.copy_from_host(b"xx", offset=999)
        with pytest.raises(TypeError):
            buffer.copy_from_host(7)


def test_copies_of_what_does_not_lie_in_a_row(pool: gpupool.Pool) -> None:
    table = numpy.arange(12, dtype="uint8").reshape(3, 4)
    with pool.alloc(12) as buffer:
        for given in (table.T, table[:, ::2], numpy.asfortranarray(table), memoryview(bytes(table))[::3]):
            buffer.copy_from_host(given)
            assert buffer.copy_to_host(size=memoryview(given).nbytes) == memoryview(given).tobytes()


def test_b_copies_to_what_there_is(pool: gpupool.Pool) -> None:
    with pool.alloc(12) as buffer:
        buffer.copy_from_host(numpy.arange(3, dtype="int32"))
        array = numpy.zeros(2, dtype="int32")
        assert buffer.copy_to_host(offset=4, out=array) is array
        assert array.tolist() == [1, 2]
        room = bytearray(12)
        assert buffer.copy_to_host(out=room) == bytes(buffer) == buffer.copy_to_host()
        with pytest.raises(ValueError, match="size is 3, and out has 12 bytes"):
            buffer.copy_to_host(size=3, out=room)
        with pytest.raises(ValueError, match="12 bytes from offset 1 on do not fit in a buffer of 12"):
            buffer.copy_to_host(offset=1, out=room)
        with pytest.raises((TypeError, BufferError)):
            buffer.copy_to_host(out=b"read only  12")
        assert buffer.copy_to_host(offset=12) == b""


def test_b_asarray(pool: gpupool.Pool) -> None:
    with pool.alloc(4) as buffer:
        buffer.fill(7)
        array = numpy.asarray(buffer)
        assert (array.dtype, array.tolist()) == (numpy.uint8, [7] * 4)
        array[0] = 1
        assert bytes(buffer) == b"\1\7\7\7"
        copy = numpy.array(buffer, dtype="int32")
        assert (copy.dtype, copy.tolist()) == (numpy.int32, [1, 7, 7, 7])
        copy[0] = 9
        assert bytes(buffer[:1]) == b"\1"


def test_f7_a_slice(pool: gpupool.Pool) -> None:
    buffer = pool.alloc(100)
    buffer.fill(0)
    part = buffer[16:32]
    assert (len(part), part.address, part.stream, part.pool) == (16, buffer.address + 16, 0, pool)
    assert repr(part) == f"<gpupool.BufferSlice of 16 bytes, at {part.address:#x}>"
    part.fill(1)
    inner = part[4:8]
    inner.copy_from_host(b"abcd")
    assert bytes(buffer) == b"\0" * 16 + b"\1" * 4 + b"abcd" + b"\1" * 8 + b"\0" * 68
    assert numpy.from_dlpack(inner).tobytes() == inner.numpy().tobytes() == bytes(inner.view()) == b"abcd"
    assert (len(buffer[-4:]), len(buffer[90:200]), len(buffer[7:3])) == (4, 10, 0)
    with pytest.raises(ValueError, match="9 bytes from offset 8 on do not fit in a buffer of 16"):
        part.copy_to_host(offset=8, size=9)
    with pytest.raises(TypeError, match=r"the index is 3; a buffer has slices"):
        buffer[3]  # type: ignore[index]
    with pytest.raises(TypeError, match="the index is 0"):
        list(buffer)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="the step is 2"):
        buffer[::2]


def test_f7_a_slice_holds_the_block(pool: gpupool.Pool) -> None:
    buffer = pool.alloc(100)
    buffer.fill(3)
    with buffer[16:32] as part:
        other = part[:1]
        buffer.free()
        with pytest.raises(gpupool.UnknownPointerError):
            buffer[0:1]
        assert bytes(part) == b"\3" * 16
        assert pool.memory_allocated() == 512
    with pytest.raises(gpupool.UnknownPointerError, match="freed"):
        part.fill(1)
    assert bytes(other) == b"\3"
    del other
    assert pool.memory_allocated() == 0
    part = pool.alloc(100)[10:20]
    part.fill(4)
    assert pool.memory_allocated() == 512
    del part
    assert pool.memory_allocated() == 0


def test_slices_of_slices_without_end(pool: gpupool.Pool) -> None:
    part = pool.alloc(100)[:]
    for _ in range(200_000):
        part = part[:]
    assert len(part) == 100
    part.release()
    assert pool.memory_allocated() == 0


def test_raw_copies(pool: gpupool.Pool) -> None:
    with pool.alloc(1000) as a, pool.alloc(1000) as b:
        a.copy_from_host(b"hello")
        pool.copy(b.address, a.address, 5)
        pool.fill(b.address + 4, ord("!"), 1)
        assert b.copy_to_host(size=5) == b"hell!"


def test_numpy(pool: gpupool.Pool) -> None:
    buffer = pool.alloc(4 * 6)
    array = buffer.numpy("float32", (2, 3))
    array[:] = numpy.arange(6).reshape(2, 3)
    assert buffer.copy_to_host(offset=20) == numpy.float32(5).tobytes()
    assert array.ctypes.data == buffer.address
    part = array[1:, 1:]
    buffer.free()
    del array
    assert pool.memory_allocated() == 512
    assert part.tolist() == [[4, 5]]
    del part
    assert pool.memory_allocated() == 0


def test_view(pool: gpupool.Pool) -> None:
    with pool.alloc(8) as buffer:
        view = buffer.view()
        view[:] = b"12345678"
        assert buffer.copy_to_host() == b"12345678"
        part = view.cast("H")
    del view
    assert pool.memory_allocated() == 512
    del part
    assert pool.memory_allocated() == 0


def test_the_buffer_protocol(pool: gpupool.Pool) -> None:
    buffer = pool.alloc(16)
    buffer.copy_from_host(bytes(range(16)))
    view = memoryview(buffer)
    assert (view.nbytes, view.format, view.readonly) == (16, "B", False)
    numbers = numpy.frombuffer(buffer, numpy.uint32)
    numbers[1] = 0xFFFFFFFF
    assert bytes(view) == buffer.copy_to_host() == bytes((0, 1, 2, 3, 255, 255, 255, 255, *range(8, 16)))
    assert bytearray(buffer[14:]) == b"\x0e\x0f"
    assert numpy.frombuffer(pool.alloc(0), numpy.uint8).tolist() == []
    # A view keeps the block after its free; a freed buffer has no new view.
    buffer.free()
    del view
    assert pool.memory_allocated() == 512
    assert numbers[0] == 0x03020100
    for borrow in (memoryview, lambda freed: numpy.frombuffer(freed, numpy.uint8)):
        with pytest.raises(gpupool.UnknownPointerError, match="has been freed"):
            borrow(buffer)
    del numbers
    assert pool.memory_allocated() == 0


def test_memory_that_is_away_is_not_lent(pool: gpupool.Pool) -> None:
    with pool.alloc(16) as buffer:
        buffer.copy_from_host(b"0123456789abcdef")
        pool.sleep()
        for borrow in (memoryview, bytearray, numpy.asarray, numpy.from_dlpack, gpupool.Buffer.view):
            with pytest.raises(gpupool.AsleepError, match=r"the pool is asleep"):
                borrow(buffer[4:])
        pool.wake()
        assert bytearray(buffer[4:]) == b"456789abcdef"


def test_a_class_that_lends_itself(pool: gpupool.Pool) -> None:
    class Endless(gpupool.Buffer):
        def view(self) -> memoryview:
            return self  # type: ignore[return-value]

    with Endless(pool, pool.malloc(16), 16) as buffer, pytest.raises(RecursionError):
        memoryview(buffer)


def test_a_buffer_is_a_source_for_copies(pool: gpupool.Pool) -> None:
    with pool.alloc(4) as source, pool.alloc(8) as target:
        source.copy_from_host(b"abcd")
        target.copy_from_host(source, 2)
        assert target.copy_to_host(offset=2, size=4) == b"abcd"
        target.copy_to_host(offset=2, out=source)
        assert bytes(source) == b"abcd"


# Its type and shape would be lost; numpy.asarray(array) keeps them.
def test_an_array_has_no_buffer_protocol(pool: gpupool.Pool) -> None:
    with pytest.raises(TypeError):
        memoryview(pool.empty((2, 3), "float16"))  # type: ignore[arg-type]


def test_a_device_without_data() -> None:
    gpupool.sim.configure(3, data=False)
    with gpupool.Pool(3) as pool, pool.alloc(1000) as buffer:
        with pytest.raises(gpupool.UnsupportedError, match="cannot reach"):
            buffer.numpy()
        with pytest.raises(BufferError, match="addresses only"):
            numpy.from_dlpack(buffer)
        with pytest.raises(TypeError, match="this is not a host array"):
            numpy.asarray(buffer)
        for borrow in (memoryview, lambda given: numpy.frombuffer(given, numpy.uint8), bytearray):
            with pytest.raises(TypeError, match=r"the host cannot reach this memory; see copy_to_host"):
                borrow(buffer)
        with pytest.raises(gpupool.UnsupportedError):
            buffer.copy_to_host()
        assert pool.stats().all.allocated_blocks.total_allocated == 1
    gpupool.sim.configure(3)


def test_no_cuda_interface_here(pool: gpupool.Pool) -> None:
    assert not hasattr(pool.alloc(8), "__cuda_array_interface__")


def test_adopted(pool: gpupool.Pool) -> None:
    with gpupool.Buffer(pool, pool.malloc(1000), 1000) as buffer:
        buffer.fill(1)
    assert pool.memory_allocated() == 0
