// SPDX-License-Identifier: Apache-2.0
//! Blocks that free themselves.

use std::borrow::Borrow;
use std::fmt;
use std::mem::{size_of_val, ManuallyDrop};

use gpupool_sys as sys;

use crate::{BlockInfo, Error, Result, Stream, StreamId};

/// Elements that may be copied to and from a device as bytes.
///
/// Numbers and arrays of them qualify, and with the feature `half` also `half::f16` and `half::bf16`. With the feature
/// `bytemuck`, the macro `gpupool::pod!` adds your own types, without `unsafe`.
///
/// # Safety
/// Every pattern of bytes is a value of the type.
pub unsafe trait Pod: Copy + Send + Sync + 'static {}

macro_rules! numbers {
    ($($type:ty)*) => { $(
        // SAFETY: every pattern of bytes is a number.
        unsafe impl Pod for $type {}
    )* };
}
numbers!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64);

// SAFETY: an array has no bytes but its elements'.
unsafe impl<T: Pod, const N: usize> Pod for [T; N] {}

#[cfg(feature = "half")]
numbers!(half::f16 half::bf16);

/// Implements [`Pod`](crate::Pod) for a type, so that arrays of it can be on the device; `bytemuck::AnyBitPattern`
/// proves that it is safe. A blanket implementation would conflict with other crates' implementations once anybody
/// turns the feature on. Since 0.2.
///
/// ```
/// #[derive(Clone, Copy, bytemuck::Zeroable, bytemuck::Pod)]
/// #[repr(C)]
/// struct Particle {
///     place: [f32; 3],
///     mass: f32,
/// }
/// gpupool::pod!(Particle);
/// # fn main() -> gpupool::Result<()> {
/// let stream = gpupool::Pool::new()?.create_stream()?;
/// let particles = stream.vec_from(&[Particle { place: [1.0, 2.0, 3.0], mass: 4.0 }])?;
/// assert_eq!(particles.to_vec()?[0].mass, 4.0);
/// # Ok(())
/// # }
/// ```
///
/// A type that does not accept any bytes does not compile:
///
/// ```compile_fail
/// #[derive(Clone, Copy)]
/// struct Flag(bool);
/// gpupool::pod!(Flag);
/// ```
#[cfg(feature = "bytemuck")]
#[macro_export]
macro_rules! pod {
    ($($type:ty),+ $(,)?) => { $(
        const _: fn() = || {
            fn takes_any_bytes<T: $crate::bytemuck::AnyBitPattern + Send + Sync>() {}
            takes_any_bytes::<$type>();
        };
        // SAFETY: it does not compile unless every pattern of bytes is a value.
        unsafe impl $crate::Pod for $type {}
    )+ };
}

/// Bytes on the device, freed on their stream when dropped: work already queued there may still use them. Never waits
/// for the GPU. `S` is how the block holds the stream; see [`Block::new`].
pub struct Block<S: Borrow<Stream> = Stream> {
    address: u64,
    bytes: u64,
    stream: S,
}

impl<S: Borrow<Stream>> Block<S> {
    /// Allocates `bytes` for work on `stream`, aligned to 512. 0 bytes have address 0. Given a [`Stream`], the block
    /// owns a handle to it and may go anywhere; given a `&Stream`, it borrows it, which is cheapest.
    ///
    /// ```
    /// use gpupool::{Block, Pool};
    ///
    /// # fn main() -> gpupool::Result<()> {
    /// let stream = Pool::new()?.create_stream()?;
    /// for _ in 0..3 {
    ///     let block = Block::new(&stream, 1 << 20)?;
    ///     assert_ne!(block.address(), 0);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `OutOfMemory` or `OverLimit`, with where the memory is; `Asleep`, `InvalidArgument`, `Driver`,
    /// `HostOutOfMemory`, `ShuttingDown`, `Forked`.
    #[inline]
    pub fn new(stream: S, bytes: u64) -> Result<Block<S>> {
        let address = stream.borrow().malloc(bytes)?;
        Ok(Block { address, bytes, stream })
    }

    /// The same, aligned to `alignment`: a power of two of up to 2 MiB.
    ///
    /// # Errors
    /// `OutOfMemory` or `OverLimit`, with where the memory is; `Asleep`, `InvalidArgument` for such an alignment,
    /// `Driver`, `HostOutOfMemory`, `ShuttingDown`, `Forked`.
    pub fn aligned(stream: S, bytes: u64, alignment: u64) -> Result<Block<S>> {
        let address = stream.borrow().malloc_aligned(bytes, alignment)?;
        Ok(Block { address, bytes, stream })
    }

    /// Takes over what [`Stream::malloc`] or [`into_raw`](Block::into_raw) returned.
    ///
    /// # Safety
    /// It is a live block of the stream's pool of at least that many bytes, and nobody else frees it.
    pub unsafe fn from_raw(stream: S, address: u64, bytes: u64) -> Block<S> {
        Block { address, bytes, stream }
    }

    /// Gives the block up: from now on the caller must free it.
    #[must_use = "nobody else frees it"]
    pub fn into_raw(self) -> u64 {
        self.take_apart().0
    }

    /// Address on the device: a CUdeviceptr.
    #[inline]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// The requested size in bytes.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The stream it belongs to.
    #[inline]
    pub fn stream(&self) -> &Stream {
        self.stream.borrow()
    }

    /// What the pool knows about the block. It does not know blocks of 0 bytes.
    ///
    /// # Errors
    /// `UnknownPointer` for a block of 0 bytes; `Forked`.
    pub fn info(&self) -> Result<BlockInfo> {
        self.stream().pool().block_info(self.address)
    }

    /// Tells the pool that another of its streams uses the block too: once freed, the block is reused only when that
    /// stream has passed the work queued on it at the time of the free.
    ///
    /// # Errors
    /// `InvalidArgument` for a stream of another pool; `UnknownPointer` for a block of 0 bytes; `Forked`.
    pub fn record_stream(&self, other: &Stream) -> Result<()> {
        self.stream().check_pool(other)?;
        // SAFETY: both streams are there.
        unsafe { self.stream().pool().record_stream(self.address, other.id()) }
    }

    /// Copies `source` to the block, from `offset_bytes` on. Waits for the stream.
    ///
    /// # Errors
    /// `InvalidArgument` if it is not inside the block; `Driver`; `Unsupported` on a simulated device without data;
    /// `Forked`.
    pub fn write<T: Pod>(&mut self, offset_bytes: u64, source: &[T]) -> Result<()> {
        // SAFETY: the stream has passed before the source goes.
        unsafe { self.write_async(offset_bytes, source) }?;
        self.stream().synchronize()
    }

    /// Copies from the block, from `offset_bytes` on, to `destination`. Waits for the stream.
    ///
    /// # Errors
    /// `InvalidArgument` if it is not inside the block; `Driver`; `Unsupported` on a simulated device without data;
    /// `Forked`.
    pub fn read<T: Pod>(&self, offset_bytes: u64, destination: &mut [T]) -> Result<()> {
        // SAFETY: the stream has passed before the destination goes.
        unsafe { self.read_async(offset_bytes, destination) }?;
        self.stream().synchronize()
    }

    /// Queues a copy of `source` to the block.
    ///
    /// # Errors
    /// `InvalidArgument` if it is not inside the block; `Driver`; `Unsupported` on a simulated device without data;
    /// `Forked`.
    ///
    /// # Safety
    /// `source` stays as it is until the stream has passed.
    pub unsafe fn write_async<T: Pod>(&mut self, offset_bytes: u64, source: &[T]) -> Result<()> {
        let bytes = size_of_val(source) as u64;
        let destination = self.place(offset_bytes, bytes)?;
        // SAFETY: the range is inside the block; the caller keeps the source.
        unsafe { self.stream().copy(destination, source.as_ptr() as u64, bytes) }
    }

    /// Queues a copy from the block to `destination`.
    ///
    /// # Errors
    /// `InvalidArgument` if it is not inside the block; `Driver`; `Unsupported` on a simulated device without data;
    /// `Forked`.
    ///
    /// # Safety
    /// `destination` stays, and nobody reads it, until the stream has passed.
    pub unsafe fn read_async<T: Pod>(&self, offset_bytes: u64, destination: &mut [T]) -> Result<()> {
        let bytes = size_of_val(destination) as u64;
        let source = self.place(offset_bytes, bytes)?;
        // SAFETY: the range is inside the block; the caller keeps the destination; every pattern of bytes is a T.
        unsafe { self.stream().copy(destination.as_mut_ptr() as u64, source, bytes) }
    }

    /// Queues a copy of the first `bytes` of another block of the same pool on this block's stream. Does not wait for
    /// other streams' work on that block: [synchronize](Stream::synchronize) with them first.
    ///
    /// # Errors
    /// `InvalidArgument` if it is not inside both blocks, or the other one is of another pool; `Driver`; `Unsupported`
    /// on a simulated device without data; `Forked`.
    pub fn copy_from<R: Borrow<Stream>>(&mut self, source: &Block<R>, bytes: u64) -> Result<()> {
        source.record_stream(self.stream())?;
        let destination = self.place(0, bytes)?;
        let from = source.place(0, bytes)?;
        // SAFETY: both ranges are inside their blocks, and recorded to stay until this stream has passed.
        unsafe { self.stream().copy(destination, from, bytes) }
    }

    /// Queues a fill of the whole block with `value`.
    ///
    /// # Errors
    /// `Driver`, `Forked`.
    pub fn fill(&mut self, value: u8) -> Result<()> {
        // SAFETY: the block is live and stays the stream's.
        unsafe { self.stream().fill(self.address, value, self.bytes) }
    }

    /// Frees it now and returns whether that worked. Dropping it does the same silently.
    ///
    /// # Errors
    /// `Forked`, or `InvalidArgument`: the pool was destroyed by force.
    pub fn free(self) -> Result<()> {
        let (address, stream) = self.take_apart();
        let owner = stream.borrow();
        // SAFETY: the block was ours.
        unsafe { owner.pool().free(address, owner.id()) }
    }

    /// Frees it now, behind the work of `other` too.
    ///
    /// # Errors
    /// `InvalidArgument` for a stream of another pool; `Forked`.
    pub fn free_on(self, other: &Stream) -> Result<()> {
        self.stream().check_pool(other)?;
        let (address, stream) = self.take_apart();
        // SAFETY: the block was ours, and both streams are there.
        unsafe { stream.borrow().pool().free(address, other.id()) }
    }

    /// Frees it now, behind the work of all streams that the pool has seen.
    ///
    /// # Errors
    /// `Forked`, or `InvalidArgument`: the pool was destroyed by force.
    pub fn free_on_all(self) -> Result<()> {
        let (address, stream) = self.take_apart();
        // SAFETY: the block was ours.
        unsafe { stream.borrow().pool().free(address, StreamId::UNKNOWN) }
    }

    /// Address and stream without the block that would free it.
    fn take_apart(self) -> (u64, S) {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is neither used nor dropped any more.
        (this.address, unsafe { std::ptr::read(&this.stream) })
    }

    /// The address of a range inside the block.
    fn place(&self, offset_bytes: u64, bytes: u64) -> Result<u64> {
        let end = offset_bytes.checked_add(bytes);
        if end.is_some_and(|end| end <= self.bytes) {
            Ok(self.address + offset_bytes)
        } else {
            Err(Error::invalid(format!(
                "{bytes} bytes at {offset_bytes} are not inside a block of {} bytes",
                self.bytes
            )))
        }
    }
}

impl<S: Borrow<Stream>> Drop for Block<S> {
    #[inline]
    fn drop(&mut self) {
        let stream = self.stream.borrow();
        // SAFETY: the block is ours. Nothing can be done about a failure.
        let _ = unsafe { sys::gpupool_free(stream.handle(), self.address, stream.number()) };
    }
}

impl<S: Borrow<Stream>> fmt::Debug for Block<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block")
            .field("address", &format_args!("{:#x}", self.address))
            .field("bytes", &self.bytes)
            .finish()
    }
}
