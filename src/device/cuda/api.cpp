// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/api.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "device/cuda/cuda.hpp"
#include "os/library.hpp"
#include "os/process.hpp"

namespace gpupool::internal {

constinit std::atomic<CudaState> cuda_state{CudaState::unloaded};

namespace {

using cuda::CUresult;

// Written by the one thread that set cuda_state to `loading`; read by all once it is `ready`.
constinit CudaDriver table;

const char* library_name() noexcept {
  const char* name = os::trusted_environment("GPUPOOL_LIBCUDA");
  return name != nullptr && *name != '\0' ? name : os::kCudaLibrary;
}

/// The library's handle, open for ever: an unloaded driver could not be loaded again.
Status open_library(void*& library) {
  const char* reason = nullptr;
  library = os::open_library(library_name(), reason);
  if (library != nullptr) return kSuccess;
  return fail(GPUPOOL_ERROR_UNAVAILABLE,
              "no CUDA driver: %s. Install NVIDIA's, or give this container its GPUs", reason);
}

template <typename Function>
bool find_function(void* library, const char* name, Function*& function) noexcept {
  function = reinterpret_cast<Function*>(os::find_symbol(library, name));
  return function != nullptr;
}

Status missing_function(const char* name) noexcept {
  return fail(GPUPOOL_ERROR_UNAVAILABLE,
              "the CUDA driver \"%.400s\" has no function %s: gpupool needs a driver for CUDA 11.3 or later",
              library_name(), name);
}

Status find_functions(void* library) {
#define GPUPOOL_CUDA_FIND(name, ...) \
  if (!find_function(library, #name, table.name)) return missing_function(#name);
  GPUPOOL_CUDA_FUNCTIONS(GPUPOOL_CUDA_FIND)
#undef GPUPOOL_CUDA_FIND
  (void)find_function(library, "cuDeviceGetUuid_v2", table.cuDeviceGetUuid_v2);
  (void)find_function(library, "cuCtxGetId", table.cuCtxGetId);
  const bool has_v2 = find_function(library, "cuStreamGetCaptureInfo_v2", table.cuStreamGetCaptureInfo_v2);
  const bool has_v3 = find_function(library, "cuStreamGetCaptureInfo_v3", table.cuStreamGetCaptureInfo_v3);
  if (!has_v2 && !has_v3) return missing_function("cuStreamGetCaptureInfo_v2");
  return kSuccess;
}

/// Advice for the common failures of cuInit, which says more than the driver's own text; null for others.
const char* init_advice(CUresult result) noexcept {
  switch (result) {
    case cuda::CUDA_ERROR_NO_DEVICE:
      return "there is no GPU in this machine or container, or CUDA_VISIBLE_DEVICES hides it";
    case cuda::CUDA_ERROR_NOT_INITIALIZED:
      return "was this process forked from one that had used CUDA? Start it with exec (in Python: "
             "multiprocessing with \"spawn\")";
    case cuda::CUDA_ERROR_STUB_LIBRARY:
      return "this libcuda.so.1 is the CUDA Toolkit's stub for linking: take its folder out of the library "
             "path";
    case cuda::CUDA_ERROR_SYSTEM_NOT_READY:
      return "the GPUs are not ready: on a machine with NVSwitch, is the fabric manager running?";
    case cuda::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
      return "the driver's library and kernel module differ in version: after an update, "
             "restart the machine or container";
    case cuda::CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
      return "the CUDA compatibility package does not support this GPU: take it out of the library path";
    default: return nullptr;
  }
}

const char* error_name(CUresult result) noexcept {
  const char* name = nullptr;
  return table.cuGetErrorName(result, &name) == cuda::CUDA_SUCCESS && name != nullptr ? name
                                                                                      : "unknown error";
}

const char* error_text(CUresult result) noexcept {
  if (is_context_gone(result)) return "the context was reset or destroyed";
  const char* text = nullptr;
  return table.cuGetErrorString(result, &text) == cuda::CUDA_SUCCESS && text != nullptr ? text
                                                                                        : "no description";
}

/// From here on the driver is not called. A forked child stays `forked`, though.
void mark_exiting() noexcept {
  CudaState state = cuda_state.load();
  while (state != CudaState::forked && !cuda_state.compare_exchange_weak(state, CudaState::exiting)) {
  }
}

Status initialise() {
  const CUresult result = table.cuInit(0);
  if (result == cuda::CUDA_ERROR_DEINITIALIZED) return cuda_status(result, "cuInit");
  if (result != cuda::CUDA_SUCCESS) {
    const char* const advice = init_advice(result);
    return fail_driver(GPUPOOL_ERROR_UNAVAILABLE, static_cast<int32_t>(result), "cuInit: %u %s: %s%s",
                       static_cast<unsigned>(result), error_name(result),
                       advice != nullptr ? advice : error_text(result),
                       advice != nullptr ? "" : "; does nvidia-smi work here?");
  }
  // Registered after the driver's own hooks, so it runs before them, while the driver still answers. It frees
  // nothing, because the driver and the system take everything back, and other threads may be in here.
  if (std::atexit(mark_exiting) != 0) {
    return fail(GPUPOOL_ERROR_HOST_OUT_OF_MEMORY, "atexit: no memory for one more hook");
  }
  return kSuccess;
}

/// Called with cuda_state at `loading`; sets the next state.
Status load() {
  void* library = nullptr;
  Status status = open_library(library);
  if (status == kSuccess) status = find_functions(library);
  if (status == kSuccess) status = initialise();
  // Unless the driver has turned out to be gone.
  CudaState state = CudaState::loading;
  cuda_state.compare_exchange_strong(state, status == kSuccess ? CudaState::ready : CudaState::unloaded);
  cuda_state.notify_all();
  return status;
}

}  // namespace

Status load_cuda_driver(const CudaDriver*& driver) {
  // The state itself is the lock: a forked child can see that it was held, whereas a mutex could hang there.
  CudaState state = cuda_state.load(std::memory_order_acquire);
  while (state <= CudaState::loading) {
    if (state == CudaState::loading) {
      cuda_state.wait(state);
    } else if (cuda_state.compare_exchange_strong(state, CudaState::loading)) {
      if (const Status status = load(); status != kSuccess) return status;
    }
    state = cuda_state.load(std::memory_order_acquire);
  }
  if (const Status status = cuda_usable(); status != kSuccess) return status;
  driver = &table;
  return kSuccess;
}

Status cuda_unusable() noexcept {
  if (cuda_state.load(std::memory_order_acquire) == CudaState::forked) {
    return fail(
        GPUPOOL_ERROR_FORKED,
        "this process was forked after CUDA was initialised, and cannot use it: start it with exec (in "
        "Python: multiprocessing with \"spawn\")");
  }
  return fail(GPUPOOL_ERROR_SHUTTING_DOWN, "the process is exiting, and the CUDA driver has gone");
}

Status cuda_status(CUresult result, const char* format, ...) noexcept {
  if (result == cuda::CUDA_SUCCESS) return kSuccess;
  if (result == cuda::CUDA_ERROR_DEINITIALIZED) {
    mark_exiting();
    return cuda_unusable();
  }
  char call[256];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(call, sizeof call, format, arguments);
  va_end(arguments);
  const Status status =
      result == cuda::CUDA_ERROR_OUT_OF_MEMORY ? GPUPOOL_ERROR_OUT_OF_MEMORY : GPUPOOL_ERROR_DRIVER;
  return fail_driver(status, static_cast<int32_t>(result), "%s: %u %s: %s", call,
                     static_cast<unsigned>(result), error_name(result), error_text(result));
}

void cuda_after_fork() noexcept {
  // Even if another thread of the parent was just loading it.
  if (cuda_state.load() != CudaState::unloaded) cuda_state.store(CudaState::forked);
}

}  // namespace gpupool::internal
