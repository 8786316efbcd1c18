// SPDX-License-Identifier: Apache-2.0
//! Streams: queues of GPU work, each as one pool sees it.

use std::fmt;
use std::sync::Arc;

use gpupool_sys as sys;

use crate::error::check;
use crate::{Block, Error, Pod, Pool, PoolVec, Result};

/// A stream as a plain number: a CUstream or cudaStream_t cast to an integer, or [`Stream::id`]. It does not say
/// whether the stream still exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StreamId(usize);

impl StreamId {
    /// The legacy default stream; 1 (CU_STREAM_LEGACY) means the same. 2 (CU_STREAM_PER_THREAD) is refused: it names
    /// another queue on each thread.
    pub const DEFAULT: StreamId = StreamId(0);
    /// For frees: "any stream that the pool has seen may still be using the block".
    pub const UNKNOWN: StreamId = StreamId(sys::GPUPOOL_STREAM_UNKNOWN);

    /// A CUstream as an integer.
    pub const fn from_number(number: usize) -> StreamId {
        StreamId(number)
    }

    /// The integer again.
    pub const fn number(self) -> usize {
        self.0
    }
}

/// A stream of a pool, from which blocks are made. Clones are the same stream; it ends when the last of its clones and
/// blocks has gone.
#[derive(Clone)]
pub struct Stream {
    inner: Arc<Inner>,
}

struct Inner {
    /// A copy of the pool's handle, close to where mallocs and frees need it.
    handle: *mut sys::gpupool_t,
    id: StreamId,
    end: End,
    pool: Pool,
    #[cfg(feature = "cudarc")]
    cuda: Option<Arc<::cudarc::driver::CudaStream>>,
}

/// What happens to the stream itself when its last handle goes.
pub(crate) enum End {
    Destroy,
    Release,
    Nothing,
}

// SAFETY: the handle may be used from any thread, and `pool` keeps it.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Pool {
    /// Creates a stream on the pool's device that does not synchronise with the legacy default stream.
    ///
    /// # Errors
    /// `Driver`, `Forked`.
    pub fn create_stream(&self) -> Result<Stream> {
        let mut number = 0;
        // SAFETY: the handle is good while self is there.
        check(unsafe { sys::gpupool_stream_create(self.handle(), &mut number) })?;
        Ok(Stream::new(self, StreamId(number), End::Destroy))
    }

    /// The legacy default stream, which is always there.
    pub fn default_stream(&self) -> Stream {
        Stream::new(self, StreamId::DEFAULT, End::Nothing)
    }

    /// A stream of another library. When the result and its blocks have gone, it is only released from the pool, not
    /// destroyed.
    ///
    /// # Safety
    /// It is a stream of the pool's device, and stays until the last clone of the result, and the last block made from
    /// it, has gone.
    pub unsafe fn adopt_stream(&self, id: StreamId) -> Stream {
        Stream::new(self, id, End::Release)
    }
}

impl Stream {
    pub(crate) fn new(pool: &Pool, id: StreamId, end: End) -> Stream {
        Stream {
            inner: Arc::new(Inner {
                handle: pool.handle(),
                id,
                end,
                pool: pool.clone(),
                #[cfg(feature = "cudarc")]
                cuda: None,
            }),
        }
    }

    /// Adopts a stream of cudarc, and keeps it until the result has gone.
    #[cfg(feature = "cudarc")]
    pub(crate) fn with_cuda(pool: &Pool, cuda: Arc<::cudarc::driver::CudaStream>) -> Stream {
        Stream {
            inner: Arc::new(Inner {
                handle: pool.handle(),
                id: StreamId(cuda.cu_stream() as usize),
                end: End::Release,
                pool: pool.clone(),
                cuda: Some(cuda),
            }),
        }
    }

    #[cfg(feature = "cudarc")]
    pub(crate) fn cuda(&self) -> Option<&Arc<::cudarc::driver::CudaStream>> {
        self.inner.cuda.as_ref()
    }

    /// The pool that the stream belongs to.
    pub fn pool(&self) -> &Pool {
        &self.inner.pool
    }

    #[inline]
    pub(crate) fn handle(&self) -> *mut sys::gpupool_t {
        self.inner.handle
    }

    /// Its number: on a GPU, a CUstream. Valid as long as the stream exists.
    #[inline]
    pub fn id(&self) -> StreamId {
        self.inner.id
    }

    #[inline]
    pub(crate) fn number(&self) -> usize {
        self.inner.id.0
    }

    /// Refuses streams of another pool: they could go without this pool's knowing.
    pub(crate) fn check_pool(&self, other: &Stream) -> Result<()> {
        if self.handle() == other.handle() {
            Ok(())
        } else {
            let text = format!("stream {:#x} belongs to another pool", other.number());
            Err(Error::invalid(text))
        }
    }

    /// Queues a copy. For no bytes it queues nothing.
    ///
    /// # Safety
    /// As [`Pool::copy`].
    pub(crate) unsafe fn copy(&self, destination: u64, source: u64, bytes: u64) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the caller says so.
        unsafe { self.pool().copy(destination, source, bytes, self.id()) }
    }

    /// The same for a fill.
    ///
    /// # Safety
    /// As [`Pool::fill`].
    pub(crate) unsafe fn fill(&self, destination: u64, value: u8, bytes: u64) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the caller says so.
        unsafe { self.pool().fill(destination, value, bytes, self.id()) }
    }

    /// Allocates a block that owns a share of the stream; see [`Block::new`].
    ///
    /// # Errors
    /// `OutOfMemory` or `OverLimit`, with where the memory is; `Asleep`, `InvalidArgument`, `Driver`,
    /// `HostOutOfMemory`, `ShuttingDown`, `Forked`.
    pub fn block(&self, bytes: u64) -> Result<Block> {
        Block::new(self.clone(), bytes)
    }

    /// Allocates an array of `len` elements. Their values are whatever the memory held before.
    ///
    /// # Errors
    /// `OutOfMemory` or `OverLimit`, with where the memory is; `Asleep`, `InvalidArgument`, `Driver`,
    /// `HostOutOfMemory`, `ShuttingDown`, `Forked`.
    pub fn vec<T: Pod>(&self, len: usize) -> Result<PoolVec<T>> {
        PoolVec::new(self.clone(), len)
    }

    /// Allocates an array of `len` elements whose bytes are all 0 for work that is queued from now on. Since 0.2.
    ///
    /// # Errors
    /// `OutOfMemory` or `OverLimit`, with where the memory is; `Asleep`, `InvalidArgument`, `Driver`,
    /// `HostOutOfMemory`, `ShuttingDown`, `Forked`.
    pub fn alloc_zeros<T: Pod>(&self, len: usize) -> Result<PoolVec<T>> {
        PoolVec::alloc_zeros(self.clone(), len)
    }

    /// Allocates an array and copies `source` to it. Waits for the stream.
    ///
    /// # Errors
    /// `OutOfMemory` or `OverLimit`, with where the memory is; `Asleep`, `InvalidArgument`, `Driver`,
    /// `HostOutOfMemory`, `ShuttingDown`, `Forked`.
    pub fn vec_from<T: Pod>(&self, source: &[T]) -> Result<PoolVec<T>> {
        PoolVec::from_slice(self.clone(), source)
    }

    /// Allocates `bytes` for work on this stream, aligned to 512, and returns the address. Only [`Pool::free`] frees
    /// it. 0 bytes give address 0. A cached block costs no driver call; only a shortage of memory may make it wait for
    /// the GPU.
    ///
    /// # Errors
    /// `OutOfMemory` or `OverLimit`, with where the memory is; `Asleep`, `InvalidArgument`, `Driver`,
    /// `HostOutOfMemory`, `ShuttingDown`, `Forked`.
    #[inline]
    pub fn malloc(&self, bytes: u64) -> Result<u64> {
        let mut address = 0;
        // SAFETY: pool and stream are good while self is there.
        check(unsafe { sys::gpupool_malloc(self.handle(), bytes, self.number(), &mut address) })?;
        Ok(address)
    }

    /// The same, aligned to `alignment`: a power of two of up to 2 MiB.
    ///
    /// # Errors
    /// `OutOfMemory` or `OverLimit`, with where the memory is; `Asleep`, `InvalidArgument` for such an alignment,
    /// `Driver`, `HostOutOfMemory`, `ShuttingDown`, `Forked`.
    #[inline]
    pub fn malloc_aligned(&self, bytes: u64, alignment: u64) -> Result<u64> {
        let mut address = 0;
        // SAFETY: pool and stream are good while self is there.
        check(unsafe {
            sys::gpupool_malloc_aligned(self.handle(), bytes, alignment, self.number(), &mut address)
        })?;
        Ok(address)
    }

    /// Creates memory until the pool's reserved bytes are at least `target_bytes`, mapped for this stream and ready to
    /// be handed out. If it cannot get all, it keeps what it got.
    ///
    /// # Errors
    /// `OutOfMemory` or `OverLimit`, and what there was is kept; `Asleep`, `Driver`, `ShuttingDown`, `Forked`.
    pub fn reserve(&self, target_bytes: u64) -> Result<()> {
        // SAFETY: pool and stream are good while self is there.
        check(unsafe { sys::gpupool_reserve(self.handle(), target_bytes, self.number()) })
    }

    /// The driver's number of the CUDA graph capture under way on this stream. Since 0.2.
    ///
    /// # Errors
    /// `Driver`, `Forked`.
    pub fn capture_id(&self) -> Result<Option<u64>> {
        let mut capture = 0;
        // SAFETY: pool and stream are good while self is there.
        check(unsafe { sys::gpupool_capture_id(self.handle(), self.number(), &mut capture) })?;
        Ok((capture != 0).then_some(capture))
    }

    /// Waits until the stream has done all work queued on it.
    ///
    /// # Errors
    /// `Driver`, `Forked`.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: pool and stream are good while self is there.
        check(unsafe { sys::gpupool_stream_synchronize(self.handle(), self.number()) })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: the pool is still there, and nobody else has the stream. Nothing can be done about a failure.
        let _ = unsafe {
            match self.end {
                End::Destroy => sys::gpupool_stream_destroy(self.handle, self.id.0),
                End::Release => sys::gpupool_release_stream(self.handle, self.id.0),
                End::Nothing => return,
            }
        };
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stream").field(&self.number()).finish()
    }
}
