// SPDX-License-Identifier: Apache-2.0
// The share of a device that PyTorch may hold, as torch.cuda.set_per_process_memory_fraction sets it, or,
// from the start, per_process_memory_fraction in PYTORCH_ALLOC_CONF. A message names, once, the other
// settings there that mean nothing to gpupool.
#pragma once

#include <c10/util/Exception.h>
#include <gpupool/gpupool.h>

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "device_pools.hpp"
#include "pytorch.hpp"

namespace gpupool_torch {

/// A fraction in bytes. 0 is a limit as well; under it there is no memory.
inline uint64_t limit_of(double fraction, uint64_t total) {
  return std::max(static_cast<uint64_t>(fraction * static_cast<double>(total)), uint64_t{1});
}

class Limits {
 public:
  /// Puts PyTorch's own setting on a pool, unless the pool's limit is lower already.
  void apply_setting(DeviceIndex device, gpupool_t* pool, uint64_t total) {
    const double fraction = settings_in_force().memory_fraction;
    if (fraction >= 1) return;
    const uint64_t known = stats_of(pool).limit_bytes;
    if (known == 0 || limit_of(fraction, total) < known) set(fraction, device, pool, total);
  }

  /// As PyTorch's own allocator does, this takes nothing from anybody: if more is in use, that is the limit
  /// until it is freed.
  void set(double fraction, DeviceIndex device, gpupool_t* pool, uint64_t total) {
    TORCH_CHECK(0 <= fraction && fraction <= 1, "invalid fraction:", fraction, ". Please set within [0, 1].");
    const std::lock_guard lock(mutex_);
    const uint64_t limit = limit_of(fraction, total);
    set_[device] = {fraction, limit, lower(pool, limit)};
  }

  /// Brings a limit that was below what was in use closer to what was asked for.
  void tighten(DeviceIndex device, gpupool_t* pool) {
    const std::lock_guard lock(mutex_);
    const auto own = set_.find(device);
    if (own == set_.end() || own->second.in_force == own->second.wanted) return;
    if (stats_of(pool).limit_bytes == own->second.in_force)  // else the program has set another one
      own->second.in_force = lower(pool, own->second.wanted);
  }

  /// The fraction as it was set, to the last digit, if it is still in force.
  double get(DeviceIndex device, gpupool_t* pool, uint64_t total) {
    const uint64_t limit = stats_of(pool).limit_bytes;
    const std::lock_guard lock(mutex_);
    const auto own = set_.find(device);
    if (own != set_.end() && own->second.in_force == limit) return own->second.fraction;
    return limit == 0 ? 1.0 : static_cast<double>(limit) / static_cast<double>(total);
  }

  /// Names the settings that mean nothing here. Called once.
  static void tell_what_is_ignored() {
    const Settings set = settings_in_force();
    const auto& divisions = set.roundup_power2_divisions;
    std::string names;
    const auto add = [&](bool is_set, const char* name) {
      if (is_set) names += (names.empty() ? "" : ", ") + std::string(name);
    };
    add(set.expandable_segments, "expandable_segments");
    add(set.max_split_size != std::numeric_limits<size_t>::max(), "max_split_size_mb");
    add(set.garbage_collection_threshold > 0, "garbage_collection_threshold");
    add(std::any_of(divisions.begin(), divisions.end(), [](size_t each) { return each > 1; }),
        "roundup_power2_divisions");
    add(CUDAAllocatorConfig::release_lock_on_cudamalloc(), "release_lock_on_cudamalloc");
    for (const char* name :
         {"expandable_segments_reserve", "expandable_segments_reserve_by_class", "large_segment_size_mb"}) {
      add(has(set.text, name), name);
    }
    if (names.empty()) return;
    TORCH_WARN(
        "gpupool serves PyTorch's GPU memory, so that these settings of PYTORCH_ALLOC_CONF do nothing: ",
        names, ". It maps memory where it is needed, and has no segments to split, collect or round for.");
  }

 private:
  struct Set {
    double fraction;
    uint64_t wanted;
    uint64_t in_force;
  };

  /// Whether the settings name this one.
  static bool has(std::string_view settings, std::string_view name) {
    for (size_t at = settings.find(name); at != settings.npos; at = settings.find(name, at + 1)) {
      const size_t end = settings.find_first_not_of(' ', at + name.size());
      const bool starts = at == 0 || settings[at - 1] == ',' || settings[at - 1] == ' ';
      if (starts && end != settings.npos && settings[end] == ':') return true;
    }
    return false;
  }

  /// Returns the limit that could be set: what is reserved once nothing is cached, if that is more. Other
  /// threads may get memory meanwhile, hence the tries.
  static uint64_t lower(gpupool_t* pool, uint64_t limit) {
    for (int tries = 0; tries < 16; ++tries) {
      const gpupool_status_t status = gpupool_set_limit(pool, limit);
      if (status == GPUPOOL_SUCCESS) return limit;
      if (status != GPUPOOL_ERROR_OVER_LIMIT) break;
      (void)gpupool_empty(pool, nullptr);
      const uint64_t held = stats_of(pool).all.reserved_bytes.current;
      if (held > limit && gpupool_set_limit(pool, held) == GPUPOOL_SUCCESS) return held;
    }
    TORCH_CHECK(false, "gpupool: ", last_error());
  }

  std::mutex mutex_;
  std::map<DeviceIndex, Set> set_;
};

}  // namespace gpupool_torch
