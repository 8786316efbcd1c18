// SPDX-License-Identifier: Apache-2.0
// Mapped memory and its contents, in PyTorch's structs.
#pragma once

#include <gpupool/gpupool.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "blocks.hpp"
#include "private_pools.hpp"

namespace gpupool_torch {

/// A device's mapped memory, as PyTorch shows expandable segments: one for each run without a gap, with
/// blocks that cover it. Segments of private pools stand for themselves, even those that are blocks here.
class Snapshot {
 public:
  /// pool: null if the device's own was not used yet. blocks: holds the stacks.
  Snapshot(DeviceIndex device, gpupool_t* pool, std::map<uintptr_t, SegmentInfo> privates, Blocks& blocks)
      : device_(device), privates_(std::move(privates)), stacks_(blocks) {
    if (pool == nullptr) return;
    (void)stats_of(pool);  // settles freed blocks that streams have passed, as reading the statistics will
    size_t segment_count = 0;
    size_t block_count = 0;
    do {
      segments_.resize(segment_count);
      blocks_.resize(block_count);
      if (gpupool_snapshot(pool, segments_.data(), sizeof(gpupool_segment_t), segments_.size(),
                           &segment_count, blocks_.data(), sizeof(gpupool_block_t), blocks_.size(),
                           &block_count) != 0) {
        segment_count = block_count = 0;
      }
    } while (segment_count > segments_.size() || block_count > blocks_.size());
    segments_.resize(segment_count);
    blocks_.resize(block_count);
  }

  void append_to(std::vector<SegmentInfo>& all) {
    Position block = blocks_.begin();
    for (auto chunk = segments_.begin(); chunk != segments_.end();) {
      const auto first = chunk;
      size_t end = chunk->address;
      do {
        end += chunk->size_bytes;
        ++chunk;
      } while (chunk != segments_.end() && chunk->address == end && chunk->stream == first->stream &&
               chunk->is_small == first->is_small);
      fill(*first, end, block, all);
    }
    for (auto& [address, segment] : privates_) {
      if (segment.total_size != 0) append_private(std::move(segment), all);  // of an allocator of its own
    }
    std::sort(all.begin(), all.end(),
              [](const SegmentInfo& one, const SegmentInfo& other) { return one.address < other.address; });
  }

 private:
  using Position = std::vector<gpupool_block_t>::const_iterator;

  void fill(const gpupool_segment_t& chunk, size_t end, Position& block, std::vector<SegmentInfo>& all) {
    SegmentInfo run = begin(chunk, chunk.address);
    const auto finish = [&] {
      if (run.total_size != 0) all.push_back(std::move(run));
    };
    size_t at = chunk.address;
    for (; block != blocks_.end() && block->address < end; ++block) {
      if (block->state == GPUPOOL_BLOCK_CACHED || block->address < at) continue;
      if (block->address > at) append(run, free_range(block->address - at));
      at = block->address + block->allocated_bytes;
      if (const auto own = privates_.find(block->address); own != privates_.end()) {
        at = block->address + own->second.total_size;  // of many blocks, of which the others are left out
        finish();
        append_private(std::exchange(own->second, {}), all);
        run = begin(chunk, at);
      } else {
        append(run, used(*block));
      }
    }
    if (at < end) append(run, free_range(end - at));
    finish();
  }

  void append_private(SegmentInfo segment, std::vector<SegmentInfo>& all) {
    size_t at = segment.address;
    for (BlockInfo& block : segment.blocks) {
      if (block.allocated) block.context_when_allocated = stacks_.stack_of(at);
      at += block.size;
    }
    all.push_back(std::move(segment));
  }

  SegmentInfo begin(const gpupool_segment_t& chunk, size_t address) const {
    SegmentInfo run;
    run.device = device_;
    run.address = address;
    run.stream = reinterpret_cast<cudaStream_t>(chunk.stream);
    run.is_large = chunk.is_small == 0;
    run.is_expandable = true;
    set_registration(run, 0);
    return run;
  }

  static void append(SegmentInfo& run, BlockInfo info) {
    run.total_size += info.size;
    run.requested_size += info.requested_size;
    run.allocated_size += info.allocated ? info.size : 0;
    run.active_size += info.active ? info.size : 0;
    run.blocks.push_back(std::move(info));
  }

  BlockInfo used(const gpupool_block_t& block) {
    BlockInfo info = free_range(block.allocated_bytes);
    info.allocated = block.state == GPUPOOL_BLOCK_LIVE;
    info.requested_size = info.allocated ? block.requested_bytes : 0;  // as the statistics count it
    if (info.allocated) info.context_when_allocated = stacks_.stack_of(block.address);
    info.active = true;
    return info;
  }

  static BlockInfo free_range(size_t size) {
    BlockInfo info;
    info.size = size;
    return info;
  }

  DeviceIndex device_;
  std::map<uintptr_t, SegmentInfo> privates_;
  Blocks& stacks_;
  std::vector<gpupool_segment_t> segments_;
  std::vector<gpupool_block_t> blocks_;
};

}  // namespace gpupool_torch
