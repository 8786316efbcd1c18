// SPDX-License-Identifier: Apache-2.0
// Where a block comes from: the private pool that allocations for its stream now go to, or the device's pool.
// And what else is tried before a shortage is reported.
#pragma once

#include <gpupool/torch.h>

#include <array>
#include <string>

#include "private_pools.hpp"

namespace gpupool_torch {

class Supply {
 public:
  Supply(DevicePools& devices, PrivatePools& privates) : devices_(devices), privates_(privates) {}

  /// Null if memory is short, or for another failure. owner becomes the private pool that gave the block, or
  /// would have given it; null: the device's pool.
  void* malloc(size_t size, DeviceIndex device, cudaStream_t stream, PrivatePool*& owner) {
    if (C10_UNLIKELY(privates_.is_routing())) {
      void* ptr = privates_.malloc(size, device, stream, owner);
      if (owner != nullptr) return ptr;
    }
    gpupool_ptr_t ptr = 0;
    if (gpupool_t* pool = devices_.use(device))
      (void)gpupool_malloc(pool, size, reinterpret_cast<gpupool_stream_t>(stream), &ptr);
    return reinterpret_cast<void*>(ptr);
  }

  /// A block at this address, or null if no private pool that allocations for the stream now go to has it
  /// free.
  void* malloc_at(void* address, size_t size, DeviceIndex device, cudaStream_t stream, PrivatePool*& owner) {
    return privates_.is_routing() ? privates_.malloc_at(address, size, device, stream, owner) : nullptr;
  }

  /// Whether this thread's last malloc failed because of the pool's limit.
  static bool is_over_limit() {
    gpupool_error_t error{};
    error.struct_size = sizeof error;
    return gpupool_last_error(&error) == GPUPOOL_SUCCESS && error.status == GPUPOOL_ERROR_OVER_LIMIT;
  }

  /// Call it after malloc returned null. Takes from pools that lend, gives back what graphs left, lets
  /// PyTorch free what it only keeps for other processes, and tries again. Returns null for a shortage; then
  /// why says where the memory is. Throws for another failure.
  void* malloc_at_last(size_t size, DeviceIndex device, cudaStream_t stream, PrivatePool*& owner,
                       std::string& why) {
    why = explain(size, device, owner);
    if (owner == nullptr) {
      if (void* ptr = privates_.malloc_in_shortage(size, device, stream, owner)) return ptr;
    }
    bool freed = privates_.give_back({0, 0});
    for (const auto& name : c10::FreeCudaMemoryCallbacksRegistry()->Keys())
      freed |= c10::FreeCudaMemoryCallbacksRegistry()->Create(name)->Execute();
    if (!freed) return nullptr;
    if (void* ptr = malloc(size, device, stream, owner)) return ptr;
    why = explain(size, device, owner);
    return nullptr;
  }

  /// Why the last malloc returned null. Throws where that was not for want of memory.
  static std::string explain(size_t size, DeviceIndex device, const PrivatePool* owner) {
    if (owner != nullptr && owner->is_foreign())
      return "CUDA out of memory. The MemPool's own allocator gave none.";
    std::array<char, 2048> text;
    const bool is_shortage = gpupool_torch_explain(size, device, text.data(), text.size()) != 0;
    TORCH_CHECK(is_shortage, text.data());
    return text.data();
  }

 private:
  DevicePools& devices_;
  PrivatePools& privates_;
};

}  // namespace gpupool_torch
