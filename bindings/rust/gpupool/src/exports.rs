// SPDX-License-Identifier: Apache-2.0
//! Blocks between processes.

use std::os::raw::c_char;

use gpupool_sys as sys;

use crate::error::check;
use crate::words::c_text;
use crate::{Pool, Result};

impl Pool {
    /// Lets other processes of the same user map a block. The result is a handle, a line of text that may reach them in
    /// any way, whatever their language. It is good until the block is freed, or this process ends; processes that have
    /// imported the block by then keep its memory. While a block is exported, the pool cannot sleep. Only on Linux.
    /// Since 0.2.
    ///
    /// # Errors
    /// `UnknownPointer` if it is not the address of a live block; `Unsupported` if the pool or the device cannot share;
    /// `Asleep`, `Unavailable`, `Driver`, `HostOutOfMemory`, `Forked`.
    pub fn export_block(&self, address: u64) -> Result<String> {
        let mut text = [0_u8; sys::GPUPOOL_EXPORT_BYTES as usize];
        // SAFETY: the text is as long as the call says.
        check(unsafe {
            sys::gpupool_export(self.handle(), address, text.as_mut_ptr().cast::<c_char>(), text.len())
        })?;
        let length = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        Ok(String::from_utf8_lossy(&text[..length]).into_owned())
    }

    /// Maps a block that another process has exported, for this pool's device. Since 0.2.
    ///
    /// # Errors
    /// `InvalidArgument` for what is no handle, or one of another device; `Unavailable` if the other process has freed
    /// the block or the system forbids it; `Unsupported`, `Driver`, `HostOutOfMemory`, `Forked`.
    pub fn import_block(&self, handle: &str) -> Result<Import> {
        let text = c_text("handle", handle)?;
        let (mut address, mut bytes) = (0, 0);
        // SAFETY: the text ends with a zero, and the out-parameters are locals.
        check(unsafe { sys::gpupool_import(self.handle(), text.as_ptr(), &mut address, &mut bytes) })?;
        Ok(Import { pool: self.clone(), address, bytes })
    }
}

/// A block of another process, which both may read and write. It is no block of the pool. Dropping it waits for all work
/// of the device's context, and unmaps the memory unless it was imported more than once. Since 0.2.
#[derive(Debug)]
pub struct Import {
    pool: Pool,
    address: u64,
    bytes: u64,
}

impl Import {
    /// Address on the device, in this process.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// The size that the other process allocated, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Import {
    fn drop(&mut self) {
        // What cannot end now ends with the pool.
        // SAFETY: the handle is good while self is there.
        let _ = unsafe { sys::gpupool_import_close(self.pool.handle(), self.address) };
    }
}
