// SPDX-License-Identifier: Apache-2.0
//! Observing a pool.

use std::ffi::c_char;
use std::mem::size_of;
use std::ptr;

use gpupool_sys as sys;

use crate::error::check;
use crate::{device_info, BlockInfo, DeviceInfo, Pool, Result, Segment, Snapshot, Stats};

impl Pool {
    /// What the pool holds and has done so far.
    ///
    /// # Errors
    /// `Forked`; `InvalidArgument` once the pool was destroyed by force.
    pub fn stats(&self) -> Result<Stats> {
        raw_stats(self.handle()).map(Stats::from)
    }

    /// The pool's device, as it is now.
    ///
    /// # Errors
    /// `Driver`, `Forked`.
    pub fn device_info(&self) -> Result<DeviceInfo> {
        device_info(self.backend(), self.stats()?.device)
    }

    /// Sets every peak to the current value.
    ///
    /// # Errors
    /// `Forked`; `InvalidArgument` once the pool was destroyed by force.
    pub fn reset_peaks(&self) -> Result<()> {
        // SAFETY: the handle is good while self is there.
        check(unsafe { sys::gpupool_reset_peaks(self.handle()) })
    }

    /// Describes the block that contains `address`, which may be anywhere inside it.
    ///
    /// # Errors
    /// `UnknownPointer` if it is not inside a live block; `Forked`.
    pub fn block_info(&self, address: u64) -> Result<BlockInfo> {
        let mut block = sys::gpupool_block_t::default();
        // SAFETY: the struct is as long as the call says.
        check(unsafe {
            sys::gpupool_block_info(self.handle(), address, &mut block, size_of::<sys::gpupool_block_t>())
        })?;
        Ok(block.into())
    }

    /// Lists all mapped memory and its contents at one moment, sorted by address.
    ///
    /// # Errors
    /// `HostOutOfMemory`, `Forked`.
    pub fn snapshot(&self) -> Result<Snapshot> {
        let (mut segments, mut blocks) = (Vec::new(), Vec::new());
        let (mut segment_count, mut block_count) = (0, 0);
        // Between counting and filling, other threads may add to the lists.
        loop {
            segments.resize(segment_count, sys::gpupool_segment_t::default());
            blocks.resize(block_count, sys::gpupool_block_t::default());
            // SAFETY: the lists are as long, and the elements as large, as the call says.
            check(unsafe {
                sys::gpupool_snapshot(
                    self.handle(),
                    segments.as_mut_ptr(),
                    size_of::<sys::gpupool_segment_t>(),
                    segments.len(),
                    &mut segment_count,
                    blocks.as_mut_ptr(),
                    size_of::<sys::gpupool_block_t>(),
                    blocks.len(),
                    &mut block_count,
                )
            })?;
            if segment_count <= segments.len() && block_count <= blocks.len() {
                break;
            }
        }
        segments.truncate(segment_count);
        blocks.truncate(block_count);
        Ok(Snapshot {
            segments: segments.into_iter().map(Segment::from).collect(),
            blocks: blocks.into_iter().map(BlockInfo::from).collect(),
        })
    }

    /// Explains where the pool's memory is: limit, live, cached, largest free range, waiting for streams, held by
    /// others.
    ///
    /// # Errors
    /// `HostOutOfMemory`, `Forked`.
    pub fn report(&self) -> Result<String> {
        let mut text: Vec<u8> = Vec::new();
        let mut length = 0;
        loop {
            // SAFETY: the text is as long as the call says.
            check(unsafe {
                sys::gpupool_report(
                    self.handle(),
                    text.as_mut_ptr().cast::<c_char>(),
                    text.len(),
                    &mut length,
                )
            })?;
            if length < text.len() {
                break;
            }
            text.resize(length + 1, 0);
        }
        text.truncate(length);
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Checks every invariant of the pool's records. Slow; for tests. A violation is
    /// [`Internal`](crate::ErrorKind::Internal).
    ///
    /// # Errors
    /// `Internal`, with what is wrong; `Forked`.
    pub fn validate(&self) -> Result<()> {
        // SAFETY: the handle is good while self is there.
        check(unsafe { sys::gpupool_validate(self.handle()) })
    }
}

/// Whether it is certain that no block is live.
pub(crate) fn has_no_blocks(pool: *mut sys::gpupool_t) -> bool {
    raw_stats(pool).is_ok_and(|stats| stats.all.allocated_blocks.current == 0)
}

fn raw_stats(pool: *mut sys::gpupool_t) -> Result<sys::gpupool_stats_t> {
    let mut stats =
        sys::gpupool_stats_t { struct_size: size_of::<sys::gpupool_stats_t>() as u32, ..Default::default() };
    // SAFETY: handles stay readable for ever, and the struct says how long it is.
    check(unsafe { sys::gpupool_stats(pool, ptr::from_mut(&mut stats)) })?;
    Ok(stats)
}
