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
