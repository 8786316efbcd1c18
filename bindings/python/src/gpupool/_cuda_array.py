# SPDX-License-Identifier: Apache-2.0
"""Memory borrowed from libraries that offer the CUDA array interface, such as Numba."""

from __future__ import annotations

from typing import Any

from ._owner import Owner
from ._status_errors import InvalidArgumentError


class BorrowedArray(Owner):
    """Memory of another library, which this object keeps alive."""

    __module__ = "gpupool"
    _owns = "loan of another library's memory"
    __slots__ = ("_source", "address", "dtype", "is_read_only", "nbytes", "shape", "stream", "strides")

    address: int
    """The address of the first element."""
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    """The strides in bytes; None: in C order without gaps."""
    dtype: str
    """The type, as in NumPy's array interface: "<f4"."""
    nbytes: int
    """The size of all elements, in bytes."""
    is_read_only: bool
    stream: int | None
    """The stream whose queued work may still write the memory; None if there is none."""

    def __init__(self, source: Any) -> None:
        """Raises TypeError if source has no __cuda_array_interface__, and InvalidArgumentError if it is older than
        version 2 or has a mask."""
        interface = getattr(source, "__cuda_array_interface__", None)
        if interface is None:
            raise TypeError(f"{type(source).__name__!r} has no __cuda_array_interface__")
        if interface["version"] < 2 or interface.get("mask") is not None:
            raise InvalidArgumentError("this array has version 0 or 1 of the CUDA array interface, or a mask")
        self._source = source
        self.address, self.is_read_only = interface["data"]
        self.shape = tuple(interface["shape"])
        self.strides = interface.get("strides")
        self.dtype = interface["typestr"]
        stream = interface.get("stream")
        self.stream = 0 if stream == 1 else stream
        self.nbytes = int(self.dtype[2:])
        for extent in self.shape:
            self.nbytes *= extent

    def __repr__(self) -> str:
        return f"<gpupool.BorrowedArray {self.dtype} {self.shape} at {self.address:#x}>"


def from_cuda_array(source: Any) -> BorrowedArray:
    """Borrows the memory of an array with __cuda_array_interface__, with no copy. BorrowedArray.stream says which
    stream may still write it. Raises as BorrowedArray."""
    return BorrowedArray(source)
