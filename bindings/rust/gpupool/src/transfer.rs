// SPDX-License-Identifier: Apache-2.0
//! Copies to and from the host that nobody waits for.

use std::borrow::Borrow;
use std::fmt;
use std::mem::{size_of_val, take};

use crate::{Pod, PoolSlice, PoolSliceMut, PoolVec, Result, Stream};

/// A queued copy between the host and the device: [`PoolVec::upload`], [`PoolVec::download`]. It owns the host's memory
/// and a share of the stream, so nobody can touch that memory meanwhile. Dropping it waits for the stream. Since 0.2.
///
/// ```
/// use gpupool::Pool;
///
/// # fn main() -> gpupool::Result<()> {
/// let stream = Pool::new()?.create_stream()?;
/// let mut numbers = stream.vec::<u32>(3)?;
/// let there = numbers.upload(vec![1, 2, 3])?; // kernels may be queued behind it
/// let back = numbers.download()?;
/// assert_eq!(back.wait()?, [1, 2, 3]);
/// assert_eq!(there.wait()?, [1, 2, 3]); // the same vector, to be used again
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping it waits for the stream"]
pub struct Transfer<T: Pod> {
    host: Vec<T>,
    stream: Stream,
}

impl<T: Pod> Transfer<T> {
    /// Waits for the stream and returns the elements that were sent, or those that came.
    ///
    /// # Errors
    /// `Driver`, `Forked`.
    pub fn wait(mut self) -> Result<Vec<T>> {
        self.stream.synchronize()?;
        Ok(take(&mut self.host))
    }
}

impl<T: Pod> Drop for Transfer<T> {
    fn drop(&mut self) {
        // After wait the vector is empty, and there is nothing to wait for.
        if !self.host.is_empty() && self.stream.synchronize().is_err() {
            // Nobody knows whether the device is done with the memory, so leak it rather than give it to others.
            std::mem::forget(take(&mut self.host));
        }
    }
}

impl<T: Pod> fmt::Debug for Transfer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transfer").field("len", &self.host.len()).finish_non_exhaustive()
    }
}

impl<T: Pod> PoolSlice<'_, T> {
    /// Queues a copy of the elements to the host; see [`PoolVec::download`].
    ///
    /// # Errors
    /// `HostOutOfMemory` if the host has no memory for them; `Driver`; `Unsupported` on a simulated device without
    /// data; `Forked`.
    pub fn download(&self) -> Result<Transfer<T>> {
        let mut host = self.room()?;
        let (to, bytes) = (host.as_mut_ptr() as u64, size_of_val(host.as_slice()) as u64);
        let transfer = Transfer { host, stream: self.stream().clone() };
        // SAFETY: the transfer keeps the host's memory until the stream has passed; the array is freed behind it.
        unsafe { self.stream().copy(to, self.address(), bytes) }?;
        Ok(transfer)
    }
}

impl<T: Pod> PoolSliceMut<'_, T> {
    /// Queues a copy of `source`, which must be as long, to the device; see [`PoolVec::upload`].
    ///
    /// # Errors
    /// `InvalidArgument` if the lengths differ; `Driver`; `Unsupported` on a simulated device without data; `Forked`.
    pub fn upload(&mut self, source: Vec<T>) -> Result<Transfer<T>> {
        let part = self.as_slice();
        part.check_len(source.len())?;
        let (from, bytes) = (source.as_ptr() as u64, size_of_val(source.as_slice()) as u64);
        let transfer = Transfer { host: source, stream: part.stream().clone() };
        // SAFETY: the transfer keeps the host's memory until the stream has passed; the array is freed behind it.
        unsafe { part.stream().copy(part.address(), from, bytes) }?;
        Ok(transfer)
    }
}

impl<T: Pod, S: Borrow<Stream>> PoolVec<T, S> {
    /// Queues a copy of `source`, which must be as long, to the device, and does not wait for it. Work queued on the
    /// stream later sees the elements; the array may be dropped at once. Since 0.2.
    ///
    /// # Errors
    /// `InvalidArgument` if the lengths differ; `Driver`; `Unsupported` on a simulated device without data; `Forked`.
    pub fn upload(&mut self, source: Vec<T>) -> Result<Transfer<T>> {
        self.as_mut_slice().upload(source)
    }

    /// Queues a copy of the elements, as the work queued so far leaves them, to the host, and does not wait for it.
    /// Since 0.2.
    ///
    /// # Errors
    /// `HostOutOfMemory` if the host has no memory for them; `Driver`; `Unsupported` on a simulated device without
    /// data; `Forked`.
    pub fn download(&self) -> Result<Transfer<T>> {
        self.as_slice().download()
    }
}
