# SPDX-License-Identifier: Apache-2.0
"""The exceptions of failed calls."""

from __future__ import annotations

from typing import Any, ClassVar

from ._enums import Status
from ._hot import take_interruption
from ._native import ffi, lib


class Error(RuntimeError):
    """A failed call of the library. Each status has its own subclass."""

    status: Status | int
    """The call's status. A plain number if this version of the package does not know it."""
    driver_code: int
    """The driver's own number, or 0."""
    message: str
    """A description of what went wrong."""
    report: str
    """A description of where the pool's memory is, if the pool had none to give; otherwise empty."""

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
    """The exception for this thread's call that has just failed."""
    details = ffi.new("gpupool_error_t *", {"struct_size": ffi.sizeof("gpupool_error_t")})
    lib.gpupool_last_error(details)
    message, driver_code = "", 0
    # A finalizer may have failed in the meantime.
    if details.status == status:
        message, driver_code = ffi.string(details.message).decode(errors="replace"), details.driver_code
    if not message:
        message = ffi.string(lib.gpupool_status_name(status)).decode()
    kind = Error._classes.get(status, Error)
    return kind(message, None if kind is not Error else status, driver_code)


def failure_or_interruption(status: int) -> BaseException:
    """The same, but what a signal's handler raised while the call waited, such as KeyboardInterrupt, if it did."""
    interruption = take_interruption() if status == Status.INTERRUPTED else None
    return failure(status) if interruption is None else interruption


def wait_for_copies(pool: Any, stream: int) -> None:
    """gpupool_stream_synchronize for copies that use memory of the caller's: a Ctrl-C meanwhile is raised when they are
    done, since nobody would keep that memory for them."""
    raised = None
    while (status := lib.gpupool_stream_synchronize(pool, stream)) == Status.INTERRUPTED:
        raised = failure_or_interruption(status)
    if raised is not None:
        raise raised
    check(status)


def check(status: int) -> None:
    """Raises the exception for any status other than success."""
    if status:
        raise failure_or_interruption(status)
