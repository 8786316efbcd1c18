// SPDX-License-Identifier: Apache-2.0
//! The pool with plain numbers, for allocator plug-ins: addresses and streams that the caller vouches for.

use gpupool_sys as sys;

use crate::error::check;
use crate::{Pool, Result, StreamId};

impl Pool {
    /// Allocates `bytes` for work on `stream`, aligned to 512. As [`Stream::malloc`](crate::Stream::malloc), for a
    /// stream known only by its number.
    ///
    /// # Errors
    /// `OutOfMemory` or `OverLimit`, with where the memory is; `Asleep`, `InvalidArgument`, `Driver`,
    /// `HostOutOfMemory`, `ShuttingDown`, `Forked`.
    ///
    /// # Safety
    /// `stream` is a stream of the pool's device, and stays until it is [released](Pool::release_stream).
    #[inline]
    pub unsafe fn malloc(&self, bytes: u64, stream: StreamId) -> Result<u64> {
        let mut address = 0;
        // SAFETY: the caller says so.
        check(unsafe { sys::gpupool_malloc(self.handle(), bytes, stream.number(), &mut address) })?;
        Ok(address)
    }

    /// The same, aligned to `alignment`: a power of two of up to 2 MiB.
    ///
    /// # Errors
    /// `OutOfMemory` or `OverLimit`, with where the memory is; `Asleep`, `InvalidArgument` for such an alignment,
    /// `Driver`, `HostOutOfMemory`, `ShuttingDown`, `Forked`.
    ///
    /// # Safety
    /// As [`malloc`](Pool::malloc).
    #[inline]
    pub unsafe fn malloc_aligned(&self, bytes: u64, alignment: u64, stream: StreamId) -> Result<u64> {
        let mut address = 0;
        // SAFETY: the caller says so.
        check(unsafe {
            sys::gpupool_malloc_aligned(self.handle(), bytes, alignment, stream.number(), &mut address)
        })?;
        Ok(address)
    }

    /// Frees a block by its address. Work queued on `stream` so far may still use it: the memory is reused in stream
    /// order. A stream other than the block's counts as [`record_stream`](Pool::record_stream); [`StreamId::UNKNOWN`]
    /// holds the memory back until all streams that the pool has seen have passed. Address 0 does nothing. Anything but
    /// a live block of this pool is [`UnknownPointer`](crate::ErrorKind::UnknownPointer). Never waits for the GPU.
    ///
    /// # Errors
    /// `UnknownPointer`, `InvalidArgument`, `Forked`.
    ///
    /// # Safety
    /// From now on, only work already queued on `stream` uses the block. `stream` as for [`malloc`](Pool::malloc).
    #[inline]
    pub unsafe fn free(&self, address: u64, stream: StreamId) -> Result<()> {
        // SAFETY: the caller says so.
        check(unsafe { sys::gpupool_free(self.handle(), address, stream.number()) })
    }

    /// Tells the pool that `stream` uses the block too: once freed, the block is reused only when `stream` has passed
    /// the work queued on it at the time of the free.
    ///
    /// # Errors
    /// `UnknownPointer`; `InvalidArgument` for [`StreamId::UNKNOWN`]; `Forked`.
    ///
    /// # Safety
    /// `stream` as for [`malloc`](Pool::malloc).
    pub unsafe fn record_stream(&self, address: u64, stream: StreamId) -> Result<()> {
        // SAFETY: the caller says so.
        check(unsafe { sys::gpupool_record_stream(self.handle(), address, stream.number()) })
    }

    /// Tells the pool that the graph from a capture, numbered by [`Stream::capture_id`](crate::Stream::capture_id),
    /// will not run again, so the pool can reuse its memory. Never waits for the GPU. A capture that the pool has not
    /// seen is not an error; one in progress is [`InvalidArgument`](crate::ErrorKind::InvalidArgument). Since 0.2.
    ///
    /// # Errors
    /// `InvalidArgument` for 0 and a capture that is under way; `Driver`, `Forked`.
    ///
    /// # Safety
    /// The graph and all its copies are destroyed, and all their launches are done.
    pub unsafe fn release_capture(&self, capture: u64) -> Result<()> {
        // SAFETY: the caller says so.
        check(unsafe { sys::gpupool_release_capture(self.handle(), capture) })
    }

    /// Queues a copy of `bytes` on `stream`. Either address may be on the device or on the host.
    ///
    /// # Errors
    /// `Driver`; `Unsupported` on a simulated device without data; `Forked`.
    ///
    /// # Safety
    /// Both are memory of that many bytes, which stays, and which nothing else uses in a way that conflicts with the
    /// copy, until `stream` has passed. `stream` as for [`malloc`](Pool::malloc).
    pub unsafe fn copy(&self, destination: u64, source: u64, bytes: u64, stream: StreamId) -> Result<()> {
        // SAFETY: the caller says so.
        check(unsafe { sys::gpupool_copy(self.handle(), destination, source, bytes, stream.number()) })
    }

    /// Queues a fill of `bytes` with `value` on `stream`.
    ///
    /// # Errors
    /// `Driver`, `Forked`.
    ///
    /// # Safety
    /// As [`copy`](Pool::copy).
    pub unsafe fn fill(&self, destination: u64, value: u8, bytes: u64, stream: StreamId) -> Result<()> {
        // SAFETY: the caller says so.
        check(unsafe { sys::gpupool_fill(self.handle(), destination, value.into(), bytes, stream.number()) })
    }
}
