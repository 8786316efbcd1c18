// SPDX-License-Identifier: Apache-2.0
//! Typed arrays on the device.

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::mem::size_of;

use crate::{Block, Error, Pod, Result, Stream};

/// An array of `T` on the device, freed on its stream when dropped. Its length is fixed.
pub struct PoolVec<T: Pod, S: Borrow<Stream> = Stream> {
    block: Block<S>,
    len: usize,
    elements: PhantomData<T>,
}

impl<T: Pod, S: Borrow<Stream>> PoolVec<T, S> {
    /// Allocates `len` elements, whose values are whatever the memory held before. Takes a [`Stream`] or a
    /// `&Stream`: see [`Block::new`].
    pub fn new(stream: S, len: usize) -> Result<PoolVec<T, S>> {
        let bytes = len
            .checked_mul(size_of::<T>())
            .ok_or_else(|| Error::invalid(format!("{len} elements are too many")))?;
        Ok(PoolVec { block: Block::new(stream, bytes as u64)?, len, elements: PhantomData })
    }

    /// Allocates an array and copies `source` to it. Waits for the stream.
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

    /// The bytes below, without their type.
    pub fn into_block(self) -> Block<S> {
        self.block
    }

    /// Copies `source`, which must be as long, to the device. Waits for the stream.
    pub fn copy_from_slice(&mut self, source: &[T]) -> Result<()> {
        self.check_len(source.len())?;
        self.block.write(0, source)
    }

    /// Copies from the device to `destination`, which must be as long. Waits for the stream.
    pub fn copy_to_slice(&self, destination: &mut [T]) -> Result<()> {
        self.check_len(destination.len())?;
        self.block.read(0, destination)
    }

    /// Copies the elements from the device. Waits for the stream.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        // SAFETY: every pattern of bytes is a T.
        let mut elements = vec![unsafe { std::mem::zeroed() }; self.len];
        self.block.read(0, &mut elements)?;
        Ok(elements)
    }

    /// Queues a fill of every byte with `value`.
    pub fn fill_bytes(&mut self, value: u8) -> Result<()> {
        self.block.fill(value)
    }

    /// Says that another stream of the same pool uses the array too: [`Block::record_stream`].
    pub fn record_stream(&self, other: &Stream) -> Result<()> {
        self.block.record_stream(other)
    }

    fn check_len(&self, len: usize) -> Result<()> {
        if len == self.len {
            Ok(())
        } else {
            let text = format!("{len} elements do not fill an array of {}", self.len);
            Err(Error::invalid(text))
        }
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
