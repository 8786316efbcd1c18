// SPDX-License-Identifier: Apache-2.0
//! Sleep and wake: a pool's memory goes back to the device, and later comes back to the same addresses.

use std::ffi::c_void;
use std::mem::size_of;
use std::num::NonZeroU64;
use std::os::raw::c_char;
use std::ptr;
use std::time::Duration;

use gpupool_sys as sys;

use crate::error::check;
use crate::words::c_text;
use crate::{Pool, Result};

/// What happens to the contents of blocks when a pool sleeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SleepMode {
    /// They are copied to page-locked host memory, and back.
    #[default]
    Save,
    /// They are lost, except in blocks that [`Pool::set_keep`] names.
    Drop,
}

/// How to fall asleep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SleepOptions {
    /// Whether contents are saved.
    pub mode: SleepMode,
    /// Changes nothing: every sleep waits for all work of the CUDA context.
    pub sync_context: bool,
    /// Mallocs wait until the pool is awake, instead of failing with [`Asleep`](crate::ErrorKind::Asleep).
    pub hold_mallocs: bool,
    /// [`Pool::sleep`] and [`sleep_tag`]: how many bytes to give back, while the pool stays awake; `None`: all, and it
    /// sleeps.
    pub target: Option<NonZeroU64>,
}

/// How to wake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WakeOptions {
    /// How long to wait for memory that others hold.
    pub timeout: Duration,
    /// The byte that fills dropped blocks.
    pub fill: Option<u8>,
    /// Keeps the page-locked memory for the next sleep.
    pub retain_backup: bool,
}

/// Whether a pool is awake, asleep or in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SleepState {
    /// It can be used.
    Awake,
    /// A thread is putting it to sleep.
    FallingAsleep,
    /// Its memory is away.
    Asleep,
    /// A thread is waking it.
    Waking,
}

/// The result of a sleep or a wake, for all its pools. All zero if there was nothing to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SleepResult {
    /// Pools that were put to sleep, or woken.
    pub pools: u32,
    /// Sleep: physical memory given back, including cached memory.
    pub released_bytes: u64,
    /// Bytes of live blocks that were copied.
    pub saved_bytes: u64,
    /// Bytes of live blocks that were not copied.
    pub dropped_bytes: u64,
    /// Sleep: the part of `released_bytes` that the device did not get back.
    pub retained_bytes: u64,
    /// Wake: physical memory that was created.
    pub created_bytes: u64,
    /// How long it took, by the device's clock.
    pub nanoseconds: u64,
}

impl SleepOptions {
    fn to_c(self) -> sys::gpupool_sleep_options_t {
        let mut options = no_options();
        options.mode = match self.mode {
            SleepMode::Save => 0,
            SleepMode::Drop => 1,
        };
        options.flags = u32::from(self.sync_context) | u32::from(self.hold_mallocs) << 1;
        options.target_bytes = self.target.map_or(0, NonZeroU64::get);
        options
    }
}

impl WakeOptions {
    fn to_c(self) -> sys::gpupool_sleep_options_t {
        let mut options = no_options();
        options.flags = u32::from(self.retain_backup) << 2 | u32::from(self.fill.is_some()) << 3;
        options.fill = u32::from(self.fill.unwrap_or(0));
        options.timeout_ns = u64::try_from(self.timeout.as_nanos()).unwrap_or(u64::MAX);
        options
    }
}

fn no_options() -> sys::gpupool_sleep_options_t {
    sys::gpupool_sleep_options_t {
        struct_size: size_of::<sys::gpupool_sleep_options_t>() as u32,
        ..Default::default()
    }
}

/// Makes a call that writes a result.
fn with_result(
    call: impl FnOnce(*mut sys::gpupool_sleep_result_t) -> sys::gpupool_status_t,
) -> Result<SleepResult> {
    let mut result = sys::gpupool_sleep_result_t {
        struct_size: size_of::<sys::gpupool_sleep_result_t>() as u32,
        ..Default::default()
    };
    check(call(&mut result))?;
    Ok(SleepResult {
        pools: result.pools,
        released_bytes: result.released_bytes,
        saved_bytes: result.saved_bytes,
        dropped_bytes: result.dropped_bytes,
        retained_bytes: result.retained_bytes,
        created_bytes: result.created_bytes,
        nanoseconds: result.nanoseconds,
    })
}

/// [`Pool::sleep`] for every pool of this process that has this name; `None`: any name. All of them, or none. A target
/// is for all of them together: pools of the lowest priority first, then the idlest. Since 0.2.
///
/// # Errors
/// As [`Pool::sleep`] of one of them.
///
/// # Safety
/// As for [`Pool::sleep`], for each of them.
pub unsafe fn sleep_tag(tag: Option<&str>, options: &SleepOptions) -> Result<SleepResult> {
    let text = tag.map(|tag| c_text("tag", tag)).transpose()?;
    let name = text.as_ref().map_or(ptr::null(), |text| text.as_ptr());
    // SAFETY: the caller says so, and the text outlives the call.
    with_result(|result| unsafe { sys::gpupool_sleep_tag(name, &options.to_c(), result) })
}

/// [`Pool::wake`] for every pool of this process that has this name; `None`: any name. All of them, or none. Since 0.2.
///
/// # Errors
/// As [`Pool::wake`] of one of them.
pub fn wake_tag(tag: Option<&str>, options: &WakeOptions) -> Result<SleepResult> {
    let text = tag.map(|tag| c_text("tag", tag)).transpose()?;
    let name = text.as_ref().map_or(ptr::null(), |text| text.as_ptr());
    // SAFETY: the text outlives the call.
    with_result(|result| unsafe { sys::gpupool_wake_tag(name, &options.to_c(), result) })
}

impl Pool {
    /// Gives all memory back to the device and keeps the blocks: their addresses stay reserved. Does nothing to a pool
    /// that already sleeps. A capturing stream is [`Unavailable`](crate::ErrorKind::Unavailable), a pool that is not in
    /// vmm mode [`Unsupported`](crate::ErrorKind::Unsupported); after a failure the pool is awake, and nothing has
    /// changed. Since 0.2.
    ///
    /// With a target, the pool stays awake. What it has cached goes, and then whole blocks: those without
    /// [`set_keep`](Pool::set_keep) first, if contents are dropped, and the idlest of them first. If there is less, all
    /// there is goes, and `released_bytes` says how much. After a failure of the driver, blocks that went before it
    /// stay asleep.
    ///
    /// # Errors
    /// `Unavailable` if a stream is capturing, a hook refuses, or a handler asks that this pool's own wake called;
    /// `HostOutOfMemory` if the host has no room for what is saved; `Unsupported`, `InvalidArgument`, `Driver`,
    /// `Forked`.
    ///
    /// # Safety
    /// Nothing may use the pool's memory until [`wake`](Pool::wake) has returned: queue no work that does, and read no
    /// slice of it on the host. With a target, that goes for the blocks that were there before the call: until it
    /// returns, for all; then for those whose state is asleep.
    pub unsafe fn sleep(&self, options: &SleepOptions) -> Result<SleepResult> {
        // SAFETY: the handle is good while self is there; the rest the caller says.
        with_result(|result| unsafe { sys::gpupool_sleep(self.handle(), &options.to_c(), result) })
    }

    /// Maps memory at the same addresses again, with the saved contents. Does nothing to a pool that is awake. After a
    /// failure the whole pool stays asleep, and can be woken later. Since 0.2.
    ///
    /// # Errors
    /// `OutOfMemory` or `OverLimit` if others hold the memory; `Unavailable` if a hook fails, or a handler asks that
    /// this pool's own wake called; `Driver`, `HostOutOfMemory`, `InvalidArgument`, `Forked`.
    pub fn wake(&self, options: &WakeOptions) -> Result<SleepResult> {
        // SAFETY: the handle is good while self is there.
        with_result(|result| unsafe { sys::gpupool_wake(self.handle(), &options.to_c(), result) })
    }

    /// Lets others that are short have the pool put to sleep, as [`sleep`](Pool::sleep) would, until the next
    /// [`wake`](Pool::wake), which is cheap if nobody was short: other pools of this process, and neighbours of the
    /// group. Since 0.2.
    ///
    /// # Errors
    /// `Unsupported`, `InvalidArgument`, `Forked`.
    ///
    /// # Safety
    /// Nothing may use the pool's memory until [`wake`](Pool::wake) has returned, as with [`sleep`](Pool::sleep).
    pub unsafe fn allow_sleep(&self, options: &SleepOptions) -> Result<()> {
        // SAFETY: the handle is good while self is there; the rest the caller says.
        check(unsafe { sys::gpupool_allow_sleep(self.handle(), &options.to_c()) })
    }

    /// Gives back the chunks that lie wholly inside one block; the pool stays awake, and mallocs, frees and graphs of
    /// other blocks go on. `released_bytes` is 0 if no chunk lies inside; `pools` stays 0. After a failure the block is
    /// awake, and nothing has changed. Since 0.2.
    ///
    /// # Errors
    /// `UnknownPointer`, and as [`sleep`](Pool::sleep).
    ///
    /// # Safety
    /// Nothing may use the block until [`wake_block`](Pool::wake_block) has returned: queue no work that does, and read
    /// no slice of it on the host.
    pub unsafe fn sleep_block(&self, address: u64, options: &SleepOptions) -> Result<SleepResult> {
        // SAFETY: any address will do; the rest the caller says.
        with_result(|result| unsafe {
            sys::gpupool_sleep_block(self.handle(), address, &options.to_c(), result)
        })
    }

    /// Brings back one block, which sleeps alone or with its pool. In a sleeping pool it comes ahead of
    /// [`wake`](Pool::wake), which brings the rest: a program can use the first of many gibibytes while a thread wakes
    /// the others. There, until then, mallocs stay refused, graphs must not run, and [`sleep`](Pool::sleep) is [`Unavailable`](crate::ErrorKind::Unavailable). The result's `pools`
    /// stays 0. After a failure the block and all others are as before. Since 0.2.
    ///
    /// # Errors
    /// `UnknownPointer`, and as [`wake`](Pool::wake).
    pub fn wake_block(&self, address: u64, options: &WakeOptions) -> Result<SleepResult> {
        // SAFETY: any address will do.
        with_result(|result| unsafe {
            sys::gpupool_wake_block(self.handle(), address, &options.to_c(), result)
        })
    }

    /// Whether the pool is awake, asleep or in between. Since 0.2.
    ///
    /// # Errors
    /// `Forked`; `InvalidArgument` once the pool was destroyed by force.
    pub fn sleep_state(&self) -> Result<SleepState> {
        let mut state = sys::GPUPOOL_SLEEP_STATE_AWAKE;
        // SAFETY: the handle is good while self is there.
        check(unsafe { sys::gpupool_sleep_state(self.handle(), &mut state) })?;
        Ok(match state {
            sys::GPUPOOL_SLEEP_STATE_FALLING_ASLEEP => SleepState::FallingAsleep,
            sys::GPUPOOL_SLEEP_STATE_ASLEEP => SleepState::Asleep,
            sys::GPUPOOL_SLEEP_STATE_WAKING => SleepState::Waking,
            _ => SleepState::Awake,
        })
    }

    /// Names the pool, for [`sleep_tag`] and for messages: at most 63 bytes. Since 0.2.
    ///
    /// # Errors
    /// `InvalidArgument` for more than 63 bytes.
    pub fn set_name(&self, name: &str) -> Result<()> {
        let text = c_text("name", name)?;
        // SAFETY: the handle is good while self is there, and the text outlives the call.
        check(unsafe { sys::gpupool_set_name(self.handle(), text.as_ptr()) })
    }

    /// The name from [`set_name`](Pool::set_name). Since 0.2.
    ///
    /// # Errors
    /// `Forked`; `InvalidArgument` once the pool was destroyed by force.
    pub fn name(&self) -> Result<String> {
        let mut text = [0_u8; 64];
        let mut length = 0;
        // SAFETY: the text is as long as the call says.
        check(unsafe {
            sys::gpupool_name(self.handle(), text.as_mut_ptr().cast::<c_char>(), text.len(), &mut length)
        })?;
        Ok(String::from_utf8_lossy(&text[..length]).into_owned())
    }

    /// Sets whether even a sleep that drops saves a block. Since 0.2.
    ///
    /// # Errors
    /// `UnknownPointer`, `Forked`.
    pub fn set_keep(&self, address: u64, keep: bool) -> Result<()> {
        // SAFETY: any address will do.
        check(unsafe { sys::gpupool_set_keep(self.handle(), address, i32::from(keep)) })
    }

    /// Asks the other processes of the pool's group to give back cached memory until there is room for this many more
    /// bytes, ahead of need. Since 0.2.
    ///
    /// # Errors
    /// `OverLimit` if less came, or the pool's own limit has no room; `Unavailable` if the pool shares with nobody;
    /// `InvalidArgument`, `Forked`.
    pub fn share_request(&self, bytes: u64, timeout: Duration) -> Result<()> {
        let nanoseconds = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        // SAFETY: the handle is good while self is there.
        check(unsafe { sys::gpupool_share_request(self.handle(), bytes, nanoseconds) })
    }

    /// Obtains page-locked host memory ahead of the first sleep, and keeps it; 0 gives it back. Since 0.2.
    ///
    /// # Errors
    /// `HostOutOfMemory`, `Unsupported`, `Driver`, `Forked`.
    pub fn prepare_backup(&self, bytes: u64) -> Result<()> {
        // SAFETY: the handle is good while self is there.
        check(unsafe { sys::gpupool_prepare_backup(self.handle(), bytes) })
    }

    /// Fills the slice with what was saved of a sleeping block, from `address` on, which may be anywhere inside it.
    /// Fails if the block is freed or woken before it is done. Since 0.2.
    ///
    /// # Errors
    /// `UnknownPointer` if it is not in a live block; `Unavailable` if some of it is not asleep, or was dropped;
    /// `InvalidArgument` if the block ends earlier.
    pub fn read_backup(&self, address: u64, to: &mut [u8]) -> Result<()> {
        // SAFETY: the slice is this call's, and its end is given.
        check(unsafe {
            sys::gpupool_read_backup(self.handle(), address, to.as_mut_ptr().cast(), to.len() as u64)
        })
    }

    /// The location of the saved bytes of a sleeping pool's block from `address` on, which may be anywhere inside it,
    /// and the number of bytes up to the end of the piece: the contents lie in several. Valid until the block is freed
    /// or the pool woken. Since 0.2.
    ///
    /// # Errors
    /// `UnknownPointer` if it is not in a live block; `Unavailable` if it is not asleep, or was dropped.
    pub fn backup(&self, address: u64) -> Result<(*const u8, u64)> {
        let mut data: *const c_void = ptr::null();
        let mut bytes = 0;
        // SAFETY: any address will do, and the out-parameters are locals.
        check(unsafe { sys::gpupool_backup(self.handle(), address, &mut data, &mut bytes) })?;
        Ok((data.cast(), bytes))
    }
}
