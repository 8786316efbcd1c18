// SPDX-License-Identifier: Apache-2.0
// Devices that use each other's memory.
#pragma once

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>

#include "device_pools.hpp"

namespace gpupool_torch {

/// Lets a device use all memory that is mapped in another one's pool, now and later, whatever it serves.
inline void enable_peer(DeviceIndex device, DeviceIndex device_to_access, gpupool_t* pool) {
  const c10::cuda::CUDAGuard guard(device);
  const cudaError_t result = cudaDeviceEnablePeerAccess(device_to_access, 0);
  if (result == cudaErrorPeerAccessAlreadyEnabled) {
    (void)cudaGetLastError();
  } else {
    C10_CUDA_CHECK(result);
  }
  TORCH_CHECK(gpupool_enable_peer(pool, device) == GPUPOOL_SUCCESS, "gpupool: ", last_error());
}

/// Without peer access, only the copy between contexts knows how to reach mapped memory.
inline cudaError_t copy_between(void* to, int to_device, const void* from, int from_device, size_t size,
                                cudaStream_t stream, bool p2p_enabled) {
  if (p2p_enabled || to_device == from_device)
    return cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, stream);
  return cudaMemcpyPeerAsync(to, to_device, from, from_device, size, stream);
}

}  // namespace gpupool_torch
