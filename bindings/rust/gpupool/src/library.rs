// SPDX-License-Identifier: Apache-2.0
//! The library itself: version, features, log.

use std::ffi::{c_char, c_void, CStr};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr;
use std::sync::{Arc, PoisonError, RwLock};

use gpupool_sys as sys;

use crate::error::check;
use crate::{Error, Result};

/// The version of the loaded library: major * 10000 + minor * 100 + patch.
pub fn version() -> u32 {
    // SAFETY: it takes nothing.
    unsafe { sys::gpupool_version() }
}

/// The same in words, such as "0.1.0".
pub fn version_string() -> &'static str {
    // SAFETY: it takes nothing and returns a constant string.
    let version = unsafe { CStr::from_ptr(sys::gpupool_version_string()) };
    version.to_str().unwrap_or("")
}

/// Refuses a library whose version differs from these bindings', because structs may differ. `vendored` cannot fail
/// here.
pub(crate) fn check_version() -> Result<()> {
    let built = sys::GPUPOOL_VERSION;
    if version() / 100 == built / 100 {
        return Ok(());
    }
    Err(Error::unsupported(format!(
        "the loaded libgpupool has version {}, and this program was built for {}.{}: install that version, or build \
         the program again",
        version_string(),
        built / 10_000,
        built / 100 % 100
    )))
}

/// What the loaded library can do here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Features {
    /// The simulated device. Always available.
    pub sim: bool,
    /// A CUDA driver with at least one device can be used in this process.
    pub cuda: bool,
    /// The host's memory can be used as a device's.
    pub host: bool,
}

/// What the loaded library can do here. The first call may load the CUDA driver.
pub fn features() -> Features {
    // SAFETY: it takes nothing.
    let bits = unsafe { sys::gpupool_features() };
    let has = |feature: sys::gpupool_feature_t| bits & u64::from(feature.0) != 0;
    Features {
        sim: has(sys::GPUPOOL_FEATURE_SIM),
        cuda: has(sys::GPUPOOL_FEATURE_CUDA),
        host: has(sys::GPUPOOL_FEATURE_HOST),
    }
}

/// Levels of the log. A line goes out if its level is at most the one that was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// What failed.
    Error,
    /// Probable problems.
    Warning,
    /// Occasional events.
    Info,
    /// Everything.
    Debug,
}

impl LogLevel {
    fn to_c(self) -> sys::gpupool_log_level_t {
        match self {
            LogLevel::Off => sys::GPUPOOL_LOG_OFF,
            LogLevel::Error => sys::GPUPOOL_LOG_ERROR,
            LogLevel::Warning => sys::GPUPOOL_LOG_WARNING,
            LogLevel::Info => sys::GPUPOOL_LOG_INFO,
            LogLevel::Debug => sys::GPUPOOL_LOG_DEBUG,
        }
    }

    fn from_number(number: i32) -> LogLevel {
        match sys::gpupool_log_level_t(number as u32) {
            sys::GPUPOOL_LOG_ERROR => LogLevel::Error,
            sys::GPUPOOL_LOG_WARNING => LogLevel::Warning,
            sys::GPUPOOL_LOG_INFO => LogLevel::Info,
            _ => LogLevel::Debug,
        }
    }
}

type Logger = dyn Fn(LogLevel, &str) + Send + Sync;

static LOGGER: RwLock<Option<Arc<Logger>>> = RwLock::new(None);

/// Sends log lines up to `level` to `logger`, for the whole process, from any thread. It may call this crate; what that
/// causes is not logged. A panic in it is dropped.
///
/// # Errors
/// `InvalidArgument` for a level that the loaded library does not know.
pub fn log_to<F>(level: LogLevel, logger: F) -> Result<()>
where
    F: Fn(LogLevel, &str) + Send + Sync + 'static,
{
    set_log(level, Some(log_line), Some(Arc::new(logger)))
}

/// Sends log lines up to `level` to standard error, for the whole process. `GPUPOOL_LOG` in the environment sets the
/// level at start.
///
/// # Errors
/// `InvalidArgument` for a level that the loaded library does not know.
pub fn log_to_stderr(level: LogLevel) -> Result<()> {
    set_log(level, None, None)
}

fn set_log(level: LogLevel, line: sys::gpupool_log_fn_t, logger: Option<Arc<Logger>>) -> Result<()> {
    // SAFETY: log_line needs no user.
    check(unsafe { sys::gpupool_set_log(line, ptr::null_mut(), level.to_c().0 as i32) })?;
    *LOGGER.write().unwrap_or_else(PoisonError::into_inner) = logger;
    Ok(())
}

unsafe extern "C" fn log_line(_user: *mut c_void, level: i32, message: *const c_char) {
    let logger = LOGGER.read().unwrap_or_else(PoisonError::into_inner).clone();
    let Some(logger) = logger else { return };
    // SAFETY: the library gives a string that is valid during the call.
    let message = unsafe { CStr::from_ptr(message) }.to_string_lossy();
    let _ = catch_unwind(AssertUnwindSafe(move || {
        logger(LogLevel::from_number(level), &message);
    }));
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn lines_go_to_the_closure() -> Result<()> {
        let (sender, lines) = mpsc::channel();
        let sender = Mutex::new(sender);
        log_to(LogLevel::Debug, move |level, line| {
            let _ = sender.lock().unwrap().send((level, line.to_string()));
            panic!("this must not cross into C");
        })?;
        for number in [1, 4] {
            // SAFETY: a line as the library would send it.
            unsafe { log_line(ptr::null_mut(), number, c"words".as_ptr()) };
        }
        log_to_stderr(LogLevel::Off)?;
        let lines: Vec<_> = lines.into_iter().collect(); // ends, since the closure is gone
        assert_eq!(lines, [(LogLevel::Error, "words".into()), (LogLevel::Debug, "words".into())]);
        Ok(())
    }
}
