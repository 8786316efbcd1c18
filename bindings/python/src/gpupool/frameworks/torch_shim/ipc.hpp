// SPDX-License-Identifier: Apache-2.0
// Tensors for other processes, by gpupool_export and gpupool_import. PyTorch keeps a tensor that it has sent
// until its receivers have dropped it; the library keeps the memory until their imports have ended.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>
#include <gpupool/gpupool.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device_pools.hpp"

namespace gpupool_torch {

class Sharing {
 public:
  using ShareableHandle = c10::cuda::CUDACachingAllocator::ShareableHandle;

  explicit Sharing(DevicePools& devices) : devices_(devices) {}

  /// The handle of the block that ptr points into, and where in it.
  ShareableHandle share(const void* ptr) const {
    gpupool_block_t block{};
    gpupool_t* pool = devices_.owner_of(ptr, block);
    TORCH_CHECK(pool != nullptr, "gpupool: ", ptr, " is in no live block, so that it cannot be shared");
    std::array<char, GPUPOOL_EXPORT_BYTES> handle{};
    TORCH_CHECK(gpupool_export(pool, block.address, handle.data(), handle.size()) == GPUPOOL_SUCCESS,
                "gpupool: a tensor cannot be sent as it is: ", last_error(), "; send tensor.cpu()");
    return {static_cast<ptrdiff_t>(reinterpret_cast<uintptr_t>(ptr) - block.address), handle.data()};
  }

  /// The memory behind a handle, mapped once for all tensors of a block, until the last of them goes.
  std::shared_ptr<void> open(gpupool_t* pool, const std::string& handle) {
    close_waiting();
    gpupool_ptr_t address = 0;
    uint64_t size = 0;
    const gpupool_status_t status = gpupool_import(pool, handle.c_str(), &address, &size);
    TORCH_CHECK(
        status != GPUPOOL_ERROR_INVALID_ARGUMENT, "gpupool: a tensor cannot be received: ", last_error(),
        ". If the process that sent it uses another allocator, or another version of gpupool, install "
        "gpupool in both, or in none: GPUPOOL_INSTALL=torch in the environment does it in all");
    TORCH_CHECK(status == GPUPOOL_SUCCESS, "gpupool: a tensor cannot be received: ", last_error(),
                "; send tensor.cpu()");
    return {reinterpret_cast<void*>(address), [this, pool, address](void*) { close({pool, address}); }};
  }

  /// Ends the imports that could not end when their last tensors went.
  void close_waiting() {
    const std::lock_guard lock(mutex_);
    std::erase_if(waiting_, [](const Import& each) { return !must_wait(each); });
  }

 private:
  struct Import {
    gpupool_t* pool;
    gpupool_ptr_t address;
  };

  /// The last close waits for the device, which nothing may do while a graph is captured.
  static bool must_wait(const Import& import) {
    return gpupool_import_close(import.pool, import.address) == GPUPOOL_ERROR_UNAVAILABLE;
  }

  void close(const Import& import) {
    if (!must_wait(import)) return;
    const std::lock_guard lock(mutex_);
    waiting_.push_back(import);
  }

  DevicePools& devices_;
  std::mutex mutex_;
  std::vector<Import> waiting_;
};

}  // namespace gpupool_torch
