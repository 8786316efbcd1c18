# SPDX-License-Identifier: Apache-2.0
"""Arrays have a type and a shape, for NumPy and for what takes DLPack."""

from typing import Any

import pytest

import gpupool

numpy = pytest.importorskip("numpy")
TYPES = ["int8", "uint8", "int16", "uint64", "float16", "float32", "float64", "complex64", "bool"]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (2, 0, 3), (2, 1, 3, 4)])
def test_f7_there_and_back(pool: gpupool.Pool, dtype: str, shape: tuple[int, ...]) -> None:
    given = (numpy.random.default_rng(1).random(shape) * 9).astype(dtype)
    with pool.array(given) as array:
        assert (array.shape, array.dtype, array.nbytes) == (shape, given.dtype, given.nbytes)
        for back in (array.to_numpy(), array.numpy(), numpy.asarray(array), numpy.from_dlpack(array)):
            assert (back.dtype, back.shape) == (given.dtype, shape)
            assert (back == given).all()
        del back
    assert pool.memory_allocated() == 0


def test_f7_an_array_is_without_a_copy(pool: gpupool.Pool) -> None:
    array = pool.empty((2, 3), "int32", pool.stream())
    array.fill(0)
    array.numpy()[1, 2] = 7
    assert array.to_numpy().tolist() == [[0, 0, 0], [0, 0, 7]]
    assert array.numpy("uint8").shape == (24,)
    assert numpy.from_dlpack(array).ctypes.data == array.address
    assert len(array) == 2
    assert repr(array) == f"<gpupool.Array of int32 (2, 3), at {array.address:#x}>"
    lent = numpy.from_dlpack(array)
    array.free()
    assert repr(array) == "<gpupool.Array of int32 (2, 3), freed>"
    assert lent[1, 2] == 7
    assert pool.memory_allocated() == 512
    del lent
    assert pool.memory_allocated() == 0


def test_f7_arrays_of_what_lies_otherwise(pool: gpupool.Pool) -> None:
    table = numpy.arange(12, dtype="float32").reshape(3, 4)
    each: list[Any] = [table.T, table[::2, 1:], numpy.asfortranarray(table), [[1.5, 2], [3, 4]], 7]
    for given in each:
        expected = numpy.asarray(given)
        back = pool.array(given).to_numpy()
        assert (back.dtype, back.shape, (back == expected).all()) == (expected.dtype, expected.shape, True)


def test_f7_what_is_no_array(pool: gpupool.Pool) -> None:
    objects: Any = [object()]  # versions of NumPy differ in what they say of its type
    with pytest.raises(TypeError, match="dtype is object; it must be an integer"):
        pool.array(objects)
    with pytest.raises(TypeError, match="dtype is >f4"):
        pool.empty(3, ">f4")
    with pytest.raises(OverflowError, match="shape is -1; it must be 0 to"):
        pool.empty((2, -1))
    with pytest.raises(TypeError, match=r"shape is 1\.5"):
        pool.empty(1.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no length"):
        len(pool.empty(()))
    with pytest.raises(TypeError, match="cannot copy an Array: it owns its block"):
        __import__("copy").copy(pool.empty(3))
    with pytest.raises((gpupool.OutOfMemoryError, OverflowError)):
        pool.empty((1 << 40, 1 << 40))
    assert pool.memory_allocated() == 0


def test_a_view_of_rows(pool: gpupool.Pool) -> None:
    table = numpy.arange(24, dtype="int32").reshape(4, 3, 2)
    array = pool.array(table)
    for index in (0, 2, -1, slice(1, 3), slice(None), slice(3, 1), slice(-2, None), numpy.int64(1)):
        view = array[index]
        assert (view.shape, view.dtype) == (table[index].shape, table.dtype)
        assert (view.to_numpy() == table[index]).all() and (numpy.asarray(view) == table[index]).all()
    assert array[1][2][0].to_numpy() == table[1][2][0]
    assert [row.to_numpy().tolist() for row in array] == table.tolist()
    array[1].copy_from_host(numpy.full((3, 2), 7, "int32"))
    assert array.to_numpy()[1].tolist() == [[7, 7]] * 3 and (array.to_numpy()[2:] == table[2:]).all()
    assert repr(array[1]) == f"<gpupool.ArrayView of int32 (3, 2), at {array.address + 24:#x}>"
    for bad, kind in ((4, IndexError), (-5, IndexError), ("x", TypeError), (True, TypeError), (1.5, TypeError)):
        with pytest.raises(kind, match="index is"):
            array[bad]  # type: ignore[index]
    with pytest.raises(ValueError, match="the step is 2"):
        array[::2]
    with pytest.raises(TypeError, match="no dimensions"):
        pool.array(7)[0]


def test_another_shape(pool: gpupool.Pool) -> None:
    table = numpy.arange(24, dtype="float32")
    array = pool.array(table)
    for shape in ((2, 12), (24,), (4, -1), (-1, 2, 3), (2, 3, 4, 1)):
        for view in (array.reshape(shape), array.reshape(*shape), array.reshape(6, 4).reshape(shape)):
            assert (view.to_numpy() == table.reshape(shape)).all() and view.shape == table.reshape(shape).shape
            assert view.address == array.address
    assert pool.empty((0, 3)).reshape(3, 0).shape == (3, 0)
    for bad in ((5, 5), (-1, 7), (-1, -1), (), (0, -1)):
        with pytest.raises(ValueError, match=r"and the array has 24 elements, as \(24,\)"):
            array.reshape(bad)


def test_a_view_keeps_its_block(pool: gpupool.Pool) -> None:
    array = pool.array(numpy.arange(6, dtype="int64"))
    view = array[2:4]
    array.free()
    assert view.to_numpy().tolist() == [2, 3] and pool.memory_allocated() == 512
    with view:
        pass
    assert pool.memory_allocated() == 0 and repr(view) == "<gpupool.ArrayView of int64 (2,), freed>"
    with pytest.raises(gpupool.UnknownPointerError):
        array[0]
