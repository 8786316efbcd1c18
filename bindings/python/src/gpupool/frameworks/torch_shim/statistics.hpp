// SPDX-License-Identifier: Apache-2.0
// gpupool's statistics in PyTorch's struct: those of the device's pool, which counts the blocks of private
// pools in place of their segments (gpupool_count_parts), and what MemPools have of allocators of their own.
#pragma once

#include <gpupool/gpupool.h>
#include <gpupool/torch.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "private_pools.hpp"

namespace gpupool_torch {

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
  to.num_sync_all_streams += static_cast<int64_t>(from.retries);
  to.num_device_alloc += static_cast<int64_t>(driver.create.count + driver.malloc.count);
  to.num_device_free += static_cast<int64_t>(driver.release.count + driver.free.count);
}

/// Calls function(a stat of one, the same stat of the other) for all stats.
template <typename Function>
void for_each_stat(DeviceStats& one, DeviceStats& other, Function function) {
  for (StatArray DeviceStats::*array :
       {&DeviceStats::allocation, &DeviceStats::segment, &DeviceStats::active, &DeviceStats::allocated_bytes,
        &DeviceStats::reserved_bytes, &DeviceStats::active_bytes, &DeviceStats::requested_bytes}) {
    for (size_t type = 0; type < (one.*array).size(); ++type)
      function((one.*array)[type], (other.*array)[type]);
  }
}

inline void add_change(Stat& to, const Stat& by, int sign) {
  to.current += sign * by.current;
  to.allocated += sign * by.allocated;
  to.freed += sign * by.freed;
}

/// Adds what the device's pool does not count: what MemPools have of allocators of their own. Peaks of their
/// blocks are not added to the pool's, because nobody knows what was live at that moment.
inline void add_private(DeviceStats& stats, PrivateUsage usage) {
  // All segments are large blocks of the device's pool, whatever they serve.
  const auto reserved = [&](StatType type) -> Stat& {
    return stats.reserved_bytes[static_cast<size_t>(type)];
  };
  add_change(reserved(StatType::LARGE_POOL), usage.small_segment_bytes, -1);
  add_change(reserved(StatType::SMALL_POOL), usage.small_segment_bytes, 1);
  for (StatArray DeviceStats::*array : {&DeviceStats::segment, &DeviceStats::reserved_bytes}) {
    for (size_t type = 0; type < (stats.*array).size(); ++type)
      (stats.*array)[type].peak += (usage.foreign.*array)[type].peak;
  }
  for_each_stat(stats, usage.foreign, [](Stat& to, const Stat& by) {
    add_change(to, by, 1);
    to.peak = std::max(to.peak, to.current);
  });
}

/// Memory that is asleep is not reserved; like segments of a MemPool's own allocator, it is counted apart.
inline void take_off_asleep(DeviceStats& stats, int64_t asleep) {
  const auto reserved = [&](StatType type) -> int64_t& {
    return stats.reserved_bytes[static_cast<size_t>(type)].current;
  };
  asleep = std::min(asleep, reserved(StatType::AGGREGATE));
  const int64_t large = std::min(asleep, reserved(StatType::LARGE_POOL));
  reserved(StatType::AGGREGATE) -= asleep;
  reserved(StatType::LARGE_POOL) -= large;
  reserved(StatType::SMALL_POOL) -= asleep - large;
}

/// The totals since the last reset. The pool counts for ever, so this keeps what it had at the reset.
class Statistics {
 public:
  Statistics(const DevicePools& devices, PrivatePools& privates) : devices_(devices), privates_(privates) {}

  /// empty_cache was called. PyTorch counts that as waiting for all streams once.
  void note_empty() noexcept { empties_.fetch_add(1, std::memory_order_relaxed); }

  /// The program is about to see a shortage. The pool's own count has every malloc that fails, including
  /// those that are tried again and those of other libraries.
  void note_shortage(int device) {
    const std::lock_guard lock(mutex_);
    ++shortages_[device];
  }

  /// A malloc was refused because throw_on_cudamalloc_oom asks for it.
  void note_rejection(int device) {
    const std::lock_guard lock(mutex_);
    ++rejections_[device];
  }

  DeviceStats of(int device) {
    DeviceStats stats = since_start(device);
    const std::lock_guard lock(mutex_);
    const auto base = bases_.find(device);
    if (base == bases_.end()) return stats;
    DeviceStats& old = base->second;
    const auto take_off = [](Stat& now, const Stat& then) {
      now.allocated -= then.allocated;
      now.freed -= then.freed;
    };
    for_each_stat(stats, old, take_off);
#if GPUPOOL_PYTORCH >= 212
    stats.num_oom_rejections -= old.num_oom_rejections;
#endif
#if GPUPOOL_PYTORCH >= 213
    for (auto& [id, array] : stats.reserved_bytes_by_private_pools) {
      const auto then = old.reserved_bytes_by_private_pools.find(id);
      if (then == old.reserved_bytes_by_private_pools.end()) continue;
      for (size_t type = 0; type < array.size(); ++type) take_off(array[type], then->second[type]);
    }
#endif
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
    if (gpupool_t* pool = devices_.find(device)) add(stats, stats_of(pool));
    stats.num_sync_all_streams += empties_.load(std::memory_order_relaxed);
    {
      const std::lock_guard lock(mutex_);
      const auto shortages = shortages_.find(device);
      stats.num_ooms = shortages != shortages_.end() ? shortages->second : 0;
#if GPUPOOL_PYTORCH >= 212
      const auto rejections = rejections_.find(device);
      stats.num_oom_rejections = rejections != rejections_.end() ? rejections->second : 0;
#endif
    }
    PrivateUsage usage = privates_.usage(static_cast<DeviceIndex>(device));
#if GPUPOOL_PYTORCH >= 213
    stats.reserved_bytes_by_private_pools.insert(usage.reserved_bytes.begin(), usage.reserved_bytes.end());
#endif
    add_private(stats, std::move(usage));
    take_off_asleep(stats, static_cast<int64_t>(gpupool_torch_asleep_bytes(device)));
    stats.max_split_size = -1;  // none
    return stats;
  }

  const DevicePools& devices_;
  PrivatePools& privates_;
  std::atomic<int64_t> empties_{0};
  std::mutex mutex_;
  std::map<int, DeviceStats> bases_;
  std::map<int, int64_t> shortages_;
  std::map<int, int64_t> rejections_;
};

}  // namespace gpupool_torch
