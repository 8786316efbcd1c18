// SPDX-License-Identifier: Apache-2.0
// Which block belongs to which stream. PyTorch frees by address alone.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/util/flat_hash_map.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace gpupool_torch {

class PrivatePool;

struct Block {
  size_t size;
  cudaStream_t stream;
  c10::DeviceIndex device;
  PrivatePool* owner;                           // null: the device's pool
  std::shared_ptr<c10::GatheredContext> stack;  // of its malloc, where the history keeps it
};

/// Sharded, so that threads rarely meet.
class Blocks {
 public:
  void insert(void* ptr, Block block) {
    Shard& shard = shard_of(ptr);
    const std::lock_guard lock(shard.mutex);
    shard.blocks[ptr] = std::move(block);
  }

  std::optional<Block> find(void* ptr) {
    Shard& shard = shard_of(ptr);
    const std::lock_guard lock(shard.mutex);
    const auto found = shard.blocks.find(ptr);
    return found != shard.blocks.end() ? std::optional(found->second) : std::nullopt;
  }

  std::shared_ptr<c10::GatheredContext> stack_of(uintptr_t address) {
    const auto block = find(reinterpret_cast<void*>(address));
    return block ? block->stack : nullptr;
  }

  std::optional<Block> take(void* ptr) {
    Shard& shard = shard_of(ptr);
    const std::lock_guard lock(shard.mutex);
    const auto found = shard.blocks.find(ptr);
    if (found == shard.blocks.end()) return std::nullopt;
    Block block = std::move(found->second);
    shard.blocks.erase(found);
    return block;
  }

 private:
  struct alignas(64) Shard {
    std::mutex mutex;
    ska::flat_hash_map<void*, Block> blocks;
  };

  Shard& shard_of(void* ptr) {
    const auto mixed = (reinterpret_cast<uintptr_t>(ptr) >> 9) * UINT64_C(0x9e3779b97f4a7c15);
    return shards_[mixed >> 58];
  }

  std::array<Shard, 64> shards_;
};

}  // namespace gpupool_torch
