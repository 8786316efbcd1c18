// SPDX-License-Identifier: Apache-2.0
//! A pool of GPU memory: mallocs and frees that cost tens of nanoseconds, memory that is packed tightly, limited,
//! watched and given back. The same pool serves C, C++, Python, Go and others in one process, and without a GPU an
//! exact simulated device takes its place.
//!
//! ```
//! use gpupool::Pool;
//!
//! # fn main() -> gpupool::Result<()> {
//! let pool = Pool::new()?;
//! let stream = pool.create_stream()?;
//! let mut numbers = stream.vec_from(&[1.0f32, 2.0, 3.0])?; // a copy on the device
//! assert_eq!(numbers.to_vec()?, [1.0, 2.0, 3.0]);
//! numbers.fill_bytes(0)?;
//! drop(numbers); // free at once for other blocks of the stream
//! assert_eq!(pool.stats()?.all.allocated_bytes.current, 0);
//! # Ok(())
//! # }
//! ```
//!
//! # Words
//!
//! A [`Pool`] holds *reserved* memory of one device in *chunks*, and hands out *blocks* of it. A block belongs to
//! a [`Stream`], the queue of GPU work that uses it; freed memory is reused in the order of that queue, so
//! neither malloc nor free waits for the GPU. [`Stats`] explains *requested*, *allocated*, *active*, *reserved*
//! and *cached* bytes.
//!
//! # Which level to use
//!
//! - [`PoolVec`] is a typed array on the device, [`Block`] a range of bytes. Both free themselves. Made from a `Stream`
//!   they own a handle to it and may go anywhere; made from a `&Stream` they borrow it, which saves the reference count
//!   (15 ns): [`Block::new`]. [`PoolSlice`] and [`PoolSliceMut`] are parts of an array.
//! - [`Stream::malloc`] and [`Pool::malloc`] use addresses, for allocator plug-ins. A function that takes a
//!   [`StreamId`], a plain number, and makes the driver use it is unsafe: nothing proves that such a stream still
//!   exists.
//!
//! # Lifetime and threads
//!
//! Everything may be used and dropped on any thread, in any order: a stream keeps its pool, a block its stream.
//! `Pool` and `Stream` are cheap to clone. The last one to go gives the memory back to the driver, and may then wait
//! for the GPU. A pool cannot implement `std::alloc::Allocator`, because the host cannot read and write through device
//! addresses.
//!
//! # Errors
//!
//! Every failure is an [`Error`] with its [`ErrorKind`], the driver's number and an explanation. A call that
//! fails changes nothing.
#![deny(missing_docs, unsafe_op_in_unsafe_fn)]
#![warn(clippy::missing_errors_doc, clippy::undocumented_unsafe_blocks)]

mod block;
mod builder;
mod callbacks;
#[cfg(feature = "cudarc")]
mod cudarc;
mod debug;
mod device;
mod error;
mod error_kind;
mod exports;
mod library;
mod observe;
mod pool;
mod raw;
mod record;
mod share;
pub mod sim;
mod sleep;
mod slice;
mod snapshot;
mod stats;
mod stream;
pub mod testing;
mod transfer;
mod vec;
mod words;

pub use block::{Block, Pod};
pub use builder::{Builder, Kind, Mode};
#[cfg(feature = "cudarc")]
pub use cudarc::CudaLoan;
pub use debug::{set_debug, why, Access, Damage};
pub use device::{device_count, device_info, Backend, DeviceInfo};
pub use error::{Error, Result};
pub use error_kind::ErrorKind;
pub use exports::Import;
pub use library::{features, log_to, log_to_stderr, version, version_string, Features, LogLevel};
pub use pool::Pool;
pub use record::{mark, record_start, record_stop, set_sampling, Holder, Tag};
pub use share::{share_info, share_repair, share_set, ShareFigure, ShareGroup, ShareMember};
pub use sleep::{sleep_tag, wake_tag, SleepMode, SleepOptions, SleepResult, SleepState, WakeOptions};
pub use slice::{PoolSlice, PoolSliceMut};
pub use snapshot::{BlockInfo, BlockState, Segment, Snapshot};
pub use stats::{CallStat, DriverStats, ShareState, Stat, StatGroup, Stats};
pub use stream::{Stream, StreamId};
pub use transfer::Transfer;
pub use vec::PoolVec;
pub use words::{Device, Limit};

/// The crate that the macro [`pod!`] uses.
#[cfg(feature = "bytemuck")]
pub use ::bytemuck;

/// The README's programs are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

/// The C functions, for what this crate does not cover.
pub use gpupool_sys as sys;
