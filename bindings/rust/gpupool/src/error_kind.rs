// SPDX-License-Identifier: Apache-2.0
// Written by tools/apigen.py.

use gpupool_sys as sys;

/// What kind of failure an [`Error`](crate::Error) is. Later versions may add kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument is out of range, or a handle is NULL, destroyed or from another copy of the library.
    InvalidArgument,
    /// The device has no more memory, or for pinned memory the host, and nothing that the pool tried has helped.
    /// So too if the process has no addresses left, which the message says.
    OutOfMemory,
    /// The library could not get memory on the host for its own records, or to save what sleeps.
    HostOutOfMemory,
    /// The call would take reserved memory above the pool's limit.
    OverLimit,
    /// The pointer is not a live block of this pool: foreign, freed already, or inside a block.
    UnknownPointer,
    /// The backend cannot be used here: no driver, no GPU, or no such device.
    Unavailable,
    /// This device or this mode cannot do it, or a struct has fields that this version does not know.
    Unsupported,
    /// The driver refused a call; gpupool_error_t.driver_code has its number.
    Driver,
    /// The process is exiting and the driver has gone.
    ShuttingDown,
    /// The pool was created before fork, in the parent process.
    Forked,
    /// The library broke a promise of its own. Please report it.
    Internal,
    /// The pool is asleep, or falling asleep: see gpupool_sleep. Since 0.2.
    Asleep,
    /// The call waited, and a function of gpupool_set_interrupt_check has ended that. Since 0.2.
    Interrupted,
    /// A status that this version of the crate does not know.
    Unknown,
}

impl ErrorKind {
    pub(crate) fn from_status(status: sys::gpupool_status_t) -> ErrorKind {
        match status {
            sys::GPUPOOL_ERROR_INVALID_ARGUMENT => ErrorKind::InvalidArgument,
            sys::GPUPOOL_ERROR_OUT_OF_MEMORY => ErrorKind::OutOfMemory,
            sys::GPUPOOL_ERROR_HOST_OUT_OF_MEMORY => ErrorKind::HostOutOfMemory,
            sys::GPUPOOL_ERROR_OVER_LIMIT => ErrorKind::OverLimit,
            sys::GPUPOOL_ERROR_UNKNOWN_POINTER => ErrorKind::UnknownPointer,
            sys::GPUPOOL_ERROR_UNAVAILABLE => ErrorKind::Unavailable,
            sys::GPUPOOL_ERROR_UNSUPPORTED => ErrorKind::Unsupported,
            sys::GPUPOOL_ERROR_DRIVER => ErrorKind::Driver,
            sys::GPUPOOL_ERROR_SHUTTING_DOWN => ErrorKind::ShuttingDown,
            sys::GPUPOOL_ERROR_FORKED => ErrorKind::Forked,
            sys::GPUPOOL_ERROR_INTERNAL => ErrorKind::Internal,
            sys::GPUPOOL_ERROR_ASLEEP => ErrorKind::Asleep,
            sys::GPUPOOL_ERROR_INTERRUPTED => ErrorKind::Interrupted,
            _ => ErrorKind::Unknown,
        }
    }
}
