// SPDX-License-Identifier: Apache-2.0
// The CUDA driver's library: loaded at run time, initialised once, never unloaded.
#pragma once

#include <atomic>
#include <type_traits>

#include "base/status.hpp"
#include "device/cuda/types.hpp"

namespace gpupool::internal::cuda {

/// The driver's functions. All are set, except perhaps those for numbers and one of the last two.
struct Api {
#define GPUPOOL_CUDA_MEMBER(name, ...) std::add_pointer_t<__VA_ARGS__> name = nullptr;
  GPUPOOL_CUDA_FUNCTIONS(GPUPOOL_CUDA_MEMBER)
#undef GPUPOOL_CUDA_MEMBER
  DeviceGetUuidV2* cuDeviceGetUuid_v2 = nullptr;
  CtxGetId* cuCtxGetId = nullptr;
  StreamGetCaptureInfoV2* cuStreamGetCaptureInfo_v2 = nullptr;
  StreamGetCaptureInfoV3* cuStreamGetCaptureInfo_v3 = nullptr;
};

}  // namespace gpupool::internal::cuda

namespace gpupool::internal {

using CudaDriver = cuda::Api;

/// The state of the driver in this process. It only moves forward: `exiting` and `forked` are final.
enum class CudaState : int { unloaded, loading, ready, exiting, forked };

extern std::atomic<CudaState> cuda_state;

/// Whether a call failed because its context is not there any more.
constexpr bool is_context_gone(cuda::CUresult result) noexcept {
  return result == cuda::CUDA_ERROR_CONTEXT_IS_DESTROYED || result == cuda::CUDA_ERROR_INVALID_CONTEXT;
}

/// Loads and initialises the driver, once; after a failure, the next call tries again. UNAVAILABLE, with a
/// reason that a newcomer can act on, if there is no driver or no GPU; SHUTTING_DOWN; FORKED.
Status load_cuda_driver(const CudaDriver*& driver);

/// Describes why a driver that was ready can no longer be called: SHUTTING_DOWN or FORKED.
[[gnu::cold]] Status cuda_unusable() noexcept;

/// Checked before every driver call. Costs one load.
inline Status cuda_usable() noexcept {
  if (cuda_state.load(std::memory_order_acquire) == CudaState::ready) [[likely]]
    return kSuccess;
  return cuda_unusable();
}

/// kSuccess if a driver function returned CUDA_SUCCESS. Else records what it returned; `format` and the
/// arguments after it name the call, as by printf: "cuMemCreate(size 33554432)" becomes "cuMemCreate(size
/// 33554432): 2 CUDA_ERROR_OUT_OF_MEMORY: out of memory". Gives OUT_OF_MEMORY, DRIVER, or SHUTTING_DOWN,
/// after which the driver is not called again.
[[gnu::format(printf, 2, 3)]] Status cuda_status(cuda::CUresult result, const char* format, ...) noexcept;

}  // namespace gpupool::internal
