// SPDX-License-Identifier: Apache-2.0
//! How to create a pool.

use std::mem::size_of;
use std::ptr;
use std::time::Duration;

use gpupool_sys as sys;

use crate::callbacks::Upstream;
use crate::error::check;
use crate::words::c_text;
use crate::{library, Backend, Device, Error, Limit, Pool, Result, StreamId};

/// How memory is obtained from the backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// `Vmm` if the device and the kind allow it, else `Driver`.
    #[default]
    Auto,
    /// Chunks, mapped where they are needed: the tightest mode. [`Kind::Device`] only.
    Vmm,
    /// Segments from the driver's own malloc: for old devices, cudaIpc and RDMA through peermem.
    Driver,
}

impl Mode {
    fn number(self) -> i32 {
        let mode = match self {
            Mode::Auto => sys::GPUPOOL_MODE_AUTO,
            Mode::Vmm => sys::GPUPOOL_MODE_VMM,
            Mode::Driver => sys::GPUPOOL_MODE_DRIVER,
        };
        mode.0 as i32
    }
}

/// What kind of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// The device's own.
    #[default]
    Device,
    /// Page-locked host memory that the device can read and write.
    Pinned,
    /// Memory that the driver moves between host and device.
    Managed,
}

impl Kind {
    fn number(self) -> i32 {
        let kind = match self {
            Kind::Device => sys::GPUPOOL_KIND_DEVICE,
            Kind::Pinned => sys::GPUPOOL_KIND_PINNED,
            Kind::Managed => sys::GPUPOOL_KIND_MANAGED,
        };
        kind.0 as i32
    }
}

/// Sets everything in which a pool should differ from the defaults.
///
/// ```
/// use gpupool::{Backend, Pool};
///
/// # fn main() -> gpupool::Result<()> {
/// let pool = Pool::builder().device("sim:1").limit("1GiB").build()?;
/// assert_eq!(pool.stats()?.limit_bytes, 1 << 30);
/// let same = Pool::builder().backend(Backend::Sim).device(1).limit_bytes(1 << 30).build()?;
/// assert_eq!(same.stats()?.limit_bytes, 1 << 30);
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
#[must_use]
pub struct Builder {
    device: i32,
    backend: Backend,
    mode: Mode,
    kind: Kind,
    capture_aware: bool,
    fraction: f64,
    limit_bytes: u64,
    slack: f64,
    max_chunk_bytes: u64,
    peers: Vec<i32>,
    share: Option<String>,
    guaranteed_bytes: u64,
    share_wait: Duration,
    priority: i32,
    idle_seconds: f64,
    upstream: Option<Box<Upstream>>,
    /// The first argument that could not be read.
    failure: Option<Error>,
}

impl Builder {
    /// The device: its number, from 0, a name such as "cuda:1", or a [`Device`]. A name with a backend chooses it, as
    /// [`backend`](Builder::backend) does; the last call counts. Default: 0. [`build`](Builder::build) reports a bad
    /// name.
    pub fn device<D>(mut self, device: D) -> Builder
    where
        D: TryInto<Device>,
        D::Error: Into<Error>,
    {
        match device.try_into() {
            Ok(Device { backend, number }) => {
                self.device = number;
                if backend != Backend::Auto {
                    self.backend = backend;
                }
            }
            Err(failure) => self.fail(failure.into()),
        }
        self
    }

    /// Default: CUDA if there is a usable GPU, else the simulated device.
    pub fn backend(mut self, backend: Backend) -> Builder {
        self.backend = backend;
        self
    }

    /// How memory is obtained from the backend.
    pub fn mode(mut self, mode: Mode) -> Builder {
        self.mode = mode;
        self
    }

    /// What kind of memory.
    pub fn kind(mut self, kind: Kind) -> Builder {
        self.kind = kind;
        self
    }

    /// Asks the driver at every malloc and free whether the stream is capturing a graph; memory allocated and freed
    /// while capturing is reused only within that capture. Costs one driver query per call.
    pub fn capture_aware(mut self, capture_aware: bool) -> Builder {
        self.capture_aware = capture_aware;
        self
    }

    /// Limits reserved memory to a fraction of the device's, in (0, 1]; 0: no such limit, the default.
    pub fn fraction(mut self, fraction: f64) -> Builder {
        self.fraction = fraction;
        self
    }

    /// Limits reserved memory in bytes; 0: no such limit, the default. The smaller of both limits applies.
    pub fn limit_bytes(mut self, limit_bytes: u64) -> Builder {
        self.limit_bytes = limit_bytes;
        self
    }

    /// The same as a string, "8GiB" or "40%" of the device's memory, or as a [`Limit`]. [`build`](Builder::build)
    /// reports a bad string. Since 0.2.
    pub fn limit<L>(mut self, limit: L) -> Builder
    where
        L: TryInto<Limit>,
        L::Error: Into<Error>,
    {
        match limit.try_into() {
            Ok(Limit::Bytes(bytes)) => self.limit_bytes = bytes,
            Ok(Limit::Share(share)) => self.fraction = share,
            Err(failure) => self.fail(failure.into()),
        }
        self
    }

    /// By how much reserved memory may exceed the live peak to save driver calls, as a fraction in [0, 10]: 0.1 allows
    /// 10 per cent. 0: default: tight while that costs at most a thousandth of the time, and more where there is room
    /// (since 0.2). -1: always tight, whatever it costs (since 0.2).
    pub fn slack(mut self, slack: f64) -> Builder {
        self.slack = slack;
        self
    }

    /// Size of the largest chunk, a power of two from 2 MiB; 0: 16 MiB, and up to 128 MiB in a large pool while
    /// most of the limit is free.
    pub fn max_chunk_bytes(mut self, max_chunk_bytes: u64) -> Builder {
        self.max_chunk_bytes = max_chunk_bytes;
        self
    }

    /// Other devices that may access this pool's memory.
    pub fn peers(mut self, peers: &[i32]) -> Builder {
        self.peers = peers.to_vec();
        self
    }

    /// The group of processes to share the device's memory with; "" is none, whatever GPUPOOL_SHARE in the
    /// environment says. Since 0.2.
    pub fn share(mut self, group: &str) -> Builder {
        self.share = Some(group.to_owned());
        self
    }

    /// This pool's guaranteed part of the group's memory, in bytes. Since 0.2.
    pub fn guaranteed_bytes(mut self, bytes: u64) -> Builder {
        self.guaranteed_bytes = bytes;
        self
    }

    /// How long an allocation waits for neighbours to give memory back; zero: 50 ms. Since 0.2.
    pub fn share_wait(mut self, wait: Duration) -> Builder {
        self.share_wait = wait;
        self
    }

    /// Decides which member gives first and which gets first, from -8 to 8. Since 0.2.
    pub fn priority(mut self, priority: i32) -> Builder {
        self.priority = priority;
        self
    }

    /// After how many seconds without a malloc the pool gives its cached memory back to the device. 0: as
    /// `GPUPOOL_IDLE` says, else never; -1: never. Since 0.2.
    pub fn idle_seconds(mut self, idle_seconds: f64) -> Builder {
        self.idle_seconds = idle_seconds;
        self
    }

    /// Takes memory from your own functions instead of the backend's; heaps, statistics, limits and the rest
    /// work the same over it. `malloc` gets the size and the stream, and returns an address aligned to at least
    /// 512, or None for "no more memory". `free` takes back what it gave, with address, size and stream; no work still
    /// uses it. Both are called from any thread, with no lock held. A panic in `malloc` counts as None, in `free` as
    /// done.
    ///
    /// # Safety
    /// `malloc` returns addresses of that many bytes, which nothing else uses and which the device may read and
    /// write until `free` gets them.
    pub unsafe fn upstream<M, F>(mut self, malloc: M, free: F) -> Builder
    where
        M: Fn(u64, StreamId) -> Option<u64> + Send + Sync + 'static,
        F: Fn(u64, u64, StreamId) + Send + Sync + 'static,
    {
        self.upstream = Some(Box::new(Upstream { malloc: Box::new(malloc), free: Box::new(free) }));
        self
    }

    fn fail(&mut self, failure: Error) {
        self.failure.get_or_insert(failure);
    }

    /// Creates the pool. Takes no memory from the device yet. Uses the current CUDA context if it belongs to the
    /// device, else the device's primary context.
    ///
    /// # Errors
    /// `InvalidArgument` for options out of range and no such device; `Unavailable` without a driver or a GPU;
    /// `Unsupported` for what the device cannot do; `Driver`, `HostOutOfMemory`.
    pub fn build(self) -> Result<Pool> {
        library::check_version()?;
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let mut config = sys::gpupool_config_t::default();
        // SAFETY: the struct is as long as the call says.
        check(unsafe { sys::gpupool_config_init(&mut config, size_of::<sys::gpupool_config_t>()) })?;
        if self.capture_aware {
            config.flags = sys::GPUPOOL_FLAG_CAPTURE_AWARE.0;
        }
        config.device = self.device;
        config.backend = self.backend.number();
        config.mode = self.mode.number();
        config.kind = self.kind.number();
        config.fraction = self.fraction;
        config.limit_bytes = self.limit_bytes;
        config.slack = self.slack;
        config.max_chunk_bytes = self.max_chunk_bytes;
        config.peers = self.peers.as_ptr();
        config.peer_count = self.peers.len() as u32;
        let group = self.share.as_deref().map(|name| c_text("share", name)).transpose()?;
        config.share = group.as_ref().map_or(ptr::null(), |name| name.as_ptr());
        config.guaranteed_bytes = self.guaranteed_bytes;
        config.share_wait_ns = u64::try_from(self.share_wait.as_nanos()).unwrap_or(u64::MAX);
        config.priority = self.priority;
        config.idle_seconds = self.idle_seconds;
        if let Some(upstream) = &self.upstream {
            config.mode = sys::GPUPOOL_MODE_UPSTREAM.0 as i32;
            config.upstream_malloc = Some(Upstream::malloc);
            config.upstream_free = Some(Upstream::free);
            config.upstream_user = upstream.as_user();
        }
        let mut handle = ptr::null_mut();
        // SAFETY: peers are copied; the pool keeps the upstream for as long as it may be called.
        check(unsafe { sys::gpupool_create(&config, &mut handle) })?;
        Ok(Pool::adopt(handle, self.backend, self.upstream))
    }
}
