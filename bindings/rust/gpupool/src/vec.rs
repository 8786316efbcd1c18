// SPDX-License-Identifier: Apache-2.0
//! Typed arrays on the device.

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::mem::size_of;
use std::ops::RangeBounds;

use crate::{Block, Error, Pod, PoolSlice, PoolSliceMut, Result, Stream};

/// An array of `T` on the device, freed on its stream when dropped. Its length is fixed.
pub struct PoolVec<T: Pod, S: Borrow<Stream> = Stream> {
    block: Block<S>,
    len: usize,
    elements: PhantomData<T>,
}

impl<T: Pod, S: Borrow<Stream>> PoolVec<T, S> {
    /// Allocates `len` elements. Their values are whatever the memory held before. Takes a [`Stream`] or a `&Stream`:
    /// see [`Block::new`].
    ///
    /// # Errors
    /// `OutOfMemory` or `OverLimit`, with where the memory is; `Asleep`, `InvalidArgument`, `Driver`,
    /// `HostOutOfMemory`, `ShuttingDown`, `Forked`.
    pub fn new(stream: S, len: usize) -> Result<PoolVec<T, S>> {
        let size = size_of::<T>();
        let bytes = len.checked_mul(size).ok_or_else(|| {
            Error::out_of_memory(format!("{len} elements of {size} bytes are more than any device has"))
        })?;
        Ok(PoolVec { block: Block::new(stream, bytes as u64)?, len, elements: PhantomData })
    }

    /// Allocates `len` elements whose bytes are all 0 for work that is queued on the stream from now on. Since 0.2.
    ///
    /// # Errors
    /// `OutOfMemory` or `OverLimit`, with where the memory is; `Asleep`, `InvalidArgument`, `Driver`,
    /// `HostOutOfMemory`, `ShuttingDown`, `Forked`.
    pub fn alloc_zeros(stream: S, len: usize) -> Result<PoolVec<T, S>> {
        let mut array = PoolVec::new(stream, len)?;
        array.fill_bytes(0)?;
        Ok(array)
    }

    /// Allocates an array and copies `source` to it. Waits for the stream.
    ///
    /// # Errors
    /// `OutOfMemory` or `OverLimit`, with where the memory is; `Asleep`, `InvalidArgument`, `Driver`,
    /// `HostOutOfMemory`, `ShuttingDown`, `Forked`.
    pub fn from_slice(stream: S, source: &[T]) -> Result<PoolVec<T, S>> {
        let mut array = PoolVec::new(stream, source.len())?;
        array.copy_from_slice(source)?;
        Ok(array)
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Address on the device: a CUdeviceptr.
    pub fn address(&self) -> u64 {
        self.block.address()
    }

    /// The bytes below.
    pub fn block(&self) -> &Block<S> {
        &self.block
    }

    /// The bytes below.
    pub fn block_mut(&mut self) -> &mut Block<S> {
        &mut self.block
    }

    /// Turns the array into its block, without the type.
    pub fn into_block(self) -> Block<S> {
        self.block
    }

    /// All of it as a slice.
    pub fn as_slice(&self) -> PoolSlice<'_, T> {
        PoolSlice::whole(self.block.stream(), self.block.address(), self.len)
    }

    /// All of it as a slice to write to.
    pub fn as_mut_slice(&mut self) -> PoolSliceMut<'_, T> {
        PoolSliceMut::of(self.as_slice())
    }

    /// A part of it. A range that is not inside is [`InvalidArgument`](crate::ErrorKind::InvalidArgument).
    ///
    /// ```
    /// use gpupool::Pool;
    ///
    /// # fn main() -> gpupool::Result<()> {
    /// let stream = Pool::new()?.create_stream()?;
    /// let mut numbers = stream.vec_from(&[1, 2, 3, 4])?;
    /// assert_eq!(numbers.slice(1..3)?.to_vec()?, [2, 3]);
    /// let (left, mut right) = numbers.split_at_mut(2)?;
    /// right.copy_from(&left.as_slice())?;
    /// assert_eq!(numbers.to_vec()?, [1, 2, 1, 2]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` if the range is not inside.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<PoolSlice<'_, T>> {
        self.as_slice().slice(range)
    }

    /// A part of it to write to.
    ///
    /// # Errors
    /// `InvalidArgument` if the range is not inside.
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> Result<PoolSliceMut<'_, T>> {
        self.as_slice().slice(range).map(PoolSliceMut::of)
    }

    /// The elements before number `middle`, and the others.
    ///
    /// # Errors
    /// `InvalidArgument` if that is not inside.
    pub fn split_at(&self, middle: usize) -> Result<(PoolSlice<'_, T>, PoolSlice<'_, T>)> {
        self.as_slice().split_at(middle)
    }

    /// The elements before number `middle`, and the others; both may be written at the same time.
    ///
    /// # Errors
    /// `InvalidArgument` if that is not inside.
    pub fn split_at_mut(&mut self, middle: usize) -> Result<(PoolSliceMut<'_, T>, PoolSliceMut<'_, T>)> {
        self.as_mut_slice().split_at_mut(middle)
    }

    /// Copies `source`, which must be as long, to the device. Waits for the stream.
    ///
    /// # Errors
    /// `InvalidArgument` if the lengths differ; `Driver`; `Unsupported` on a simulated device without data; `Forked`.
    pub fn copy_from_slice(&mut self, source: &[T]) -> Result<()> {
        self.as_mut_slice().copy_from_slice(source)
    }

    /// Copies from the device to `destination`, which must be as long. Waits for the stream.
    ///
    /// # Errors
    /// `InvalidArgument` if the lengths differ; `Driver`; `Unsupported` on a simulated device without data; `Forked`.
    pub fn copy_to_slice(&self, destination: &mut [T]) -> Result<()> {
        self.as_slice().copy_to_slice(destination)
    }

    /// Copies the elements from the device. Waits for the stream.
    ///
    /// # Errors
    /// `HostOutOfMemory` if the host has no memory for them; `Driver`; `Unsupported` on a simulated device without
    /// data; `Forked`.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.as_slice().to_vec()
    }

    /// Queues a fill of every byte with `value`.
    ///
    /// # Errors
    /// `Driver`, `Forked`.
    pub fn fill_bytes(&mut self, value: u8) -> Result<()> {
        self.as_mut_slice().fill_bytes(value)
    }

    /// Tells the pool that another of its streams uses the array too: [`Block::record_stream`].
    ///
    /// # Errors
    /// `InvalidArgument` for a stream of another pool; `UnknownPointer` for an empty array; `Forked`.
    pub fn record_stream(&self, other: &Stream) -> Result<()> {
        self.block.record_stream(other)
    }
}

impl<T: Pod, S: Borrow<Stream>> fmt::Debug for PoolVec<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolVec")
            .field("address", &format_args!("{:#x}", self.address()))
            .field("len", &self.len)
            .finish()
    }
}
