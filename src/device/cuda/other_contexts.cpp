// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/other_contexts.hpp"

#include "device/cuda/primary_context.hpp"
#include "device/cuda/scope.hpp"

namespace gpupool::internal {

/// Before CUDA 12 a context has no number: its handle is all there is.
Status OtherContexts::ask(cuda::CUcontext handle, uint64_t& number) const noexcept {
  number = reinterpret_cast<uintptr_t>(handle);
  if (driver_.cuCtxGetId == nullptr) return kSuccess;
  unsigned long long id = 0;
  const Status status = cuda_status(driver_.cuCtxGetId(handle, &id), "cuCtxGetId");
  if (status == kSuccess) number = id;
  return status;
}

Status OtherContexts::look_at(Context& context) const noexcept {
  const CudaScope scope(driver_, context.handle, CaptureSafety::unsafe);
  if (scope.status() != kSuccess) return scope.status();
  const Status status = cuda_status(driver_.cuCtxGetDevice(&context.device), "cuCtxGetDevice");
  if (status != kSuccess) return status;
  return is_primary(driver_, context.device, context.handle, context.is_primary);
}

Status OtherContexts::learn(cuda::CUcontext handle, uint64_t& number) {
  const std::lock_guard lock(mutex_);
  if (const Status status = ask(handle, number); status != kSuccess) return status;
  if (known_.contains(number)) return kSuccess;
  Context context{.handle = handle};
  const Status status = look_at(context);
  if (status == kSuccess) known_.emplace(number, context);
  return status;
}

bool OtherContexts::is_there(const Context& context, uint64_t number) const noexcept {
  bool is_active = true;
  if (context.is_primary && (is_primary_active(driver_, context.device, is_active) != kSuccess || !is_active))
    return false;
  uint64_t now = 0;
  return ask(context.handle, now) == kSuccess && now == number;
}

cuda::CUcontext OtherContexts::find(uint64_t number) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(number);
  if (found == known_.end()) return nullptr;
  const KeepError keep_error;
  const bool there = is_there(found->second, number);
  if (there) return found->second.handle;
  known_.erase(found);
  return nullptr;
}

}  // namespace gpupool::internal
