# SPDX-License-Identifier: Apache-2.0
# Written by tools/apigen.py.
"""One exception for each status of the library."""

from ._enums import Status
from ._error import Error


class InvalidArgumentError(Error, ValueError, status=Status.INVALID_ARGUMENT):
    """An argument is out of range, or a handle is NULL, destroyed or from another copy of the library."""


class OutOfMemoryError(Error, MemoryError, status=Status.OUT_OF_MEMORY):
    """The device has no more memory, or for pinned memory the host, and nothing that the pool tried has helped.
    So too if the process has no addresses left, which the message says.
    """


class HostOutOfMemoryError(Error, MemoryError, status=Status.HOST_OUT_OF_MEMORY):
    """The library could not get memory on the host for its own records, or to save what sleeps."""


class OverLimitError(OutOfMemoryError, status=Status.OVER_LIMIT):
    """The call would take reserved memory above the pool's limit."""


class UnknownPointerError(Error, ValueError, status=Status.UNKNOWN_POINTER):
    """The pointer is not a live block of this pool: foreign, freed already, or inside a block."""


class UnavailableError(Error, status=Status.UNAVAILABLE):
    """The backend cannot be used here: no driver, no GPU, or no such device."""


class UnsupportedError(Error, status=Status.UNSUPPORTED):
    """This device or this mode cannot do it, or a struct has fields that this version does not know."""


class DriverError(Error, status=Status.DRIVER):
    """The driver refused a call; gpupool_error_t.driver_code has its number."""


class ShuttingDownError(Error, status=Status.SHUTTING_DOWN):
    """The process is exiting and the driver has gone."""


class ForkedError(Error, status=Status.FORKED):
    """The pool was created before fork, in the parent process."""


class InternalError(Error, status=Status.INTERNAL):
    """The library broke a promise of its own. Please report it."""


class AsleepError(Error, status=Status.ASLEEP):
    """The pool is asleep, or falling asleep: see gpupool_sleep. Since 0.2."""


class InterruptedError(Error, status=Status.INTERRUPTED):
    """The call waited, and a function of gpupool_set_interrupt_check has ended that. Since 0.2."""
