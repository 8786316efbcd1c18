// SPDX-License-Identifier: Apache-2.0
//! Devices and where they come from.

use std::fmt;
use std::mem::size_of;

use gpupool_sys as sys;

use crate::error::{check, text};
use crate::{library, Result};

/// Where memory comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Backend {
    /// CUDA if there is a usable GPU, else the simulated device. `GPUPOOL_BACKEND=cuda|sim|host` in the
    /// environment overrides this.
    #[default]
    Auto,
    /// A GPU.
    Cuda,
    /// The simulated device.
    Sim,
    /// Memory of the host, without a GPU and without a simulation.
    Host,
}

impl Backend {
    pub(crate) fn to_c(self) -> sys::gpupool_backend_t {
        match self {
            Backend::Auto => sys::GPUPOOL_BACKEND_AUTO,
            Backend::Cuda => sys::GPUPOOL_BACKEND_CUDA,
            Backend::Sim => sys::GPUPOOL_BACKEND_SIM,
            Backend::Host => sys::GPUPOOL_BACKEND_HOST,
        }
    }

    pub(crate) fn from_c(backend: sys::gpupool_backend_t) -> Backend {
        match backend {
            sys::GPUPOOL_BACKEND_CUDA => Backend::Cuda,
            sys::GPUPOOL_BACKEND_SIM => Backend::Sim,
            sys::GPUPOOL_BACKEND_HOST => Backend::Host,
            _ => Backend::Auto,
        }
    }

    pub(crate) fn number(self) -> i32 {
        self.to_c().0 as i32
    }
}

/// "auto", "cuda", "sim" or "host".
impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Backend::Auto => "auto",
            Backend::Cuda => "cuda",
            Backend::Sim => "sim",
            Backend::Host => "host",
        })
    }
}

/// A device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct DeviceInfo {
    /// `Cuda` or `Sim`.
    pub backend: Backend,
    /// Number of the device, from 0.
    pub device: i32,
    /// It can map physical memory where it is needed: [`Mode::Vmm`](crate::Mode::Vmm).
    pub has_vmm: bool,
    /// Other devices of the machine can reach its memory by GPUDirect RDMA.
    pub has_rdma: bool,
    /// It knows memory that the driver moves: [`Kind::Managed`](crate::Kind::Managed).
    pub has_managed: bool,
    /// It has no memory of its own, but uses the host's: a pool sleeps with [`SleepMode::Drop`](crate::SleepMode::Drop)
    /// only. Since 0.2.
    #[cfg_attr(feature = "serde", serde(default))]
    pub is_integrated: bool,
    /// The size of its memory.
    pub total_bytes: u64,
    /// What the device itself reports as free now, whoever holds the rest.
    pub free_bytes: u64,
    /// Sizes of chunks are multiples of this.
    pub granularity_bytes: u64,
    /// As the driver reports it: 13000 is 13.0. 0 for the simulated device.
    pub driver_version: i32,
    /// Compute capability: 90 is 9.0.
    pub compute_capability: i32,
    /// For example "NVIDIA H200".
    pub name: String,
}

impl From<sys::gpupool_device_info_t> for DeviceInfo {
    fn from(info: sys::gpupool_device_info_t) -> DeviceInfo {
        let can = |capability: sys::gpupool_capability_t| info.capabilities & capability.0 != 0;
        DeviceInfo {
            backend: Backend::from_c(sys::gpupool_backend_t(info.backend as u32)),
            device: info.device,
            has_vmm: can(sys::GPUPOOL_CAPABILITY_VMM),
            has_rdma: can(sys::GPUPOOL_CAPABILITY_RDMA),
            has_managed: can(sys::GPUPOOL_CAPABILITY_MANAGED),
            is_integrated: can(sys::GPUPOOL_CAPABILITY_INTEGRATED),
            total_bytes: info.total_bytes,
            free_bytes: info.free_bytes,
            granularity_bytes: info.granularity_bytes,
            driver_version: info.driver_version,
            compute_capability: info.compute_capability,
            name: text(&info.name),
        }
    }
}

/// Counts the devices of a backend. Without a GPU, [`Backend::Cuda`] gives
/// [`Unavailable`](crate::ErrorKind::Unavailable) with the reason.
///
/// # Errors
/// `Unavailable`, with the reason.
pub fn device_count(backend: Backend) -> Result<i32> {
    library::check_version()?;
    let mut count = 0;
    // SAFETY: the out-parameter is a local.
    check(unsafe { sys::gpupool_device_count(backend.to_c(), &mut count) })?;
    Ok(count)
}

/// Describes a device.
///
/// # Errors
/// `InvalidArgument` for no such device; `Unavailable`, `Driver`.
pub fn device_info(backend: Backend, device: i32) -> Result<DeviceInfo> {
    library::check_version()?;
    let mut info = sys::gpupool_device_info_t {
        struct_size: size_of::<sys::gpupool_device_info_t>() as u32,
        ..Default::default()
    };
    // SAFETY: the struct says how long it is.
    check(unsafe { sys::gpupool_device_info(backend.to_c(), device, &mut info) })?;
    Ok(info.into())
}
