// SPDX-License-Identifier: Apache-2.0
// Memory straight from the driver, as torch.cuda.caching_allocator_enable(False) and
// PYTORCH_NO_CUDA_MEMORY_CACHING=1 ask for. Tools that look for errors in kernels then see each tensor by
// itself.
#pragma once

#include <c10/cuda/CUDAException.h>
#include <c10/util/env.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <map>
#include <mutex>

#include "device_pools.hpp"

namespace gpupool_torch {

class Uncached {
 public:
  bool is_on() const { return forced_ || !enabled_.load(std::memory_order_relaxed); }
  void set_enabled(bool enabled) { enabled_.store(enabled); }
  bool is_enabled() const { return enabled_.load(); }

  /// Null if memory is short, on the device or under its pool's limit. The limit counts this memory too.
  void* obtain(size_t size, DeviceIndex device, gpupool_t* pool) {
    const gpupool_stats_t stats = stats_of(pool);
    const std::lock_guard lock(mutex_);
    if (stats.limit_bytes != 0 && stats.all.reserved_bytes.current + held_[device] + size > stats.limit_bytes)
      return nullptr;
    void* ptr = nullptr;
    const cudaError_t result = cudaMalloc(&ptr, size);
    if (result == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();
      return nullptr;
    }
    C10_CUDA_CHECK(result);
    blocks_[ptr] = {device, size};
    held_[device] += size;
    count_.store(blocks_.size(), std::memory_order_release);
    return ptr;
  }

  /// Returns false if the pointer did not come from here.
  bool give_back(void* ptr) {
    if (count_.load(std::memory_order_acquire) == 0) return false;
    {
      const std::lock_guard lock(mutex_);
      const auto block = blocks_.find(ptr);
      if (block == blocks_.end()) return false;
      held_[block->second.device] -= block->second.size;
      blocks_.erase(block);
      count_.store(blocks_.size(), std::memory_order_release);
    }
    C10_CUDA_CHECK(cudaFree(ptr));
    return true;
  }

 private:
  struct Block {
    DeviceIndex device;
    size_t size;
  };

  const bool forced_ = c10::utils::check_env("PYTORCH_NO_CUDA_MEMORY_CACHING") == true;
  std::atomic<bool> enabled_{true};
  std::atomic<size_t> count_{0};
  std::mutex mutex_;
  std::map<void*, Block> blocks_;
  std::map<DeviceIndex, size_t> held_;
};

}  // namespace gpupool_torch
