// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/primary_context.hpp"

#include <array>

namespace gpupool::internal {
namespace {

using cuda::CUcontext;
using cuda::CUDA_SUCCESS;
using cuda::CUdevice;
using cuda::CUresult;

/// Those that this process has a reference to, by device.
constinit std::array<std::atomic<CUcontext>, 64> kept_contexts{};

Status retain(const CudaDriver& driver, CUdevice device, CUcontext& context) noexcept {
  const CUresult result = driver.cuDevicePrimaryCtxRetain(&context, device);
  if (result == CUDA_SUCCESS) return kSuccess;
  if (result == cuda::CUDA_ERROR_DEVICE_UNAVAILABLE) {
    return fail_driver(
        GPUPOOL_ERROR_UNAVAILABLE, static_cast<int32_t>(result),
        "CUDA device %d is busy: another process uses it exclusively, or its compute mode is prohibited",
        device);
  }
  return cuda_status(result, "cuDevicePrimaryCtxRetain(device %d)", device);
}

Status release(const CudaDriver& driver, CUdevice device) noexcept {
  return cuda_status(driver.cuDevicePrimaryCtxRelease_v2(device), "cuDevicePrimaryCtxRelease(device %d)",
                     device);
}

/// Releases a new reference if there is one already. One to a context that was not there any more went with
/// it.
Status keep_one(const CudaDriver& driver, CUdevice device, CUcontext context, bool was_active) noexcept {
  if (static_cast<size_t>(device) >= kept_contexts.size()) return kSuccess;
  const CUcontext before = kept_contexts[static_cast<size_t>(device)].exchange(context);
  return before == context && was_active ? release(driver, device) : kSuccess;
}

}  // namespace

Status is_primary_active(const CudaDriver& driver, CUdevice device, bool& is_active) noexcept {
  unsigned flags = 0;
  int active = 0;
  const CUresult result = driver.cuDevicePrimaryCtxGetState(device, &flags, &active);
  if (result != CUDA_SUCCESS) return cuda_status(result, "cuDevicePrimaryCtxGetState(device %d)", device);
  is_active = active != 0;
  return kSuccess;
}

Status retain_primary(const CudaDriver& driver, CUdevice device, CUcontext& context) noexcept {
  bool was_active = false;
  Status status = is_primary_active(driver, device, was_active);
  if (status == kSuccess) status = retain(driver, device, context);
  return status == kSuccess ? keep_one(driver, device, context, was_active) : status;
}

Status is_primary(const CudaDriver& driver, CUdevice device, CUcontext context, bool& is_primary) noexcept {
  is_primary = false;
  bool is_active = false;
  if (const Status status = is_primary_active(driver, device, is_active); status != kSuccess || !is_active)
    return status;
  CUcontext primary = nullptr;
  if (const Status status = retain(driver, device, primary); status != kSuccess) return status;
  is_primary = primary == context;
  return release(driver, device);
}

Status retain_if_primary(const CudaDriver& driver, CUdevice device, CUcontext context,
                         bool& is_primary) noexcept {
  const Status status = internal::is_primary(driver, device, context, is_primary);
  if (status != kSuccess || !is_primary) return status;
  CUcontext primary = nullptr;
  return retain_primary(driver, device, primary);
}

}  // namespace gpupool::internal
