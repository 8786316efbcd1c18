# SPDX-License-Identifier: Apache-2.0
"""The library itself, and the devices it sees."""

from __future__ import annotations

from enum import IntEnum
from typing import Literal, TypeVar

from ._arguments import device_and_backend
from ._enums import Backend, Feature
from ._error import check
from ._native import ffi, lib
from ._structs import DeviceInfo

_Choice = TypeVar("_Choice", bound=IntEnum)


BackendName = Literal["auto", "cuda", "sim", "host"]


def choose(kind: type[_Choice], value: _Choice | str | int) -> _Choice:
    """A member of an enum, given as itself, its number or its name in lower case. Raises ValueError."""
    if isinstance(value, str) and value.upper() in kind.__members__:
        return kind[value.upper()]
    if not isinstance(value, int) or isinstance(value, bool) or value not in kind._value2member_map_:
        names = ", ".join(repr(name.lower()) for name in kind.__members__)
        raise ValueError(f"{value!r} is no {kind.__name__.lower()}; there are {names}")
    return kind(value)


def version() -> str:
    """The version of the loaded library, such as "0.1.0"."""
    return str(ffi.string(lib.gpupool_version_string()).decode())


def version_number() -> int:
    """The same as major * 10000 + minor * 100 + patch; compare with gpupool.VERSION, which this package was
    built for."""
    return int(lib.gpupool_version())


def features() -> Feature:
    """What the library can do here. The first call may load the CUDA driver."""
    return Feature(lib.gpupool_features())


def device_count(backend: Backend | BackendName = Backend.AUTO) -> int:
    """The number of devices of a backend. The simulated one has 8. Raises UnavailableError."""
    count = ffi.new("int32_t *")
    check(lib.gpupool_device_count(choose(Backend, backend), count))
    return int(count[0])


def device_info(device: int | str = 0, backend: Backend | BackendName = Backend.AUTO) -> DeviceInfo:
    """Describes a device, given by its number or as in "cuda:1". Raises InvalidArgumentError (no such device),
    UnavailableError, DriverError."""
    info = ffi.new("gpupool_device_info_t *", {"struct_size": ffi.sizeof("gpupool_device_info_t")})
    number, chosen = device_and_backend(device, choose(Backend, backend))
    check(lib.gpupool_device_info(chosen, number, info))
    return DeviceInfo._of(info)
