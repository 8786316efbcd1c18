// SPDX-License-Identifier: Apache-2.0
//! The simulated device: exact rules, virtual time and scripted failures. Use it to test your own programs without a
//! GPU, and to test what they do when the driver fails.
//!
//! ```
//! use gpupool::{sim, Backend, Pool};
//!
//! # fn main() -> gpupool::Result<()> {
//! sim::configure(3, &sim::Config { capacity_bytes: 64 << 20, ..Default::default() })?;
//! let pool = Pool::builder().backend(Backend::Sim).device(3).build()?;
//! let failure = pool.create_stream()?.block(1 << 30).unwrap_err();
//! assert!(failure.is_out_of_memory());
//! # Ok(())
//! # }
//! ```

use std::mem::size_of;

use gpupool_sys as sys;

use crate::error::{check, text};
use crate::words::c_text;
use crate::{library, Result, StreamId};

/// How a simulated device behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Config {
    /// What backs its addresses.
    pub data: Data,
    /// The device's memory; 0: what `GPUPOOL_SIM` says, or an H200's.
    pub capacity_bytes: u64,
    /// Multiplies the measured prices of driver calls; 0: default, 1.
    pub price_scale: f64,
    /// Only 0 and streams that a pool created are streams; any other number breaks a rule of the device. Since 0.2.
    pub strict_streams: bool,
    /// How much host memory can be page-locked; 0: 1 TiB. Since 0.2.
    pub host_bytes: u64,
}

/// What backs the addresses of a simulated device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Data {
    /// Real host memory with true aliasing: an address may be cast to a pointer and used.
    #[default]
    Host,
    /// Nothing, for speed. Copies are refused.
    None,
}

/// Sets how simulated device number `device` behaves. Possible only while no pool uses it.
///
/// # Errors
/// `InvalidArgument` for no such device, one in use, and fields out of range.
pub fn configure(device: i32, config: &Config) -> Result<()> {
    library::check_version()?;
    let c_config = sys::gpupool_sim_config_t {
        struct_size: size_of::<sys::gpupool_sim_config_t>() as u32,
        data: match config.data {
            Data::Host => 1,
            Data::None => 2,
        },
        capacity_bytes: config.capacity_bytes,
        price_scale: config.price_scale,
        streams: if config.strict_streams { 2 } else { 1 },
        host_bytes: config.host_bytes,
        ..Default::default()
    };
    // SAFETY: the struct says how long it is.
    check(unsafe { sys::gpupool_sim_configure(device, &c_config) })
}

/// Makes calls of the simulated driver fail. The script is a list `CALL:NUMBER[=ERROR]` with commas: CALL is
/// create, release, map, set_access, unmap, address, malloc, free, event_record, query, stream_wait or host_wait;
/// NUMBER counts that call's occurrences from 1, starting now, or is * for every one; ERROR is out_of_memory or
/// error (default). An empty script ends all failures.
///
/// # Errors
/// `InvalidArgument` for no such device; `InvalidArgument` also for a script that was not understood, with the part.
pub fn script(device: i32, script: &str) -> Result<()> {
    let script = c_text("script", script)?;
    // SAFETY: the string ends with a zero.
    check(unsafe { sys::gpupool_sim_script(device, script.as_ptr()) })
}

/// Queues work on a stream that takes this much virtual time, and reads and writes `bytes` at `address` (both may be
/// 0). An access to unmapped memory, or to memory that another stream's unfinished work still uses, breaks a rule of
/// the device: see [`faults`].
///
/// # Errors
/// `InvalidArgument` for no such device; `Driver` for what breaks a rule of the device.
pub fn work(device: i32, stream: StreamId, address: u64, bytes: u64, nanoseconds: u64) -> Result<()> {
    // SAFETY: the simulated device checks the numbers, and touches no memory.
    check(unsafe { sys::gpupool_sim_work(device, stream.number(), address, bytes, nanoseconds) })
}

/// Lets virtual time pass.
///
/// # Errors
/// `InvalidArgument` for no such device.
pub fn advance(device: i32, nanoseconds: u64) -> Result<()> {
    // SAFETY: numbers only.
    check(unsafe { sys::gpupool_sim_advance(device, nanoseconds) })
}

/// Begins capture on a stream, as cuStreamBeginCapture does. Work, fills and copies queued meanwhile are recorded for
/// [`launch`], not done.
///
/// # Errors
/// `InvalidArgument` for no such device; `Driver` if the stream is capturing.
pub fn begin_capture(device: i32, stream: StreamId) -> Result<()> {
    // SAFETY: the simulated device checks the numbers.
    check(unsafe { sys::gpupool_sim_capture(device, stream.number(), 1) })
}

/// Ends capture on a stream, as cuStreamEndCapture does.
///
/// # Errors
/// `InvalidArgument` for no such device; `Driver` if the stream is not capturing.
pub fn end_capture(device: i32, stream: StreamId) -> Result<()> {
    // SAFETY: the simulated device checks the numbers.
    check(unsafe { sys::gpupool_sim_capture(device, stream.number(), 0) })
}

/// Queues on a stream what an ended capture of this device recorded, as cuGraphLaunch does: at the addresses of the
/// capture, which must be mapped now, or it breaks a rule of the device. `capture` is the number that
/// [`Stream::capture_id`](crate::Stream::capture_id) returned during the capture; use any stream of the device, any
/// number of times. Since 0.2.
///
/// # Errors
/// `InvalidArgument` for no such device, no such capture on it, or one still in progress; `Driver` and `Unsupported` as
/// for work, fills and copies.
///
/// # Safety
/// The recorded work runs again: the memory that it reads and writes, on the device and on the host, must still belong
/// to the caller.
pub unsafe fn launch(device: i32, capture: u64, stream: StreamId) -> Result<()> {
    // SAFETY: as the caller promises.
    check(unsafe { sys::gpupool_sim_launch(device, capture, stream.number()) })
}

/// Holds the physical memory mapped at an address as another library such as NCCL would: it does not return to the
/// device until this is called with 0. Since 0.2.
///
/// # Errors
/// `InvalidArgument` for no such device, and an address where nothing is mapped.
pub fn hold(device: i32, address: u64) -> Result<()> {
    // SAFETY: any address will do.
    check(unsafe { sys::gpupool_sim_hold(device, address) })
}

/// The device's rules broken so far: use of unmapped memory, races between streams, unmapping memory in use, calls that
/// are illegal during capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// How many.
    pub count: u64,
    /// A description of the last one.
    pub last: String,
}

/// Counts the device's rules broken so far.
///
/// # Errors
/// `InvalidArgument` for no such device.
pub fn faults(device: i32) -> Result<Faults> {
    let mut count = 0;
    let mut last = [0; 512];
    // SAFETY: the text is as long as the call says.
    check(unsafe { sys::gpupool_sim_faults(device, &mut count, last.as_mut_ptr(), last.len()) })?;
    Ok(Faults { count, last: text(&last) })
}
