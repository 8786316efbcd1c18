// SPDX-License-Identifier: Apache-2.0
//! Tags, samples and recordings.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::mem::size_of;
use std::os::raw::c_char;
use std::time::Duration;

use gpupool_sys as sys;

use crate::error::check;
use crate::words::c_text;
use crate::{Pool, Result};

/// Who holds live bytes of a pool: one call site under one tag. Since 0.2.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Holder {
    /// Estimated from the samples.
    pub live_bytes: u64,
    /// Live blocks of this holder that are samples.
    pub samples: u64,
    /// How long the oldest of them has been live.
    pub oldest: Duration,
    /// How long the newest of them has been live.
    pub newest: Duration,
    /// Empty: none.
    pub tag: String,
    /// A line for each frame, the innermost first. Empty: unknown.
    pub stack: String,
}

impl Pool {
    /// Lists who holds the pool's live bytes, largest first, estimated from samples: see `gpupool_holders` in
    /// gpupool.h. Since 0.2.
    ///
    /// # Errors
    /// `HostOutOfMemory`, `Forked`.
    pub fn holders(&self) -> Result<Vec<Holder>> {
        let mut holders = Vec::new();
        let mut count = 0;
        // Between counting and filling, other threads may add to the list.
        loop {
            holders.resize(count, sys::gpupool_holder_t::default());
            // SAFETY: the list is as long, and the elements as large, as the call says.
            check(unsafe {
                sys::gpupool_holders(
                    self.handle(),
                    holders.as_mut_ptr(),
                    size_of::<sys::gpupool_holder_t>(),
                    holders.len(),
                    &mut count,
                )
            })?;
            if count <= holders.len() {
                break;
            }
        }
        holders.truncate(count);
        Ok(holders.iter().map(Holder::from).collect())
    }
}

impl From<&sys::gpupool_holder_t> for Holder {
    fn from(holder: &sys::gpupool_holder_t) -> Holder {
        Holder {
            live_bytes: holder.live_bytes,
            samples: holder.samples,
            oldest: Duration::from_nanos(holder.oldest_nanoseconds),
            newest: Duration::from_nanos(holder.newest_nanoseconds),
            tag: text_of(&holder.tag),
            stack: text_of(&holder.stack),
        }
    }
}

fn text_of(chars: &[c_char]) -> String {
    // SAFETY: the library ends its texts with a zero.
    unsafe { CStr::from_ptr(chars.as_ptr()) }.to_string_lossy().into_owned()
}

/// While it lives, reports and recordings show its name for its thread's allocations. Tags nest; the innermost counts.
/// A panic ends it too. It is the thread's, so hold none across an `await`: what runs there meanwhile would have it.
/// Since 0.2.
///
/// ```
/// # fn main() -> gpupool::Result<()> {
/// let pool = gpupool::Pool::new()?;
/// let tag = gpupool::Tag::new("kv cache")?;
/// let block = pool.create_stream()?.block(64 << 20)?;
/// drop(tag);
/// assert_eq!(pool.holders()?[0].tag, "kv cache");
/// # drop(block);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a tag ends when it is dropped"]
pub struct Tag {
    /// It belongs to its thread.
    not_send: PhantomData<*const ()>,
}

impl Tag {
    /// Begins a tag of 1 to 63 bytes.
    ///
    /// # Errors
    /// `InvalidArgument` for a name that is empty or too long, and more than 64 tags; `HostOutOfMemory`.
    pub fn new(name: &str) -> Result<Tag> {
        let words = c_text("name", name)?;
        // SAFETY: the string ends with a zero.
        check(unsafe { sys::gpupool_tag_push(words.as_ptr()) })?;
        Ok(Tag { not_send: PhantomData })
    }
}

impl Drop for Tag {
    fn drop(&mut self) {
        // SAFETY: a function without arguments. What this thread pushed is there to be popped.
        let _ = unsafe { sys::gpupool_tag_pop() };
    }
}

/// Sets how densely allocations of all pools are sampled: the minimum mean distance of samples in bytes; 0: no more
/// samples. Since 0.2.
///
/// # Errors
/// `InvalidArgument` above 2^46; `HostOutOfMemory`.
pub fn set_sampling(bytes: u64) -> Result<()> {
    // SAFETY: a number.
    check(unsafe { sys::gpupool_set_sampling(bytes) })
}

/// Records every allocation and free of all pools of this process to a new file, which the gpupool command reads; `%p`
/// in the path becomes the process's number, and `FILE,last=512MiB` or `FILE,last=10min` keeps the newest events, in
/// `FILE` and `FILE.old`. With `stacks`, it records native stacks as well. Since 0.2.
///
/// # Errors
/// `InvalidArgument` if the file cannot be made, or a recording is under way; `HostOutOfMemory`.
pub fn record_start(path: &str, stacks: bool) -> Result<()> {
    let words = c_text("path", path)?;
    let flags = if stacks { sys::GPUPOOL_RECORD_NATIVE_STACKS.0 } else { 0 };
    // SAFETY: the string ends with a zero.
    check(unsafe { sys::gpupool_record_start(words.as_ptr(), flags) })
}

/// Ends the recording. Since 0.2.
///
/// # Errors
/// `InvalidArgument` if there is none.
pub fn record_stop() -> Result<()> {
    // SAFETY: a function without arguments.
    check(unsafe { sys::gpupool_record_stop() })
}

/// Marks a moment in the recording, such as "step 12". Without a recording it does nothing. Since 0.2.
///
/// # Errors
/// `InvalidArgument` for a text with a zero inside, or too long.
pub fn mark(text: &str) -> Result<()> {
    let words = c_text("text", text)?;
    // SAFETY: the string ends with a zero.
    check(unsafe { sys::gpupool_mark(words.as_ptr()) })
}
