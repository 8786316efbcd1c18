// SPDX-License-Identifier: Apache-2.0
//! Debug modes and what they find: docs/debugging.md.

use std::os::raw::c_char;

use gpupool_sys as sys;

use crate::error::check;
use crate::words::c_text;
use crate::{Pool, Result};

/// What work of the device may do with a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Everything.
    #[default]
    Write,
    /// A write is a fault.
    Read,
    /// Every access is a fault.
    None,
}

/// Damage that debug modes have found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// The number of findings since the pool was created.
    pub count: u64,
    /// The latest ones, one per line.
    pub text: String,
}

/// Sets the debug modes of pools created from now on: a comma-separated list of `poison`, `canary`, `fence`,
/// `fence=SIZE`, `guard`, `annotate` and `quarantine=SIZE`; empty: none. Overrides `GPUPOOL_DEBUG` in the environment.
/// Since 0.2.
///
/// # Errors
/// `InvalidArgument`, with the word that was not understood.
pub fn set_debug(modes: &str) -> Result<()> {
    let words = c_text("modes", modes)?;
    // SAFETY: the string ends with a zero.
    check(unsafe { sys::gpupool_set_debug(words.as_ptr()) })
}

/// Says what is or was at an address, in any pool of this process: the block, who allocated it, who freed it, and its
/// neighbours. Since 0.2.
///
/// # Errors
/// `HostOutOfMemory`.
pub fn why(address: u64) -> Result<String> {
    let mut text: Vec<u8> = Vec::new();
    let mut length = 0;
    loop {
        // SAFETY: the text is as long as the call says.
        check(unsafe {
            sys::gpupool_why(address, text.as_mut_ptr().cast::<c_char>(), text.len(), &mut length)
        })?;
        if length < text.len() {
            break;
        }
        text.resize(length + 1, 0);
    }
    text.truncate(length);
    Ok(String::from_utf8_lossy(&text).into_owned())
}

impl Pool {
    /// Checks the bytes behind every live block of a pool in debug mode canary, and waits for the GPU to finish. Since
    /// 0.2.
    ///
    /// # Errors
    /// `Driver`, `HostOutOfMemory`.
    pub fn check(&self) -> Result<Damage> {
        let mut count = 0;
        let mut text = vec![0_u8; 16384];
        // SAFETY: the text is as long as the call says.
        check(unsafe {
            sys::gpupool_check(self.handle(), &mut count, text.as_mut_ptr().cast::<c_char>(), text.len())
        })?;
        let length = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        Ok(Damage { count, text: String::from_utf8_lossy(&text[..length]).into_owned() })
    }

    /// Sets what work may do with a block, until its free. Only for blocks that share no chunk. Since 0.2.
    ///
    /// # Errors
    /// `UnknownPointer`; `Unsupported` for a pool that is not of [`Mode::Vmm`](crate::Mode::Vmm), and a block that
    /// shares a chunk or is asleep; `Driver`, `HostOutOfMemory`.
    pub fn protect(&self, address: u64, access: Access) -> Result<()> {
        let access = match access {
            Access::Write => sys::GPUPOOL_ACCESS_WRITE,
            Access::Read => sys::GPUPOOL_ACCESS_READ,
            Access::None => sys::GPUPOOL_ACCESS_NONE,
        };
        // SAFETY: any address will do.
        check(unsafe { sys::gpupool_protect(self.handle(), address, access) })
    }
}
