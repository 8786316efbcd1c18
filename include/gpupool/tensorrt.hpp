// SPDX-License-Identifier: Apache-2.0
/// @file
/// A pool as the allocator of TensorRT 10 and 11.
///
///     gpupool::TensorRtAllocator memory(0);                 // the default pool of device 0
///     runtime->setGpuAllocator(&memory);                    // and builder->setGpuAllocator
///     context->setTemporaryStorageAllocator(&memory);       // what an inference needs in between
///
/// Needs C++17. All inline over the C functions. Since 0.2.
#ifndef GPUPOOL_TENSORRT_HPP
#define GPUPOOL_TENSORRT_HPP

#include <gpupool/plug.hpp>

#include <NvInferRuntime.h>

#if NV_TENSORRT_MAJOR < 10
#error "gpupool/tensorrt.hpp needs TensorRT 10, which names streams"
#endif

namespace gpupool {
inline namespace v0 {

/// Hands out memory of a pool. It must outlive all that it was given to. Any thread may call.
///
/// Memory for a stream is reused in the stream's order, and nothing waits. Where TensorRT names none, as for
/// weights, memory is any stream's at once, and its free waits for the device (plug::AnyStream). A shortage
/// is null, which TensorRT reports with its own words; gpupool_report says where the memory is.
class TensorRtAllocator final : public nvinfer1::IGpuAsyncAllocator {
 public:
  /// The pool that everything in the process shares on this device. Throws std::runtime_error.
  explicit TensorRtAllocator(int device) : TensorRtAllocator(plug::default_pool(device)) {}
  /// A pool, which must outlive it. Throws std::runtime_error.
  explicit TensorRtAllocator(gpupool_t* pool) : any_(pool) {}

  gpupool_t* pool() const noexcept { return any_.pool(); }

  void* allocateAsync(std::uint64_t size, std::uint64_t alignment, nvinfer1::AllocatorFlags,
                      cudaStream_t stream) noexcept override {
    if (stream == nullptr) return any_.allocate(size, alignment);
    return plug::allocate(pool(), size, plug::number(stream), alignment);
  }

  bool deallocateAsync(void* memory, cudaStream_t stream) noexcept override {
    return stream == nullptr ? any_.release(memory) : plug::release(pool(), memory, plug::number(stream));
  }

 private:
  plug::AnyStream any_;
};

}  // namespace v0
}  // namespace gpupool

#endif  // GPUPOOL_TENSORRT_HPP
