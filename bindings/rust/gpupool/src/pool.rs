// SPDX-License-Identifier: Apache-2.0
//! The pool: its lifetime, and keeping or giving back memory. observe.rs has the functions that observe it, raw.rs
//! those that take plain numbers.

use std::fmt;
use std::ptr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use gpupool_sys as sys;

use crate::callbacks::{HookSlot, OomSlot, Upstream};
use crate::error::check;
use crate::{library, observe, Backend, Builder, Device, Error, Limit, Result, StreamId};

/// A pool of a device's memory. Clones are the same pool; it ends when the last of its clones, streams and blocks has
/// gone.
#[derive(Clone)]
pub struct Pool {
    inner: Arc<Inner>,
}

struct Inner {
    handle: *mut sys::gpupool_t,
    backend: Backend,
    oom: OnceLock<&'static OomSlot>,
    hooks: OnceLock<&'static HookSlot>,
    upstream: Option<Box<Upstream>>,
}

// SAFETY: every function of the library may be called from any thread. The one exception, destroying a pool
// while another thread is inside a call on it, cannot happen: a call needs a share of `Inner`.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// The pools that [`Pool::default_for`] has returned. They belong to the process and never end.
static DEFAULTS: Mutex<Vec<Pool>> = Mutex::new(Vec::new());

impl Pool {
    /// Creates a pool of device 0 with default settings: a GPU if there is one, else the simulated device. Takes no
    /// memory from the device yet.
    ///
    /// # Errors
    /// As [`build`](crate::Builder::build).
    pub fn new() -> Result<Pool> {
        Pool::builder().build()
    }

    /// Starts a builder, for settings that differ from the defaults.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The one pool of a device that everything in this process shares, whatever its language. Created on first
    /// use; the environment's `GPUPOOL_FRACTION` and `GPUPOOL_LIMIT` set its limits.
    ///
    /// # Errors
    /// As [`build`](crate::Builder::build).
    pub fn default_for(device: i32) -> Result<Pool> {
        library::check_version()?;
        let mut handle = ptr::null_mut();
        // SAFETY: the out-parameter is a local.
        check(unsafe { sys::gpupool_default_pool(device, &mut handle) })?;
        let mut known = DEFAULTS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = known.iter().find(|pool| pool.handle() == handle) {
            return Ok(pool.clone());
        }
        let pool = Pool::adopt(handle, Backend::Auto, None);
        known.push(pool.clone());
        Ok(pool)
    }

    /// A pool that shares this one's limit, for memory that must stay where it is, such as a CUDA graph's: memory that
    /// it has mapped stays mapped and serves only the child, even while free, until its own [`empty`](Pool::empty) or
    /// [`trim`](Pool::trim), or its end. It inherits this pool's device, mode, kind, slack, chunks and peers, and may
    /// outlive it. A child has no children; memory of an upstream is [`Unsupported`](crate::ErrorKind::Unsupported).
    /// Since 0.2.
    ///
    /// # Errors
    /// `InvalidArgument` of a child; `Unsupported` with an upstream; `Forked`, `ShuttingDown`, `HostOutOfMemory`.
    pub fn create_child(&self) -> Result<Pool> {
        let mut handle = ptr::null_mut();
        // SAFETY: the handle is good while self is there, and the out-parameter is a local.
        check(unsafe { sys::gpupool_create_child(self.handle(), &mut handle) })?;
        Ok(Pool::adopt(handle, self.backend(), None))
    }

    /// Takes over a handle that nothing else destroys.
    pub(crate) fn adopt(
        handle: *mut sys::gpupool_t,
        backend: Backend,
        upstream: Option<Box<Upstream>>,
    ) -> Pool {
        Pool {
            inner: Arc::new(Inner {
                handle,
                backend,
                oom: OnceLock::new(),
                hooks: OnceLock::new(),
                upstream,
            }),
        }
    }

    /// The handle for C functions. This object still owns it.
    #[inline]
    pub fn handle(&self) -> *mut sys::gpupool_t {
        self.inner.handle
    }

    /// The backend that was requested; [`device_info`](Pool::device_info) says which one it became.
    pub(crate) fn backend(&self) -> Backend {
        self.inner.backend
    }

    /// Waits until every stream that the pool has seen has passed the work queued on it so far, and makes the freed
    /// blocks that waited for them available.
    ///
    /// # Errors
    /// `Driver`, `Forked`.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the handle is good while self is there.
        check(unsafe { sys::gpupool_synchronize(self.handle()) })
    }

    /// Gives every cached chunk back to the driver: reserved falls to the chunks that live blocks touch. Waits
    /// for streams that may still use freed memory. Returns the bytes that were released.
    ///
    /// # Errors
    /// `Driver`, `Forked`.
    pub fn empty(&self) -> Result<u64> {
        let mut released = 0;
        // SAFETY: the handle is good while self is there.
        check(unsafe { sys::gpupool_empty(self.handle(), &mut released) })?;
        Ok(released)
    }

    /// Gives cached chunks back, oldest first, until at most `target_bytes` are reserved or no more can be given back.
    /// Waits as [`empty`](Pool::empty) does. Returns the bytes that were released.
    ///
    /// # Errors
    /// `Driver`, `Forked`.
    pub fn trim(&self, target_bytes: u64) -> Result<u64> {
        let mut released = 0;
        // SAFETY: the handle is good while self is there.
        check(unsafe { sys::gpupool_trim(self.handle(), target_bytes, &mut released) })?;
        Ok(released)
    }

    /// Limits reserved memory to a fraction of the device's total, in (0, 1]. Replaces the pool's limit. Cached
    /// memory above it is given back; if live blocks hold more, it is
    /// [`OverLimit`](crate::ErrorKind::OverLimit) and nothing changes.
    ///
    /// # Errors
    /// `InvalidArgument` if it is not in (0, 1]; `OverLimit` if live blocks hold more.
    pub fn set_fraction(&self, fraction: f64) -> Result<()> {
        // SAFETY: the handle is good while self is there.
        check(unsafe { sys::gpupool_set_fraction(self.handle(), fraction) })
    }

    /// The same in bytes; 0 removes the limit.
    ///
    /// # Errors
    /// `OverLimit` if live blocks hold more.
    pub fn set_limit(&self, limit_bytes: u64) -> Result<()> {
        // SAFETY: the handle is good while self is there.
        check(unsafe { sys::gpupool_set_limit(self.handle(), limit_bytes) })
    }

    /// The same in bytes, as a share, or as a string: "8GiB", "40%". Since 0.2.
    ///
    /// # Errors
    /// `InvalidArgument` for words that are no limit; `OverLimit` if live blocks hold more.
    pub fn set_limit_to<L>(&self, limit: L) -> Result<()>
    where
        L: TryInto<Limit>,
        L::Error: Into<Error>,
    {
        match limit.try_into().map_err(Into::into)? {
            Limit::Bytes(bytes) => self.set_limit(bytes),
            Limit::Share(share) => self.set_fraction(share),
        }
    }

    /// Says that a capture is about to begin on some stream, or (`false`) that one has ended or failed. In between no
    /// free touches its stream, so that values may be dropped on any thread while a capture begins; memory that is
    /// freed serves other streams only after waits. Calls count, and hold for the pool's parent and all children.
    /// Since 0.2.
    ///
    /// # Errors
    /// `InvalidArgument` for an end without a beginning; `Forked`, `HostOutOfMemory`.
    pub fn announce_capture(&self, begins: bool) -> Result<()> {
        // SAFETY: the handle is good while self is there.
        check(unsafe { sys::gpupool_announce_capture(self.handle(), i32::from(begins)) })
    }

    /// Lets device number `peer` access all memory of this pool, now and later. Only the pool's end revokes it. Naming
    /// the pool's own device, or one that already has access, is not an error. Two devices that cannot access each
    /// other, and memory of an upstream, are [`Unsupported`](crate::ErrorKind::Unsupported).
    /// Since 0.2.
    ///
    /// # Errors
    /// `InvalidArgument` for no such device; `Unsupported` if the two cannot access each other, or the memory comes
    /// from an upstream; `Driver`, `Forked`.
    pub fn enable_peer(&self, peer: i32) -> Result<()> {
        // SAFETY: the handle is good while self is there.
        check(unsafe { sys::gpupool_enable_peer(self.handle(), peer) })
    }

    /// Calls `handler` before a malloc of this pool fails, on that malloc's thread, with the requested bytes and the
    /// attempt, from 1. It frees something and returns true to retry the malloc, or returns false to let it fail. It
    /// may call anything. A panic in it counts as false. It replaces an earlier handler, which may still be running on
    /// another thread.
    ///
    /// A handler that owns a clone of this pool keeps the pool for ever, unless it is
    /// [cleared](Pool::clear_oom_handler).
    ///
    /// # Errors
    /// `Forked`; `InvalidArgument` once the pool was destroyed by force.
    pub fn set_oom_handler<F>(&self, handler: F) -> Result<()>
    where
        F: Fn(u64, u32) -> bool + Send + Sync + 'static,
    {
        // The library may call on another thread even after the handler was replaced, so its `user` must stay: one slot
        // per pool, for ever. The handler in it is dropped in time.
        let slot = *self.inner.oom.get_or_init(|| Box::leak(Box::default()));
        // SAFETY: the slot is 'static and what the function expects.
        check(unsafe { sys::gpupool_set_oom_handler(self.handle(), Some(OomSlot::ask), slot.as_user()) })?;
        slot.set(Some(Arc::new(handler)));
        Ok(())
    }

    /// From now on, mallocs fail without calling a handler.
    ///
    /// # Errors
    /// `Forked`; `InvalidArgument` once the pool was destroyed by force.
    pub fn clear_oom_handler(&self) -> Result<()> {
        // SAFETY: no handler needs no user.
        check(unsafe { sys::gpupool_set_oom_handler(self.handle(), None, ptr::null_mut()) })?;
        if let Some(slot) = self.inner.oom.get() {
            slot.set(None);
        }
        Ok(())
    }

    /// Sets what is called before the pool's memory goes, and when it is there again, on the thread of the sleep or the
    /// wake: with the address of the block that sleeps or wakes alone, or 0 for the whole pool. If `before_release`
    /// returns false, the sleep is [`Unavailable`](crate::ErrorKind::Unavailable), and nothing has changed. If
    /// `after_map` does, the wake is, and the next wake calls it again. A panic counts as false. Hooks that own a clone
    /// of this pool keep the pool for ever, unless they are [cleared](Pool::clear_sleep_hooks). Since 0.2.
    ///
    /// # Errors
    /// `Forked`; `InvalidArgument` once the pool was destroyed by force.
    pub fn set_sleep_hooks<B, A>(&self, before_release: B, after_map: A) -> Result<()>
    where
        B: Fn(u64) -> bool + Send + Sync + 'static,
        A: Fn(u64) -> bool + Send + Sync + 'static,
    {
        // As in set_oom_handler.
        let slot = *self.inner.hooks.get_or_init(|| Box::leak(Box::default()));
        let (before, after) = (HookSlot::before_release, HookSlot::after_map);
        // SAFETY: the slot is 'static and what the functions expect.
        check(unsafe {
            sys::gpupool_set_sleep_hooks(self.handle(), Some(before), Some(after), slot.as_user())
        })?;
        slot.set(Some((Arc::new(before_release), Arc::new(after_map))));
        Ok(())
    }

    /// From now on, sleep and wake call no hooks.
    ///
    /// # Errors
    /// `Forked`; `InvalidArgument` once the pool was destroyed by force.
    pub fn clear_sleep_hooks(&self) -> Result<()> {
        // SAFETY: no hooks need no user.
        check(unsafe { sys::gpupool_set_sleep_hooks(self.handle(), None, None, ptr::null_mut()) })?;
        if let Some(slot) = self.inner.hooks.get() {
            slot.set(None);
        }
        Ok(())
    }

    /// For your own streams: call it before the stream is destroyed. The pool records what it needs from the stream and
    /// never touches it again. Its live blocks stay valid. A [`Stream`](crate::Stream) does this by itself when
    /// dropped. A stream that the pool has not seen is not an error. Never waits for the GPU.
    ///
    /// # Errors
    /// `InvalidArgument` for [`StreamId::UNKNOWN`] and a stream that is capturing; `Driver`, `Forked`.
    pub fn release_stream(&self, stream: StreamId) -> Result<()> {
        // SAFETY: the pool touches only streams that it has seen, so any number will do.
        check(unsafe { sys::gpupool_release_stream(self.handle(), stream.number()) })
    }

    /// For streams that may be destroyed without notice: call it after each free on them. The pool does not touch the
    /// stream until a call names it again, such as a malloc; the stream keeps its memory. A stream that the pool has
    /// not seen is not an error. Never waits for the GPU.
    ///
    /// # Errors
    /// `InvalidArgument` for [`StreamId::UNKNOWN`] and a stream that is capturing; `Driver`, `Forked`.
    pub fn park_stream(&self, stream: StreamId) -> Result<()> {
        // SAFETY: as release_stream.
        check(unsafe { sys::gpupool_park_stream(self.handle(), stream.number()) })
    }

    /// Destroys the pool now, whoever else has a handle to it. With live blocks, it goes away with the last of them;
    /// from now on everything but frees is refused. May wait for the GPU. A default pool is refused.
    ///
    /// # Errors
    /// `InvalidArgument` of a default pool, and the second time.
    ///
    /// # Safety
    /// No other thread may be inside a call on this pool or on anything that belongs to it, drops included.
    pub unsafe fn destroy(&self) -> Result<()> {
        // SAFETY: the caller says so.
        check(unsafe { sys::gpupool_destroy(self.handle()) })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let is_empty = observe::has_no_blocks(self.handle);
        // SAFETY: this is the last share, so nobody is inside a call. Refused if it was destroyed before.
        let _ = unsafe { sys::gpupool_destroy(self.handle) };
        if !is_empty {
            // Blocks of raw mallocs that are still live go back to the upstream when they are freed.
            std::mem::forget(self.upstream.take());
        }
        if let Some(slot) = self.oom.get() {
            slot.set(None);
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = f.debug_struct("Pool");
        match (self.stats(), self.device_info()) {
            (Ok(stats), Ok(info)) => words
                .field("device", &format_args!("{}", Device { backend: info.backend, number: info.device }))
                .field("reserved_bytes", &stats.all.reserved_bytes.current)
                .field("limit_bytes", &stats.limit_bytes)
                .field("live_blocks", &stats.all.allocated_blocks.current),
            (Err(failure), _) | (_, Err(failure)) => words.field("failure", &failure),
        };
        words.finish()
    }
}
