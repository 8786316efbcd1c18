// SPDX-License-Identifier: Apache-2.0
//! Statistics of a pool.

use gpupool_sys as sys;

/// A struct of ours for one of the library's. Names every field, so that a new one does not compile until it is added
/// here.
macro_rules! mirror {
    ($(#[$about:meta])* $ours:ident of $theirs:ident, without $($left_out:ident)?;
     $($(#[$doc:meta])* $field:ident: $type:ty,)*) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[non_exhaustive]
        pub struct $ours { $($(#[$doc])* pub $field: $type,)* }

        impl From<sys::$theirs> for $ours {
            fn from(theirs: sys::$theirs) -> $ours {
                let sys::$theirs { $($left_out: _,)? $($field,)* } = theirs;
                $ours { $($field: $field.into(),)* }
            }
        }
    };
}

mirror! {
    /// One quantity over time. `total_allocated - total_freed = current`. Current and totals are exact whenever no call
    /// is in flight. While one thread allocates, the peak is exact; with several, it is too high by at most 16 MiB (or
    /// 4096 blocks) per thread. The peaks of reserved bytes and chunks are always exact.
    Stat of gpupool_stat_t, without;
    /// Now.
    current: u64,
    /// The highest so far, or since [`Pool::reset_peaks`](crate::Pool::reset_peaks).
    peak: u64,
    /// Sum of all increases.
    total_allocated: u64,
    /// Sum of all decreases.
    total_freed: u64,
}

mirror! {
    /// The quantities of a group of blocks.
    StatGroup of gpupool_stat_group_t, without;
    /// Requested bytes.
    requested_bytes: Stat,
    /// Requested, rounded up to a multiple of 512.
    allocated_bytes: Stat,
    /// Allocated, and freed blocks that a stream may still be using.
    active_bytes: Stat,
    /// Physical memory held: active, cached and slack.
    reserved_bytes: Stat,
    /// Blocks that are handed out.
    allocated_blocks: Stat,
    /// The same, and freed ones that a stream may still be using.
    active_blocks: Stat,
    /// Pieces of physical memory.
    chunks: Stat,
}

mirror! {
    /// How often a driver function was called, including failed calls, and how long the calls took. On the simulated
    /// device the time is virtual.
    CallStat of gpupool_call_stat_t, without;
    /// Calls.
    count: u64,
    /// Total nanoseconds.
    nanoseconds: u64,
}

mirror! {
    /// Calls of the driver by kind.
    DriverStats of gpupool_driver_stats_t, without;
    /// Creating chunks.
    create: CallStat,
    /// Giving chunks back.
    release: CallStat,
    /// Mapping chunks at addresses.
    map: CallStat,
    /// Making mapped memory accessible.
    set_access: CallStat,
    /// Removing mappings.
    unmap: CallStat,
    /// Reserving and releasing addresses.
    address: CallStat,
    /// The driver's own malloc, or the upstream's.
    malloc: CallStat,
    /// The driver's own free, or the upstream's.
    free: CallStat,
    /// Recording events.
    event_record: CallStat,
    /// Queries of events, streams and capture.
    query: CallStat,
    /// One stream made to wait for another, on the GPU.
    stream_wait: CallStat,
    /// The host waiting for the GPU.
    host_wait: CallStat,
}

mirror! {
    /// Statistics of a pool. `all` is `small` and `large`: blocks of up to 1 MiB are small. Reserved bytes and chunks
    /// of a group count the chunks that back its heaps now.
    Stats of gpupool_stats_t, without struct_size;
    /// Number of the pool's device.
    device: i32,
    /// The limit in force, in bytes, whether set so, as a fraction or in the environment; 0: none.
    limit_bytes: u64,
    /// Reserved and free to hand out.
    cached_bytes: u64,
    /// The part of it that [`Pool::empty`](crate::Pool::empty) would give back: chunks that no block touches.
    releasable_bytes: u64,
    /// Reserved, but neither active nor available: memory that a graph's capture keeps.
    slack_bytes: u64,
    /// All blocks.
    all: StatGroup,
    /// Blocks of more than 1 MiB.
    large: StatGroup,
    /// Blocks of up to 1 MiB.
    small: StatGroup,
    /// Calls of the driver by kind.
    driver: DriverStats,
    /// Mallocs served by a thread's own cache.
    hits: u64,
    /// The other mallocs.
    misses: u64,
    /// Free chunks mapped at another address, or handed to another stream.
    steals: u64,
    /// Those that came from another stream.
    stream_steals: u64,
    /// Mallocs that met a shortage.
    retries: u64,
    /// Times the handler was called.
    oom_handler_calls: u64,
    /// Mallocs that failed.
    failed_mallocs: u64,
    /// Streams that this pool has seen and not released.
    streams: u64,
    /// Host memory of the pool's own records.
    metadata_bytes: u64,
    /// Memory that waking will create, because the pool is asleep. It is not part of reserved bytes. Its blocks still
    /// count as active. Since 0.2.
    asleep_bytes: u64,
    /// Page-locked host memory that the pool holds to sleep with. Since 0.2.
    backup_bytes: u64,
    /// How often the pool fell asleep. Since 0.2.
    sleeps: u64,
    /// How often it woke. Since 0.2.
    wakes: u64,
    /// More calls of the driver: copies of sleep and wake. Since 0.2.
    copy: CallStat,
    /// Streams created and destroyed for them. Since 0.2.
    stream: CallStat,
    /// Bytes that this process gave back because others in its group were short. Since 0.2.
    share_given_bytes: u64,
    /// Bytes that it got after asking them. Since 0.2.
    share_taken_bytes: u64,
    /// Whether the pool shares the device with other processes. Since 0.2.
    share_state: ShareState,
    /// The number of the process in its group. Since 0.2.
    share_slot: u32,
    /// What the pool was created with, or was limited to since, in bytes; 0: nothing. Since 0.2.
    own_limit_bytes: u64,
}

/// Whether a pool shares the device with other processes. Since 0.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum ShareState {
    /// It was not asked to.
    #[default]
    Off,
    /// It was asked to, but cannot: it behaves as if it had the device to itself. The reason was written to standard
    /// error.
    Alone,
    /// It does.
    Shared,
}

impl From<i32> for ShareState {
    fn from(state: i32) -> ShareState {
        match state as u32 {
            state if state == sys::GPUPOOL_SHARE_STATE_ALONE.0 => ShareState::Alone,
            state if state == sys::GPUPOOL_SHARE_STATE_SHARED.0 => ShareState::Shared,
            _ => ShareState::Off,
        }
    }
}

impl DriverStats {
    /// Every kind with the name of its field, in the order of the fields.
    pub fn by_kind(&self) -> [(&'static str, CallStat); 12] {
        [
            ("create", self.create),
            ("release", self.release),
            ("map", self.map),
            ("set_access", self.set_access),
            ("unmap", self.unmap),
            ("address", self.address),
            ("malloc", self.malloc),
            ("free", self.free),
            ("event_record", self.event_record),
            ("query", self.query),
            ("stream_wait", self.stream_wait),
            ("host_wait", self.host_wait),
        ]
    }

    /// Calls of all kinds.
    pub fn total(&self) -> CallStat {
        let kinds = self.by_kind();
        CallStat {
            count: kinds.iter().map(|(_, calls)| calls.count).sum(),
            nanoseconds: kinds.iter().map(|(_, calls)| calls.nanoseconds).sum(),
        }
    }
}
