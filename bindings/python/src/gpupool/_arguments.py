# SPDX-License-Identifier: Apache-2.0
"""Checks of arguments, and the messages for bad ones."""

from __future__ import annotations

import operator

from ._enums import Backend
from ._error import check, failure
from ._native import ffi, lib
from ._status_errors import InvalidArgumentError

MOST = 2**64 - 1


def integer(name: str, value: object, least: int = 0, most: int = MOST, kind: str = "an int") -> int:
    """A number of any integer type. Raises TypeError, and OverflowError outside of least..most."""
    if type(value) is int:
        number = value
    elif isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} is {value!r}, of type {type(value).__name__}; it must be {kind}")
    else:
        number = operator.index(value)
    if not least <= number <= most:
        raise OverflowError(f"{name} is {number}; it must be {least} to {most}")
    return number


def real(name: str, value: object, kind: str = "a number") -> float:
    """Raises TypeError for anything but a number."""
    if isinstance(value, (bool, str)) or not (hasattr(value, "__float__") or hasattr(value, "__index__")):
        raise TypeError(f"{name} is {value!r}, of type {type(value).__name__}; it must be {kind}")
    return float(value)  # type: ignore[arg-type]


def device_number(name: str, value: object) -> int:
    """Raises TypeError, OverflowError; the library knows which devices there are."""
    return integer(name, value, -(2**31), 2**31 - 1, "the number of a device")


def nanoseconds(name: str, value: object) -> int:
    """A time given in seconds. Raises TypeError, ValueError."""
    seconds = real(name, value, "a number of seconds")
    if not 0 <= seconds <= 1e9:
        raise ValueError(f"{name} is {value}, not 0 to 1e9 seconds")
    return int(seconds * 1e9)


def byte(name: str, value: object) -> int:
    """Raises ValueError outside 0..255."""
    try:
        return integer(name, value, 0, 255)
    except OverflowError as error:
        raise ValueError(str(error)) from None


def address(name: str, value: object) -> int:
    """An address of memory, which a Buffer is not."""
    if hasattr(value, "address") and hasattr(value, "free"):
        raise TypeError(f"{name} is {value!r}; free() takes an address, use buffer.free()")
    return integer(name, value, kind="an address, an int")


def size(name: str, value: object) -> int:
    """Bytes, as a number or a string. Raises TypeError, OverflowError, and InvalidArgumentError for a bad string."""
    return _parsed(name, value, shares=False)[0] if isinstance(value, str) else integer(name, value, kind=_SIZES)


_SIZES = 'a number of bytes as an int, or a string such as "8GiB"'


def size_or_share(name: str, value: object) -> tuple[int, float]:
    """Bytes, or a share of the device's memory; the other is 0. Raises as size; a share is in
    (0, 1]."""
    if isinstance(value, str):
        return _parsed(name, value, shares=True)
    if isinstance(value, float):
        if not 0 < value <= 1:
            raise InvalidArgumentError(
                f"{name} is {value!r}; as a float it is a share of the device's memory, above 0 and up to 1.0, and as "
                "an int a number of bytes"
            )
        return 0, value
    return integer(name, value, kind=_SIZES + ' or "40%", or a share of up to 1.0 as a float'), 0.0


def share(name: str, value: object) -> float:
    """A part of the device's memory: 0.4 or "40%"; 0 for none. Raises TypeError, and InvalidArgumentError outside
    0..1."""
    if isinstance(value, str):
        found = _parsed(name, value, shares=True)[1]
        if not found:
            raise InvalidArgumentError(
                f'{name} is {value!r}; it must be a share of the device\'s memory, such as 0.4 or "40%"'
            )
        return found
    number = real(name, value, 'a share of the device\'s memory, such as 0.4 or "40%"')
    if not 0 <= number <= 1:
        raise InvalidArgumentError(
            f"{name} is {value!r}; it must be a share of the device's memory, above 0 and up to 1"
        )
    return number


def device_and_backend(device: object, backend: Backend) -> tuple[int, Backend]:
    """A device by its number, or by a name such as "cuda:1", which may include the backend. Raises TypeError,
    OverflowError, InvalidArgumentError."""
    if not isinstance(device, str):
        kind = 'a number, or a name such as "cuda:1" or "sim"'
        return integer("device", device, -(2**31), 2**31 - 1, kind), backend
    named, number = parse_device(device)
    if Backend.AUTO not in (named, backend) and named != backend:
        raise InvalidArgumentError(f"device is {device!r}, and backend is {backend.name.lower()!r}: give one of them")
    return number, named if backend == Backend.AUTO else backend


def parse_size(text: str, *, of: int | None = None) -> int:
    """The bytes of a size as people write it: "4096", "512KiB", "1.5 GiB" and "2g" count in powers of 1024, "8GB" in
    powers of 1000. With `of`, shares of it such as "40%" are accepted too. Everything in this package that takes a size
    takes such a string. Since 0.2. Raises InvalidArgumentError, TypeError."""
    if not isinstance(text, str):
        raise TypeError(f'size is {text!r}; it must be a string, such as "8GiB"')
    found, part = _parsed("size", text, shares=of is not None)
    return found if of is None or not part else int(part * of)


def parse_device(text: str) -> tuple[Backend, int]:
    """The backend and number of a device as people write it: "cuda", "cuda:1", "sim", "sim:3", "auto", or a number
    alone, whose backend is AUTO. Does not check whether the device exists. Since 0.2. Raises InvalidArgumentError,
    TypeError."""
    if not isinstance(text, str):
        raise TypeError(f'device is {text!r}; it must be a string, such as "cuda:1"')
    backend, number = ffi.new("gpupool_backend_t *"), ffi.new("int32_t *")
    check(lib.gpupool_parse_device(text.encode(), backend, number))
    return Backend(backend[0]), int(number[0])


def _parsed(name: str, text: str, *, shares: bool) -> tuple[int, float]:
    """Bytes or a share."""
    found, part = ffi.new("uint64_t *"), ffi.new("double *")
    status = lib.gpupool_parse_size(text.encode(), found, part if shares else ffi.NULL)
    if status:
        called = "limit" if shares else "size"
        raise InvalidArgumentError(name + failure(status).message.removeprefix(called))
    return int(found[0]), float(part[0])
