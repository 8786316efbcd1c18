// SPDX-License-Identifier: Apache-2.0
//! Parts of arrays on the device.

use std::alloc::{alloc_zeroed, Layout};
use std::fmt;
use std::marker::PhantomData;
use std::mem::{size_of, size_of_val};
use std::ops::{Bound, RangeBounds};

use crate::{Error, Pod, Result, Stream};

/// A part of a [`PoolVec`](crate::PoolVec), to read from: [`PoolVec::slice`](crate::PoolVec::slice). Since 0.2.
pub struct PoolSlice<'a, T: Pod> {
    stream: &'a Stream,
    /// The whole block, for recording streams.
    block: u64,
    /// The address of the first element.
    address: u64,
    len: usize,
    elements: PhantomData<&'a [T]>,
}

impl<T: Pod> Clone for PoolSlice<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Pod> Copy for PoolSlice<'_, T> {}

impl<'a, T: Pod> PoolSlice<'a, T> {
    /// The whole block as that many elements, which it has room for.
    pub(crate) fn whole(stream: &'a Stream, block: u64, len: usize) -> PoolSlice<'a, T> {
        PoolSlice { stream, block, address: block, len, elements: PhantomData }
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
        self.address
    }

    /// The stream of the array.
    pub fn stream(&self) -> &'a Stream {
        self.stream
    }

    /// A part of it. A range that is not inside is [`InvalidArgument`](crate::ErrorKind::InvalidArgument).
    ///
    /// # Errors
    /// `InvalidArgument` if the range is not inside.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<PoolSlice<'a, T>> {
        let start = match range.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&last) => last.saturating_add(1),
            Bound::Excluded(&end) => end,
            Bound::Unbounded => self.len,
        };
        if start > end || end > self.len {
            let text = format!("elements {start}..{end} are not inside an array of {}", self.len);
            return Err(Error::invalid(text));
        }
        let address = self.address + (start * size_of::<T>()) as u64;
        Ok(PoolSlice { address, len: end - start, ..*self })
    }

    /// The elements before number `middle`, and the others.
    ///
    /// # Errors
    /// `InvalidArgument` if that is not inside.
    pub fn split_at(&self, middle: usize) -> Result<(PoolSlice<'a, T>, PoolSlice<'a, T>)> {
        Ok((self.slice(..middle)?, self.slice(middle..)?))
    }

    /// Copies from the device to `destination`, which must be as long. Waits for the stream.
    ///
    /// # Errors
    /// `InvalidArgument` if the lengths differ; `Driver`; `Unsupported` on a simulated device without data; `Forked`.
    pub fn copy_to_slice(&self, destination: &mut [T]) -> Result<()> {
        self.check_len(destination.len())?;
        let host = destination.as_mut_ptr() as u64;
        // SAFETY: both are that long; the stream has passed before the destination goes; every pattern of bytes is a T.
        unsafe { self.stream.copy(host, self.address, size_of_val(destination) as u64) }?;
        self.stream.synchronize()
    }

    /// Copies the elements from the device. Waits for the stream.
    ///
    /// # Errors
    /// `HostOutOfMemory` if the host has no memory for them; `Driver`; `Unsupported` on a simulated device without
    /// data; `Forked`.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        let mut elements = self.room()?;
        self.copy_to_slice(&mut elements)?;
        Ok(elements)
    }

    /// As many elements on the host; `vec!` would end the program where there is no memory for them.
    pub(crate) fn room(&self) -> Result<Vec<T>> {
        let refused = || {
            let text = format!("the host has no memory for {} bytes: read them in parts", self.bytes());
            Error::host_out_of_memory(text)
        };
        let layout = Layout::array::<T>(self.len).map_err(|_| refused())?;
        if layout.size() == 0 {
            // SAFETY: every pattern of bytes is a T.
            return Ok(vec![unsafe { std::mem::zeroed() }; self.len]);
        }
        // SAFETY: the layout is not empty.
        let place = unsafe { alloc_zeroed(layout) }.cast::<T>();
        if place.is_null() {
            return Err(refused());
        }
        // SAFETY: the memory is what a vector of that capacity has, and zeros are as many T.
        Ok(unsafe { Vec::from_raw_parts(place, self.len, self.len) })
    }

    fn bytes(&self) -> u64 {
        (self.len * size_of::<T>()) as u64
    }

    pub(crate) fn check_len(&self, len: usize) -> Result<()> {
        if len == self.len {
            Ok(())
        } else {
            let text = format!("{len} elements do not fill an array of {}", self.len);
            Err(Error::invalid(text))
        }
    }
}

/// A part of a [`PoolVec`](crate::PoolVec), to read and write: [`PoolVec::slice_mut`](crate::PoolVec::slice_mut). Since
/// 0.2.
pub struct PoolSliceMut<'a, T: Pod> {
    part: PoolSlice<'a, T>,
    elements: PhantomData<&'a mut [T]>,
}

impl<'a, T: Pod> PoolSliceMut<'a, T> {
    /// Memory that nothing else reads or writes while the result exists.
    pub(crate) fn of(part: PoolSlice<'a, T>) -> PoolSliceMut<'a, T> {
        PoolSliceMut { part, elements: PhantomData }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.part.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.part.is_empty()
    }

    /// Address on the device: a CUdeviceptr.
    pub fn address(&self) -> u64 {
        self.part.address
    }

    /// The same, to read from.
    pub fn as_slice(&self) -> PoolSlice<'_, T> {
        self.part
    }

    /// A part of it. A range that is not inside is [`InvalidArgument`](crate::ErrorKind::InvalidArgument).
    ///
    /// # Errors
    /// `InvalidArgument` if the range is not inside.
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> Result<PoolSliceMut<'_, T>> {
        self.part.slice(range).map(PoolSliceMut::of)
    }

    /// The elements before number `middle`, and the others; both may be written at the same time.
    ///
    /// # Errors
    /// `InvalidArgument` if that is not inside.
    pub fn split_at_mut(self, middle: usize) -> Result<(PoolSliceMut<'a, T>, PoolSliceMut<'a, T>)> {
        let (left, right) = self.part.split_at(middle)?;
        Ok((PoolSliceMut::of(left), PoolSliceMut::of(right)))
    }

    /// Copies `source`, which must be as long, to the device. Waits for the stream.
    ///
    /// # Errors
    /// `InvalidArgument` if the lengths differ; `Driver`; `Unsupported` on a simulated device without data; `Forked`.
    pub fn copy_from_slice(&mut self, source: &[T]) -> Result<()> {
        self.part.check_len(source.len())?;
        // SAFETY: both are that long, and the stream has passed before the source goes.
        unsafe { self.part.stream.copy(self.part.address, source.as_ptr() as u64, self.part.bytes()) }?;
        self.part.stream.synchronize()
    }

    /// Queues a copy of `source`, which must be as long, on this array's stream; it may be a part of another array of
    /// the same pool. It does not wait for another stream's work on that array: [synchronize](Stream::synchronize) with
    /// that stream first.
    ///
    /// # Errors
    /// `InvalidArgument` if the lengths or the pools differ; `Driver`; `Unsupported` on a simulated device without
    /// data; `Forked`.
    pub fn copy_from(&mut self, source: &PoolSlice<'_, T>) -> Result<()> {
        self.part.check_len(source.len)?;
        let stream = self.part.stream;
        source.stream.check_pool(stream)?;
        // SAFETY: both are that long, and the source is recorded to stay until this stream has passed.
        unsafe {
            stream.pool().record_stream(source.block, stream.id())?;
            stream.copy(self.part.address, source.address, source.bytes())
        }
    }

    /// Queues a fill of every byte with `value`.
    ///
    /// # Errors
    /// `Driver`, `Forked`.
    pub fn fill_bytes(&mut self, value: u8) -> Result<()> {
        // SAFETY: the range is inside a live block of the stream's.
        unsafe { self.part.stream.fill(self.part.address, value, self.part.bytes()) }
    }
}

impl<T: Pod> fmt::Debug for PoolSlice<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolSlice")
            .field("address", &format_args!("{:#x}", self.address))
            .field("len", &self.len)
            .finish()
    }
}

impl<T: Pod> fmt::Debug for PoolSliceMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.part.fmt(f)
    }
}
