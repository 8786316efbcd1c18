// SPDX-License-Identifier: Apache-2.0
// A stand-in for TensorRT's header, with what gpupool/tensorrt.hpp uses of it, declared as TensorRT 10 and 11
// do. A run with GPUPOOL_TENSORRT_INCLUDE takes NVIDIA's own.
#ifndef STAND_IN_NVINFERRUNTIME_H
#define STAND_IN_NVINFERRUNTIME_H

#include <cstdint>

#ifndef NV_TENSORRT_MAJOR
#define NV_TENSORRT_MAJOR 11
#endif

typedef struct CUstream_st* cudaStream_t;

namespace nvinfer1 {

using AllocatorFlags = std::uint32_t;

class IGpuAllocator {
 public:
  virtual ~IGpuAllocator() = default;
  virtual void* allocate(std::uint64_t, std::uint64_t, AllocatorFlags) noexcept = 0;
  virtual void* reallocate(void*, std::uint64_t, std::uint64_t) noexcept { return nullptr; }
  virtual bool deallocate(void*) noexcept = 0;
  virtual void* allocateAsync(std::uint64_t const, std::uint64_t const, AllocatorFlags const,
                              cudaStream_t) noexcept = 0;
  virtual bool deallocateAsync(void* const, cudaStream_t) noexcept = 0;
};

namespace v_1_0 {
class IGpuAsyncAllocator : public IGpuAllocator {
 public:
  void* allocateAsync(std::uint64_t const, std::uint64_t const, AllocatorFlags const,
                      cudaStream_t) noexcept override = 0;
  bool deallocateAsync(void* const, cudaStream_t) noexcept override = 0;
  void* allocate(std::uint64_t const size, std::uint64_t const alignment,
                 AllocatorFlags const flags) noexcept override {
    return allocateAsync(size, alignment, flags, nullptr);
  }
  bool deallocate(void* const memory) noexcept override { return deallocateAsync(memory, nullptr); }
};
}  // namespace v_1_0
using IGpuAsyncAllocator = v_1_0::IGpuAsyncAllocator;

}  // namespace nvinfer1

#endif  // STAND_IN_NVINFERRUNTIME_H
