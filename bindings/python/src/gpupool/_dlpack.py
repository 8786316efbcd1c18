# SPDX-License-Identifier: Apache-2.0
"""DLPack: memory lent to other libraries and borrowed from them, without a copy."""

from __future__ import annotations

import ctypes
from types import TracebackType
from typing import Any

from ._native import ffi, lib
from ._owner import Owner
from ._status_errors import HostOutOfMemoryError, InvalidArgumentError, UnknownPointerError

CPU, CUDA, CUDA_PINNED, CUDA_MANAGED = 1, 2, 3, 13
_READ_ONLY = 1

# The names must outlive every capsule, so they stay on the heap for ever.
_NAMES = {name: ctypes.create_string_buffer(name) for name in (b"dltensor", b"dltensor_versioned")}
_USED_NAMES = {name: ctypes.create_string_buffer(b"used_" + name) for name in _NAMES}
for _text in (*_NAMES.values(), *_USED_NAMES.values()):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_text))

_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)
_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype, _get_pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
_set_name = ctypes.pythonapi.PyCapsule_SetName
_set_name.restype, _set_name.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_void_p)


def _address(pointer: Any) -> int:
    return int(ffi.cast("uintptr_t", pointer))


_DROP = _address(ffi.addressof(lib, "gpupool_py_drop_capsule"))


# The letters of NumPy's array interface, and DLPack's numbers.
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}


def capsule(
    block: Any, address: int, element: str, extents: tuple[int, ...], device: tuple[int, int], versioned: bool
) -> Any:
    """A capsule with a tensor of the memory at address in the block, which it keeps. element is a type as in NumPy's
    array interface."""
    name = b"dltensor_versioned" if versioned else b"dltensor"
    export = lib.gpupool_py_export_versioned if versioned else lib.gpupool_py_export_legacy
    shape = ffi.new("int64_t[]", list(extents))
    tensor = ffi.new("dlpack_tensor_t *", {"device": device, "dimensions": len(extents), "shape": shape})
    tensor.data = ffi.cast("void *", address)
    tensor.type.code, tensor.type.bits, tensor.type.lanes = _CODES[element[1]], 8 * int(element[2:]), 1
    made = export(block, tensor)
    if not made:
        raise HostOutOfMemoryError("the host has no memory for a tensor's record")
    return _new(_address(made), ctypes.addressof(_NAMES[name]), _DROP)


class BorrowedTensor(Owner):
    """Memory of another library, which this object keeps alive until it is freed or dropped.

    Its address can be passed to Pool.copy and to anything else that takes addresses.
    """

    __module__ = "gpupool"
    _owns = "loan of another library's memory"
    __slots__ = ("__weakref__", "_capsule", "_tensor", "device", "dtype", "is_read_only", "shape", "strides")

    device: tuple[int, int]
    """DLPack's kind of device and the device's number: (1, 0) is the host, (2, 0) the first GPU."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """The strides in elements."""
    dtype: str
    """The type, as in NumPy's array interface: "<f4"; types unknown to NumPy are "bfloat16", "code5" and so on."""
    is_read_only: bool

    def __init__(self, tensor: Any, read_only: bool) -> None:
        managed = tensor.tensor
        if managed.type.lanes != 1:
            raise InvalidArgumentError("tensors of vectors are not supported")
        self._tensor = tensor
        self.device = (managed.device.type, managed.device.number)
        self.shape = tuple(managed.shape[i] for i in range(managed.dimensions))
        self.dtype = _type_name(managed.type.code, managed.type.bits)
        self.is_read_only = read_only
        if managed.strides:
            self.strides = tuple(managed.strides[i] for i in range(managed.dimensions))
        else:
            self.strides = _c_order(self.shape)

    @property
    def address(self) -> int:
        """The address of the first element. Raises UnknownPointerError if the tensor has been freed."""
        managed = self._managed()
        return _address(managed.data) + int(managed.byte_offset)

    @property
    def nbytes(self) -> int:
        """The bytes from the first element to the last, if the elements are in C order without gaps."""
        managed = self._managed()
        if self.strides != _c_order(self.shape):
            raise InvalidArgumentError(f"the elements of a tensor with strides {self.strides} are not contiguous")
        count = 1
        for extent in self.shape:
            count *= extent
        return count * int(managed.type.bits) // 8

    def _managed(self) -> Any:
        if self._tensor is None:
            raise UnknownPointerError("the tensor has been freed")
        return self._tensor.tensor

    def free(self) -> None:
        """Gives the memory back to its library. Freeing it again does nothing."""
        self._tensor = None

    def __enter__(self) -> BorrowedTensor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.free()

    def __repr__(self) -> str:
        return f"<gpupool.BorrowedTensor {self.dtype} {self.shape} on device {self.device}>"


def from_dlpack(source: Any, *, stream: int | None = None) -> BorrowedTensor:
    """Borrows the memory of a tensor of another library, with no copy.

    source has __dlpack__, as arrays of PyTorch, CuPy, JAX and NumPy do. stream is passed on to it: the stream that will
    use the memory, in DLPack's numbers (1: the legacy default stream; None: its library's choice). Raises
    InvalidArgumentError for a DLPack version that is too new.
    """
    try:
        taken = source.__dlpack__(stream=stream, max_version=(1, 0))
    except TypeError:
        taken = source.__dlpack__(stream=stream)
    for name, kind, delete in (
        (b"dltensor_versioned", "dlpack_versioned_t *", lib.gpupool_py_delete_versioned),
        (b"dltensor", "dlpack_legacy_t *", lib.gpupool_py_delete_legacy),
    ):
        if _is_valid(taken, name):
            pointer = ffi.cast(kind, _get_pointer(taken, name))
            _set_name(taken, ctypes.addressof(_USED_NAMES[name]))
            tensor = ffi.gc(pointer, delete)
            if name == b"dltensor":
                return BorrowedTensor(tensor, False)
            if tensor.major != 1:
                version = f"{tensor.major}.{tensor.minor}"
                raise InvalidArgumentError(f"this tensor has DLPack version {version}; this package knows 1.x")
            return BorrowedTensor(tensor, bool(tensor.flags & _READ_ONLY))
    raise TypeError("__dlpack__() did not return a capsule with an unused tensor")


def _c_order(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * shape[i + 1]
    return tuple(strides)


def _type_name(code: int, bits: int) -> str:
    letter = next((letter for letter, number in _CODES.items() if number == code), None)
    if letter is None or bits % 8:
        return f"bfloat{bits}" if code == 4 else f"code{code}_{bits}"
    return f"{'|' if bits == 8 else '<'}{letter}{bits // 8}"
