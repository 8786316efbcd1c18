// SPDX-License-Identifier: Apache-2.0
//! Statuses of the library as errors.

use std::ffi::CStr;
use std::fmt;
use std::mem::size_of;

use gpupool_sys as sys;

use crate::ErrorKind;

/// What calls of this crate return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A call that failed, with the library's explanation. One pointer wide, so that results stay small.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}", .0.name, .0.message)]
pub struct Error(Box<Details>);

#[derive(Clone, PartialEq, Eq)]
struct Details {
    kind: ErrorKind,
    name: &'static str,
    driver_code: i32,
    message: String,
}

impl Error {
    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The C name of the status, such as `GPUPOOL_ERROR_OVER_LIMIT`.
    pub fn status_name(&self) -> &'static str {
        self.0.name
    }

    /// The driver's own number, or 0.
    pub fn driver_code(&self) -> i32 {
        self.0.driver_code
    }

    /// The explanation. If memory ran out, it says where the memory is.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Whether memory ran out: the device has no more, or the pool's limit forbids more.
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self.0.kind, ErrorKind::OutOfMemory | ErrorKind::OverLimit)
    }

    /// A failure that this crate found itself.
    #[cold]
    pub(crate) fn invalid(message: impl Into<String>) -> Error {
        let status = sys::GPUPOOL_ERROR_INVALID_ARGUMENT;
        Error::new(status, 0, message.into())
    }

    /// More than any device has.
    #[cold]
    pub(crate) fn out_of_memory(message: String) -> Error {
        Error::new(sys::GPUPOOL_ERROR_OUT_OF_MEMORY, 0, message)
    }

    /// More than the host has.
    #[cold]
    pub(crate) fn host_out_of_memory(message: String) -> Error {
        Error::new(sys::GPUPOOL_ERROR_HOST_OUT_OF_MEMORY, 0, message)
    }

    /// Something that this version cannot do.
    #[cold]
    pub(crate) fn unsupported(message: String) -> Error {
        Error::new(sys::GPUPOOL_ERROR_UNSUPPORTED, 0, message)
    }

    fn new(status: sys::gpupool_status_t, driver_code: i32, message: String) -> Error {
        Error(Box::new(Details {
            kind: ErrorKind::from_status(status),
            name: status_name(status),
            driver_code,
            message,
        }))
    }

    /// The error of this thread's last failed call.
    #[cold]
    fn last(status: sys::gpupool_status_t) -> Error {
        let mut details = sys::gpupool_error_t {
            struct_size: size_of::<sys::gpupool_error_t>() as u32,
            ..Default::default()
        };
        // SAFETY: the struct says how long it is.
        let asked = unsafe { sys::gpupool_last_error(&mut details) };
        if asked == sys::GPUPOOL_SUCCESS && details.status as u32 == status.0 {
            Error::new(status, details.driver_code, text(&details.message))
        } else {
            Error::new(status, 0, "no details are known".into())
        }
    }
}

/// Readable, because a failing `main` prints it: "OverLimit: malloc of ...".
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0.kind, self.0.message)?;
        if self.0.driver_code != 0 {
            write!(f, " (the driver's error {})", self.0.driver_code)?;
        }
        Ok(())
    }
}

/// Turns a status into a result.
#[inline]
pub(crate) fn check(status: sys::gpupool_status_t) -> Result<()> {
    if status == sys::GPUPOOL_SUCCESS {
        Ok(())
    } else {
        Err(Error::last(status))
    }
}

/// A zero-terminated array of C characters.
pub(crate) fn text(characters: &[std::ffi::c_char]) -> String {
    let bytes = characters.iter().map(|&c| c as u8);
    let bytes: Vec<u8> = bytes.take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn status_name(status: sys::gpupool_status_t) -> &'static str {
    // SAFETY: it takes any number and returns a constant string.
    let name = unsafe { CStr::from_ptr(sys::gpupool_status_name(status)) };
    name.to_str().unwrap_or("unknown status")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_a_kind_of_its_own() {
        let statuses = 1..=sys::GPUPOOL_ERROR_INTERNAL.0;
        let errors = statuses.map(|status| Error::new(sys::gpupool_status_t(status), 0, String::new()));
        let mut kinds = std::collections::HashSet::new();
        for error in errors {
            assert_ne!(error.kind(), ErrorKind::Unknown);
            let words = error.status_name().trim_start_matches("GPUPOOL_ERROR_").replace('_', "");
            assert_eq!(format!("{:?}", error.kind()).to_uppercase(), words);
            assert!(kinds.insert(error.kind()));
        }
        let later = Error::new(sys::gpupool_status_t(1000), 0, String::new());
        assert_eq!(later.kind(), ErrorKind::Unknown);
    }
}
