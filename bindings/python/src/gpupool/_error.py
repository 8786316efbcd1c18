# SPDX-License-Identifier: Apache-2.0
"""What a failed call raises."""

from __future__ import annotations

from typing import ClassVar

from ._enums import Status
from ._native import ffi, lib


class Error(RuntimeError):
    """A call of the library that failed. Each status has a class of its own below this one."""

    status: Status | int
    """What the call came to. A plain number if this version of the package does not know it."""
    driver_code: int
    """The driver's own number, or 0."""
    message: str
    """What went wrong, in words."""
    report: str
    """Where the pool's memory is, in words, if the pool had none to give; otherwise empty."""

    _classes: ClassVar[dict[int, type[Error]]] = {}

    def __init_subclass__(cls, status: Status | None = None) -> None:
        if status is not None:
            Error._classes[status] = cls
            cls.status = status

    def __init__(self, message: str, status: Status | int | None = None, driver_code: int = 0) -> None:
        super().__init__(message)
        self.message = message
        if status is not None:
            self.status = status
        self.driver_code = driver_code
        self.report = ""


def failure(status: int) -> Error:
    """The exception for a call of this thread that has just failed."""
    details = ffi.new("gpupool_error_t *", {"struct_size": ffi.sizeof("gpupool_error_t")})
    lib.gpupool_last_error(details)
    message, driver_code = "", 0
    # A finalizer may have failed in between.
    if details.status == status:
        message, driver_code = ffi.string(details.message).decode(errors="replace"), details.driver_code
    if not message:
        message = ffi.string(lib.gpupool_status_name(status)).decode()
    kind = Error._classes.get(status, Error)
    return kind(message, None if kind is not Error else status, driver_code)


def check(status: int) -> None:
    """Raises what a status other than success stands for."""
    if status:
        raise failure(status)
