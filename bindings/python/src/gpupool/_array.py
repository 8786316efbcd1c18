# SPDX-License-Identifier: Apache-2.0
"""Blocks with a type and a shape."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ._arguments import integer
from ._buffer import Owned, Part
from ._content import FREED, Content

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class _Typed(Content):
    """Bytes with a type and a shape, in C order."""

    __slots__ = ()

    _dtype: np.dtype[Any]
    _shape: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the dimensions."""
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        return self._dtype

    @property
    def _element(self) -> str:
        return str(self._dtype.str)

    @property
    def _extents(self) -> tuple[int, ...]:
        return self._shape

    def to_numpy(self) -> np.ndarray[Any, Any]:
        """A copy on the host, made in the order of the array's stream; numpy() makes no copy."""
        import numpy  # noqa: PLC0415

        return self.copy_to_host(out=numpy.empty(self._shape, self._dtype))

    def __len__(self) -> int:
        """The length of the first dimension."""
        if not self._shape:
            raise TypeError("an array of no dimensions has no length")
        return self._shape[0]

    def __getitem__(self, index: int | slice) -> ArrayView:
        """A part along the first dimension, without a copy: array[3], array[2:5]. Other strides need a library that
        computes."""
        count, inner = len(self), self._shape[1:]
        row = math.prod(inner) * self._dtype.itemsize
        if isinstance(index, slice):
            start, stop, step = index.indices(count)
            if step != 1:
                raise ValueError(f"the step is {step}; the elements of a view lie in a row")
            return ArrayView(self, start * row, (max(0, stop - start), *inner))
        at = integer("index", index, -(2**63), 2**63 - 1, "an int, or a slice of the first dimension")
        if not -count <= at < count:
            raise IndexError(f"index is {at}; the first dimension has {count}")
        return ArrayView(self, at % count * row, inner)

    def __iter__(self) -> Iterator[ArrayView]:
        return (self[at] for at in range(len(self)))

    def reshape(self, *shape: int | tuple[int, ...]) -> ArrayView:
        """The same elements in another shape, without a copy; one extent may be -1. Raises ValueError if their number
        differs."""
        extents = [extent for each in shape for extent in (each if isinstance(each, (tuple, list)) else (each,))]
        given = [integer("shape", extent, -1, 2**63 - 1) for extent in extents]
        count, known = math.prod(self._shape), math.prod(extent for extent in given if extent >= 0)
        if given.count(-1) == 1 and known and count % known == 0:
            given[given.index(-1)] = count // known
        if -1 in given or math.prod(given) != count:
            raise ValueError(f"shape is {tuple(extents)}, and the array has {count} elements, as {self._shape}")
        return ArrayView(self, 0, tuple(given))

    def __repr__(self) -> str:
        where = "freed" if self._record is FREED else f"at {self.address:#x}"
        return f"<gpupool.{type(self).__name__} of {self._dtype} {self._shape}, {where}>"


class Array(Owned, _Typed):
    """A block that holds an array in C order, from Pool.empty() or Pool.array(). It lives as a Buffer does, and other
    libraries accept it with its type and shape. It computes nothing: pass it to cupy.asarray, torch.from_dlpack or
    other libraries' kernels. Since 0.2."""

    __slots__ = ("_dtype", "_shape")

    def _describe(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> int:
        """Sets type and shape; returns the bytes."""
        import numpy  # noqa: PLC0415  most programs do without

        extents = shape if isinstance(shape, (tuple, list)) else (shape,)
        self._shape = tuple(integer("shape", extent, 0, 2**63 - 1) for extent in extents)
        self._dtype = numpy.dtype(dtype)
        if self._dtype.kind not in "iufcb" or not self._dtype.isnative:
            raise TypeError(
                f"dtype is {self._dtype}; it must be an integer, float, complex or bool type in native byte order"
            )
        return math.prod(self._shape) * self._dtype.itemsize


class ArrayView(Part, _Typed):
    """A part of an Array, or all of it in another shape, from array[...] or array.reshape(...): the same memory, with
    the same methods. It keeps the block from being freed until it is dropped or released. Since 0.2."""

    __slots__ = ("_dtype", "_shape")

    def __init__(self, whole: _Typed, offset: int, shape: tuple[int, ...]) -> None:
        self._dtype = whole._dtype
        self._shape = shape
        self._take_part(whole, offset, math.prod(shape) * self._dtype.itemsize)
