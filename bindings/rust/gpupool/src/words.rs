// SPDX-License-Identifier: Apache-2.0
//! Sizes and devices as people write them, read by the parser that the environment and all languages share.

use std::convert::Infallible;
use std::ffi::CString;
use std::fmt;
use std::str::FromStr;

use gpupool_sys as sys;

use crate::error::check;
use crate::{Backend, Error, Result};

/// A limit of reserved memory. As text, "4096", "512KiB", "1.5 GiB" and "2g" count in powers of 1,024, "8GB" in powers
/// of 1,000, and "40%" is a share of the device's memory. Since 0.2.
///
/// ```
/// use gpupool::Limit;
///
/// assert_eq!("1.5 GiB".parse(), Ok(Limit::Bytes(3 << 29)));
/// assert_eq!("40%".parse(), Ok(Limit::Share(0.4)));
/// assert!("8 bananas".parse::<Limit>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// Bytes; 0: no limit.
    Bytes(u64),
    /// A fraction of the device's memory, in (0, 1].
    Share(f64),
}

impl FromStr for Limit {
    type Err = Error;

    fn from_str(text: &str) -> Result<Limit> {
        let words = c_text("size", text)?;
        let (mut bytes, mut share) = (0, 0.0);
        // SAFETY: the string ends with a zero, and the out-parameters are locals.
        check(unsafe { sys::gpupool_parse_size(words.as_ptr(), &mut bytes, &mut share) })?;
        Ok(if share > 0.0 { Limit::Share(share) } else { Limit::Bytes(bytes) })
    }
}

impl TryFrom<&str> for Limit {
    type Error = Error;

    fn try_from(text: &str) -> Result<Limit> {
        text.parse()
    }
}

impl From<u64> for Limit {
    fn from(bytes: u64) -> Limit {
        Limit::Bytes(bytes)
    }
}

/// A device by backend and number. As text it is "cuda", "cuda:1", "sim", "sim:3" or "auto"; a number alone leaves the
/// backend to [`Backend::Auto`]. It does not say whether there is such a device. Since 0.2.
///
/// ```
/// use gpupool::{Backend, Device};
///
/// let device: Device = "sim:3".parse()?;
/// assert_eq!((device.backend, device.number), (Backend::Sim, 3));
/// assert_eq!(device.to_string(), "sim:3");
/// # Ok::<(), gpupool::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Device {
    /// Where its memory comes from.
    pub backend: Backend,
    /// Its number, from 0.
    pub number: i32,
}

impl FromStr for Device {
    type Err = Error;

    fn from_str(text: &str) -> Result<Device> {
        let words = c_text("device", text)?;
        let (mut backend, mut number) = (sys::GPUPOOL_BACKEND_AUTO, 0);
        // SAFETY: the string ends with a zero, and the out-parameters are locals.
        check(unsafe { sys::gpupool_parse_device(words.as_ptr(), &mut backend, &mut number) })?;
        Ok(Device { backend: Backend::from_c(backend), number })
    }
}

impl TryFrom<&str> for Device {
    type Error = Error;

    fn try_from(text: &str) -> Result<Device> {
        text.parse()
    }
}

impl From<i32> for Device {
    fn from(number: i32) -> Device {
        Device { backend: Backend::Auto, number }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.backend, self.number)
    }
}

/// For conversions that cannot fail.
impl From<Infallible> for Error {
    fn from(never: Infallible) -> Error {
        match never {}
    }
}

/// Text for C. C would not see what comes after a zero.
pub(crate) fn c_text(what: &str, text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::invalid(format!("{what} is {text:?}, with a zero inside")))
}
