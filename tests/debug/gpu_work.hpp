// SPDX-License-Identifier: Apache-2.0
// Kernels and graphs of a test program on a real GPU, through the CUDA driver alone.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "device/cuda/types.hpp"

namespace debug_test {

namespace cuda = gpupool::internal::cuda;

inline constexpr unsigned kThreads = 256;

inline constexpr const char* kKernels = R"(
.version 6.0
.target sm_50
.address_size 64

.visible .entry fill(.param .u64 at, .param .u64 size, .param .u32 value)
{
  .reg .pred %p;
  .reg .b32 %block, %thread, %value;
  .reg .b64 %at, %size, %i, %lane;
  ld.param.u64 %at, [at];
  ld.param.u64 %size, [size];
  ld.param.u32 %value, [value];
  mov.u32 %block, %ctaid.x;
  mov.u32 %thread, %tid.x;
  mul.wide.u32 %i, %block, 256;
  cvt.u64.u32 %lane, %thread;
  add.u64 %i, %i, %lane;
  setp.ge.u64 %p, %i, %size;
  @%p bra DONE;
  add.u64 %at, %at, %i;
  st.global.u8 [%at], %value;
DONE:
  ret;
}

.visible .entry copy(.param .u64 to, .param .u64 from, .param .u64 size)
{
  .reg .pred %p;
  .reg .b32 %block, %thread, %value;
  .reg .b64 %to, %from, %size, %i, %lane;
  ld.param.u64 %to, [to];
  ld.param.u64 %from, [from];
  ld.param.u64 %size, [size];
  mov.u32 %block, %ctaid.x;
  mov.u32 %thread, %tid.x;
  mul.wide.u32 %i, %block, 256;
  cvt.u64.u32 %lane, %thread;
  add.u64 %i, %i, %lane;
  setp.ge.u64 %p, %i, %size;
  @%p bra DONE;
  add.u64 %from, %from, %i;
  add.u64 %to, %to, %i;
  ld.global.u8 %value, [%from];
  st.global.u8 [%to], %value;
DONE:
  ret;
}
)";

inline cuda::CUstream to_stream(uintptr_t stream) {
  return reinterpret_cast<cuda::CUstream>(stream);
}

inline void demand(cuda::CUresult result, const char* what) {
  if (result == cuda::CUDA_SUCCESS) return;
  std::fprintf(stderr, "%s: %u\n", what, static_cast<unsigned>(result));
  std::abort();
}

/// Work on device 0, beside the pool's. A function that fails says so: after a fault, all do.
class GpuWork {
 public:
  /// Ends the process if there is no driver.
  GpuWork();
  GpuWork(const GpuWork&) = delete;
  GpuWork& operator=(const GpuWork&) = delete;

  /// Kernels whose threads write or copy a byte each.
  bool fill(uint64_t at, uint8_t value, uint64_t size, uintptr_t stream);
  bool copy(uint64_t to, uint64_t from, uint64_t size, uintptr_t stream);
  /// Waits for all streams.
  bool wait();

  /// Records a copy on a stream as a graph, which launch() runs.
  bool capture_copy(uint64_t to, uint64_t from, uint64_t size, uintptr_t stream);
  bool launch(uintptr_t stream);

  /// Host memory that kernels can write.
  uint8_t* pinned(uint64_t size);

 private:
  template <typename Function>
  Function find(const char* name);
  bool start(const char* kernel, uint64_t size, uintptr_t stream, void** parameters);

  void* library_;
  cuda::CUmodule module_ = nullptr;
  void* graph_ = nullptr;
};

template <typename Function>
Function GpuWork::find(const char* name) {
  void* const found = dlsym(library_, name);
  if (found == nullptr) {
    std::fprintf(stderr, "libcuda.so.1 has no %s\n", name);
    std::abort();
  }
  return reinterpret_cast<Function>(found);
}

inline GpuWork::GpuWork() : library_(dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL)) {
  if (library_ == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::abort();
  }
  cuda::CUcontext context = nullptr;
  demand(find<cuda::CUresult (*)(unsigned)>("cuInit")(0), "cuInit");
  demand(find<cuda::CUresult (*)(cuda::CUcontext*, cuda::CUdevice)>("cuDevicePrimaryCtxRetain")(&context, 0),
         "retain");
  demand(find<cuda::CUresult (*)(cuda::CUcontext)>("cuCtxPushCurrent_v2")(context), "push");
  demand(find<cuda::CUresult (*)(cuda::CUmodule*, const void*)>("cuModuleLoadData")(&module_, kKernels),
         "load");
}

inline bool GpuWork::start(const char* kernel, uint64_t size, uintptr_t stream, void** parameters) {
  cuda::CUfunction function = nullptr;
  const auto get =
      find<cuda::CUresult (*)(cuda::CUfunction*, cuda::CUmodule, const char*)>("cuModuleGetFunction");
  if (get(&function, module_, kernel) != cuda::CUDA_SUCCESS) return false;
  const auto launch =
      find<cuda::CUresult (*)(cuda::CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                              unsigned, cuda::CUstream, void**, void**)>("cuLaunchKernel");
  const auto blocks = static_cast<unsigned>((size + kThreads - 1) / kThreads);
  return launch(function, blocks, 1, 1, kThreads, 1, 1, 0, to_stream(stream), parameters, nullptr) ==
         cuda::CUDA_SUCCESS;
}

inline bool GpuWork::fill(uint64_t at, uint8_t value, uint64_t size, uintptr_t stream) {
  uint32_t word = value;
  void* parameters[] = {&at, &size, &word};
  return start("fill", size, stream, parameters);
}

inline bool GpuWork::copy(uint64_t to, uint64_t from, uint64_t size, uintptr_t stream) {
  void* parameters[] = {&to, &from, &size};
  return start("copy", size, stream, parameters);
}

inline bool GpuWork::wait() {
  return find<cuda::CUresult (*)()>("cuCtxSynchronize")() == cuda::CUDA_SUCCESS;
}

inline bool GpuWork::capture_copy(uint64_t to, uint64_t from, uint64_t size, uintptr_t stream) {
  const auto begin =
      find<cuda::CUresult (*)(cuda::CUstream, cuda::CUstreamCaptureMode)>("cuStreamBeginCapture_v2");
  const auto end = find<cuda::CUresult (*)(cuda::CUstream, cuda::CUgraph*)>("cuStreamEndCapture");
  const auto instantiate =
      find<cuda::CUresult (*)(void**, cuda::CUgraph, unsigned long long)>("cuGraphInstantiateWithFlags");
  cuda::CUgraph graph = nullptr;
  if (begin(to_stream(stream), cuda::CU_STREAM_CAPTURE_MODE_GLOBAL) != cuda::CUDA_SUCCESS) return false;
  const bool is_copied = copy(to, from, size, stream);
  return end(to_stream(stream), &graph) == cuda::CUDA_SUCCESS && is_copied &&
         instantiate(&graph_, graph, 0) == cuda::CUDA_SUCCESS;
}

inline bool GpuWork::launch(uintptr_t stream) {
  return find<cuda::CUresult (*)(void*, cuda::CUstream)>("cuGraphLaunch")(graph_, to_stream(stream)) ==
         cuda::CUDA_SUCCESS;
}

inline uint8_t* GpuWork::pinned(uint64_t size) {
  void* memory = nullptr;
  demand(find<cuda::CUresult (*)(void**, size_t, unsigned)>("cuMemHostAlloc")(&memory, size,
                                                                              cuda::kMemHostAllocDeviceMap),
         "cuMemHostAlloc");
  return static_cast<uint8_t*>(memory);
}

}  // namespace debug_test
