// SPDX-License-Identifier: Apache-2.0
// gpupool's statistics and snapshots in PyTorch's structs. A device's figures are the sums over its pools:
// the default pool and those of graphs. The peak of a sum is taken as the sum of the peaks.
#pragma once

#include <gpupool/frameworks.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "private_pools.hpp"

namespace gpupool_torch {

/// The device's pool; null before its first use.
inline gpupool_t* pool_of(int device) {
  gpupool_t* pool = nullptr;
  return gpupool_torch_pools(device, &pool, nullptr, 1) != 0 ? pool : nullptr;
}

inline gpupool_stats_t stats_of(gpupool_t* pool) {
  gpupool_stats_t stats{};
  stats.struct_size = sizeof stats;
  (void)gpupool_stats(pool, &stats);
  return stats;
}

inline void add(Stat& to, const gpupool_stat_t& from) {
  to.current += static_cast<int64_t>(from.current);
  to.peak += static_cast<int64_t>(from.peak);
  to.allocated += static_cast<int64_t>(from.total_allocated);
  to.freed += static_cast<int64_t>(from.total_freed);
}

inline void add(DeviceStats& to, const gpupool_stats_t& from) {
  const std::pair<StatType, const gpupool_stat_group_t*> groups[] = {{StatType::AGGREGATE, &from.all},
                                                                     {StatType::SMALL_POOL, &from.small},
                                                                     {StatType::LARGE_POOL, &from.large}};
  const std::pair<StatArray DeviceStats::*, gpupool_stat_t gpupool_stat_group_t::*> quantities[] = {
      {&DeviceStats::allocation, &gpupool_stat_group_t::allocated_blocks},
      {&DeviceStats::segment, &gpupool_stat_group_t::chunks},
      {&DeviceStats::active, &gpupool_stat_group_t::active_blocks},
      {&DeviceStats::allocated_bytes, &gpupool_stat_group_t::allocated_bytes},
      {&DeviceStats::reserved_bytes, &gpupool_stat_group_t::reserved_bytes},
      {&DeviceStats::active_bytes, &gpupool_stat_group_t::active_bytes},
      {&DeviceStats::requested_bytes, &gpupool_stat_group_t::requested_bytes}};
  for (const auto& [type, group] : groups) {
    for (const auto& [theirs, ours] : quantities) add((to.*theirs)[static_cast<size_t>(type)], group->*ours);
  }
  const gpupool_driver_stats_t& driver = from.driver;
  to.num_alloc_retries += static_cast<int64_t>(from.retries);
  to.num_ooms += static_cast<int64_t>(from.failed_mallocs);
  to.num_sync_all_streams += static_cast<int64_t>(driver.host_wait.count);
  to.num_device_alloc += static_cast<int64_t>(driver.create.count + driver.malloc.count);
  to.num_device_free += static_cast<int64_t>(driver.release.count + driver.free.count);
}

/// Calls function(a stat of one, the same of the other) for all of them.
template <typename Function>
void for_each_stat(DeviceStats& one, DeviceStats& other, Function function) {
  for (StatArray DeviceStats::*array :
       {&DeviceStats::allocation, &DeviceStats::segment, &DeviceStats::active, &DeviceStats::allocated_bytes,
        &DeviceStats::reserved_bytes, &DeviceStats::active_bytes, &DeviceStats::requested_bytes}) {
    for (size_t type = 0; type < (one.*array).size(); ++type)
      function((one.*array)[type], (other.*array)[type]);
  }
}

/// Puts the blocks of private pools in the place of their segments.
inline void replace_segments(DeviceStats& stats, PrivateUsage usage) {
  const auto change = [](Stat& to, const Stat& by, int sign) {
    to.current += sign * by.current;
    to.allocated += sign * by.allocated;
    to.freed += sign * by.freed;
  };
  for (const StatType type : {StatType::AGGREGATE, StatType::LARGE_POOL}) {
    for (StatArray DeviceStats::*array : {&DeviceStats::allocation, &DeviceStats::active}) {
      change((stats.*array)[static_cast<size_t>(type)], usage.segments, -1);
    }
    for (StatArray DeviceStats::*array :
         {&DeviceStats::allocated_bytes, &DeviceStats::active_bytes, &DeviceStats::requested_bytes}) {
      change((stats.*array)[static_cast<size_t>(type)], usage.segment_bytes, -1);
    }
  }
  for_each_stat(stats, usage.blocks, [&](Stat& to, const Stat& by) {
    change(to, by, 1);
    to.peak = std::max(to.peak, to.current);
  });
}

/// The totals since the last reset: the pool counts for ever, so what it had then is kept here.
class Statistics {
 public:
  explicit Statistics(PrivatePools& privates) : privates_(privates) {}

  DeviceStats of(int device) {
    DeviceStats stats = since_start(device);
    const std::lock_guard lock(mutex_);
    const auto base = bases_.find(device);
    if (base == bases_.end()) return stats;
    DeviceStats& old = base->second;
    for_each_stat(stats, old, [](Stat& now, const Stat& then) {
      now.allocated -= then.allocated;
      now.freed -= then.freed;
    });
    stats.num_alloc_retries -= old.num_alloc_retries;
    stats.num_ooms -= old.num_ooms;
    stats.num_sync_all_streams -= old.num_sync_all_streams;
    stats.num_device_alloc -= old.num_device_alloc;
    stats.num_device_free -= old.num_device_free;
    return stats;
  }

  void reset_accumulated(int device) {
    const DeviceStats now = since_start(device);
    const std::lock_guard lock(mutex_);
    bases_[device] = now;
  }

 private:
  DeviceStats since_start(int device) {
    DeviceStats stats;
    if (gpupool_t* pool = pool_of(device)) add(stats, stats_of(pool));
    replace_segments(stats, privates_.usage(static_cast<DeviceIndex>(device)));
    stats.max_split_size = -1;  // none
    return stats;
  }

  PrivatePools& privates_;
  std::mutex mutex_;
  std::map<int, DeviceStats> bases_;
};

/// A device's mapped memory, as PyTorch shows expandable segments: one for each run without a gap, with
/// blocks that cover it. Segments of private pools, which are blocks here, stand for themselves.
class Snapshot {
 public:
  Snapshot(DeviceIndex device, gpupool_t* pool, std::map<uintptr_t, SegmentInfo> privates)
      : device_(device), privates_(std::move(privates)) {
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
        finish();
        all.push_back(std::move(own->second));
        run = begin(chunk, at);
      } else {
        append(run, used(*block));
      }
    }
    if (at < end) append(run, free_range(end - at));
    finish();
  }

  SegmentInfo begin(const gpupool_segment_t& chunk, size_t address) const {
    SegmentInfo run;
    run.device = device_;
    run.address = address;
    run.stream = reinterpret_cast<void*>(chunk.stream);
    run.is_large = chunk.is_small == 0;
    run.is_expandable = true;
    return run;
  }

  static void append(SegmentInfo& run, BlockInfo info) {
    run.total_size += info.size;
    run.requested_size += info.requested_size;
    run.allocated_size += info.allocated ? info.size : 0;
    run.active_size += info.active ? info.size : 0;
    run.blocks.push_back(std::move(info));
  }

  static BlockInfo used(const gpupool_block_t& block) {
    BlockInfo info = free_range(block.allocated_bytes);
    info.requested_size = block.requested_bytes;
    info.allocated = block.state == GPUPOOL_BLOCK_LIVE;
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
  std::vector<gpupool_segment_t> segments_;
  std::vector<gpupool_block_t> blocks_;
};

}  // namespace gpupool_torch
