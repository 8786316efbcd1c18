// SPDX-License-Identifier: Apache-2.0
// The contexts that a device's users share. This process keeps one reference to each that it uses, for ever.
#pragma once

#include "device/cuda/api.hpp"

namespace gpupool::internal {

/// Whether the device's primary context exists. It does not after a reset, until somebody retains it again.
Status is_primary_active(const CudaDriver& driver, cuda::CUdevice device, bool& is_active) noexcept;

/// Gives a device's primary context, and creates it if there is none.
Status retain_primary(const CudaDriver& driver, cuda::CUdevice device, cuda::CUcontext& context) noexcept;

/// Says whether a context is its device's primary one.
Status is_primary(const CudaDriver& driver, cuda::CUdevice device, cuda::CUcontext context,
                  bool& is_primary) noexcept;

/// The same. If so, a reference is kept.
Status retain_if_primary(const CudaDriver& driver, cuda::CUdevice device, cuda::CUcontext context,
                         bool& is_primary) noexcept;

}  // namespace gpupool::internal
