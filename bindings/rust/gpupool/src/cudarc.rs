// SPDX-License-Identifier: Apache-2.0
//! Blocks as device slices of the crate cudarc.

use std::borrow::Borrow;
use std::marker::PhantomData;
use std::mem::{size_of, ManuallyDrop};
use std::ops::Deref;
use std::sync::Arc;

use ::cudarc::driver::{CudaSlice, CudaStream, CudaViewMut};

use crate::{Backend, Block, Error, Pod, Pool, PoolVec, Result, Stream};

impl Pool {
    /// A stream of cudarc as a stream of this pool, which keeps it. It must be a stream of the pool's device.
    ///
    /// ```no_run
    /// use cudarc::driver::CudaContext;
    /// use gpupool::{Backend, Pool};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let context = CudaContext::new(0)?;
    /// let cuda = context.new_stream()?;
    /// let pool = Pool::builder().backend(Backend::Cuda).build()?;
    /// let mut numbers = pool.cudarc_stream(&cuda)?.vec_from(&[1.0f32, 2.0, 3.0])?;
    ///
    /// let mut loan = numbers.lend_to_cudarc()?;
    /// cuda.memset_zeros(&mut loan.view_mut())?;
    /// assert_eq!(cuda.clone_dtoh(&*loan)?, [0.0, 0.0, 0.0]);
    /// drop(loan); // the memory stays with `numbers`
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` for a stream of another device.
    pub fn cudarc_stream(&self, stream: &Arc<CudaStream>) -> Result<Stream> {
        let own = self.device_info()?;
        let ordinal = stream.context().ordinal();
        if own.backend != Backend::Cuda || usize::try_from(own.device) != Ok(ordinal) {
            let text = format!("the stream of CUDA device {ordinal} is none of the pool's device");
            return Err(Error::invalid(text));
        }
        Ok(Stream::with_cuda(self, stream.clone()))
    }
}

impl<S: Borrow<Stream>> Block<S> {
    /// Lends the block to cudarc as a slice of as many `T` as fit in it. The block's stream must come from
    /// [`Pool::cudarc_stream`].
    ///
    /// # Errors
    /// `InvalidArgument` if the stream is none of cudarc's.
    pub fn lend_to_cudarc<T: Pod>(&mut self) -> Result<CudaLoan<'_, T>> {
        let cuda =
            self.stream().cuda().ok_or_else(|| Error::invalid("the block's stream is none of cudarc's"))?;
        let len = self.bytes().checked_div(size_of::<T>() as u64).unwrap_or(0);
        // SAFETY: the block holds that many T, of any value, until the loan ends.
        let slice = unsafe { cuda.upgrade_device_ptr(self.address(), len as usize) };
        Ok(CudaLoan { slice: ManuallyDrop::new(slice), block: PhantomData })
    }
}

impl<T: Pod, S: Borrow<Stream>> PoolVec<T, S> {
    /// Lends the array to cudarc: [`Block::lend_to_cudarc`].
    ///
    /// # Errors
    /// `InvalidArgument` if the stream is none of cudarc's.
    pub fn lend_to_cudarc(&mut self) -> Result<CudaLoan<'_, T>> {
        self.block_mut().lend_to_cudarc()
    }
}

/// A block lent to cudarc: dereferences to a `CudaSlice`, and when dropped gives the memory back to its block, whereas
/// cudarc's own slice would free it.
pub struct CudaLoan<'a, T: Pod> {
    slice: ManuallyDrop<CudaSlice<T>>,
    block: PhantomData<&'a mut [T]>,
}

impl<T: Pod> CudaLoan<'_, T> {
    /// For writing. There is no `&mut CudaSlice`, because that could be moved out and dropped.
    pub fn view_mut(&mut self) -> CudaViewMut<'_, T> {
        self.slice.as_view_mut()
    }
}

impl<T: Pod> Deref for CudaLoan<'_, T> {
    type Target = CudaSlice<T>;

    fn deref(&self) -> &CudaSlice<T> {
        &self.slice
    }
}

impl<T: Pod> Drop for CudaLoan<'_, T> {
    fn drop(&mut self) {
        // SAFETY: it is neither used nor dropped any more.
        let slice = unsafe { ManuallyDrop::take(&mut self.slice) };
        slice.leak(); // makes the block's stream wait for what other streams do with it
    }
}
