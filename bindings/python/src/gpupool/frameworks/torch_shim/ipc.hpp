// SPDX-License-Identifier: Apache-2.0
// Tensors for other processes, by gpupool_export and gpupool_import. PyTorch keeps a tensor that it has sent
// until its receivers have dropped it; the library keeps the memory until their imports have ended.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>
#include <gpupool/gpupool.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "device_pools.hpp"

namespace gpupool_torch {

class Sharing {
 public:
  using ShareableHandle = c10::cuda::CUDACachingAllocator::ShareableHandle;

  explicit Sharing(DevicePools& devices) : devices_(devices) {}

  /// The handle of the block that ptr points into, and where in it. size: of what is there.
  ShareableHandle share(const void* ptr, size_t size) const {
    gpupool_block_t block{};
    gpupool_t* pool = devices_.owner_of(ptr, block);
    TORCH_CHECK(pool != nullptr, "gpupool: ", ptr, " is in no live block, so that it cannot be shared");
    const auto address = reinterpret_cast<uintptr_t>(ptr);
    TORCH_CHECK(address + size <= block.address + block.allocated_bytes,
                "gpupool: a tensor of a graph cannot be sent as it is where its memory came in parts; send "
                "tensor.clone()");
    std::array<char, GPUPOOL_EXPORT_BYTES> handle{};
    TORCH_CHECK(gpupool_export(pool, block.address, handle.data(), handle.size()) == GPUPOOL_SUCCESS,
                "gpupool: a tensor cannot be sent as it is: ", last_error(), "; send tensor.cpu()");
    return {static_cast<ptrdiff_t>(address - block.address), handle.data()};
  }

  /// The memory behind a handle, mapped once for all tensors of a block, until the last of them goes.
  std::shared_ptr<void> open(gpupool_t* pool, const std::string& handle) {
    gpupool_ptr_t address = 0;
    uint64_t size = 0;
    const gpupool_status_t status = gpupool_import(pool, handle.c_str(), &address, &size);
    TORCH_CHECK(
        status != GPUPOOL_ERROR_INVALID_ARGUMENT, "gpupool: a tensor cannot be received: ", last_error(),
        ". If the process that sent it uses another allocator, or another version of gpupool, install "
        "gpupool in both, or in none: GPUPOOL_INSTALL=torch in the environment does it in all");
    TORCH_CHECK(status == GPUPOOL_SUCCESS, "gpupool: a tensor cannot be received: ", last_error(),
                "; send tensor.cpu()");
    return {reinterpret_cast<void*>(address),
            [pool, address](void*) { (void)gpupool_import_close(pool, address); }};
  }

 private:
  DevicePools& devices_;
};

}  // namespace gpupool_torch
