// SPDX-License-Identifier: Apache-2.0
// What surrounds a call of the CUDA driver.
#pragma once

#include "base/no_copy.hpp"
#include "device/cuda/api.hpp"

namespace gpupool::internal {

/// Whether the driver refuses the call, and ends the capture with an error, while any stream of the process
/// captures a graph in global mode.
enum class CaptureSafety { safe, unsafe };

/// For its lifetime, `context` is current on this thread (null: whatever is), and with `unsafe` the thread's
/// capture mode is relaxed, because the pool's work on its own memory belongs to no graph. Afterwards both
/// are restored. Once the driver has gone, it calls nothing, not even at the end.
class CudaScope : NoCopy {
 public:
  CudaScope(const CudaDriver& driver, cuda::CUcontext context, CaptureSafety safety) noexcept
      : driver_(driver), status_(cuda_usable()) {
    if (status_ == kSuccess) status_ = make_current(context);
    if (status_ == kSuccess && safety == CaptureSafety::unsafe) status_ = relax();
  }

  ~CudaScope() {
    if (cuda_state.load(std::memory_order_acquire) != CudaState::ready) return;
    // Neither can fail if its counterpart did not; and only the outcome of the call counts.
    if (relaxed_) driver_.cuThreadExchangeStreamCaptureMode(&mode_);
    cuda::CUcontext popped = nullptr;
    if (pushed_) driver_.cuCtxPopCurrent_v2(&popped);
  }

  /// Whether the call can be made.
  Status status() const noexcept { return status_; }

 private:
  Status make_current(cuda::CUcontext context) noexcept {
    if (context == nullptr) return kSuccess;
    cuda::CUcontext current = nullptr;
    if (const auto result = driver_.cuCtxGetCurrent(&current); result != cuda::CUDA_SUCCESS) {
      return cuda_status(result, "cuCtxGetCurrent");
    }
    if (current == context) return kSuccess;
    if (const auto result = driver_.cuCtxPushCurrent_v2(context); result != cuda::CUDA_SUCCESS) {
      return cuda_status(result, "cuCtxPushCurrent");
    }
    pushed_ = true;
    return kSuccess;
  }

  Status relax() noexcept {
    if (const auto result = driver_.cuThreadExchangeStreamCaptureMode(&mode_); result != cuda::CUDA_SUCCESS) {
      return cuda_status(result, "cuThreadExchangeStreamCaptureMode");
    }
    relaxed_ = true;
    return kSuccess;
  }

  const CudaDriver& driver_;
  Status status_;
  bool pushed_ = false;
  bool relaxed_ = false;
  // After relax(), the thread's own mode.
  cuda::CUstreamCaptureMode mode_ = cuda::CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace gpupool::internal
