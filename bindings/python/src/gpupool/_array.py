# SPDX-License-Identifier: Apache-2.0
"""Blocks with a type and a shape."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ._arguments import integer
from ._buffer import Owned

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Array(Owned):
    """A block that holds an array in C order, from Pool.empty() or Pool.array(). It lives as a Buffer does, and other
    libraries accept it with its type and shape. It computes nothing: pass it to cupy.asarray, torch.from_dlpack or
    other libraries' kernels. Since 0.2."""

    __slots__ = ("_dtype", "_shape")

    _dtype: np.dtype[Any]
    _shape: tuple[int, ...]

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

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
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

    def __repr__(self) -> str:
        where = "freed" if self.is_freed else f"at {self.address:#x}"
        return f"<gpupool.Array of {self._dtype} {self._shape}, {where}>"
