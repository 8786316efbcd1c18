// SPDX-License-Identifier: Apache-2.0
// Which blocks of a pool of graphs are live, to be kept and made so again: torch.compile's graphs return to
// where another one left off.
#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <unordered_set>
#include <vector>

#include "blocks.hpp"
#include "private_pools.hpp"

namespace gpupool_torch {

struct Checkpoint final : AllocatorState {
  MempoolId_t id;
  std::vector<PrivateBlock> blocks;

  Checkpoint(MempoolId_t of, std::vector<PrivateBlock> live) : id(of), blocks(std::move(live)) {}
};

/// As PyTorch's own allocator does, this reports all blocks that were live as freed, and all blocks of the
/// checkpoint as new; deleter frees them.
inline CheckpointDelta restore(const std::shared_ptr<AllocatorState>& state, DeviceIndex device,
                               PrivatePools& pools, Blocks& blocks, c10::DeleterFnPtr deleter) {
  const auto* wanted = dynamic_cast<const Checkpoint*>(state.get());
  TORCH_CHECK(wanted != nullptr, "gpupool: a checkpoint of another allocator");
  const auto [before, pool] = pools.set_live(device, wanted->id, wanted->blocks);
  CheckpointDelta delta;
  for (const PrivateBlock& each : before) {
    delta.ptrs_freed.push_back(reinterpret_cast<void*>(each.address));
    (void)blocks.take(delta.ptrs_freed.back());
  }
  for (const PrivateBlock& each : wanted->blocks) {
    void* ptr = reinterpret_cast<void*>(each.address);
    blocks.insert(ptr, {each.requested, each.stream, device, pool, nullptr});
    delta.dataptrs_allocd.emplace_back(ptr, ptr, deleter, c10::Device(c10::DeviceType::CUDA, device));
  }
  return delta;
}

/// Whether exactly these are the live blocks.
inline bool are_live(const std::vector<PrivateBlock>& blocks, const std::unordered_set<void*>& expected) {
  std::unordered_set<void*> live;
  for (const PrivateBlock& each : blocks) live.insert(reinterpret_cast<void*>(each.address));
  return live == expected;
}

}  // namespace gpupool_torch
