// SPDX-License-Identifier: Apache-2.0
// What a process shows of its pools, read from its page. docs/inside/stats_page.md has the layout. Anybody
// may have written a page, so nothing in it is trusted.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace gpupool::cli {

/// The page cannot be read: cut short, damaged, or of another version. Says which, in words for a user.
class PageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct ShownTag {
  std::string name;
  uint64_t bytes = 0;  // estimated by samples
};

/// Figures are in bytes, except counts. Names and texts may hold any bytes.
struct ShownPool {
  uint64_t number = 0;
  uint32_t backend = 0;
  int32_t device = 0;
  bool is_child = false;
  bool is_asleep = false;
  bool runs_alone = false;
  uint64_t shown_ns = 0;  // CLOCK_MONOTONIC
  std::string device_id;
  std::string name;
  std::string group;
  uint64_t device_total = 0;
  uint64_t limit = 0;
  uint64_t live = 0;
  uint64_t live_blocks = 0;
  uint64_t live_peak = 0;
  uint64_t pending = 0;
  uint64_t pending_blocks = 0;
  uint64_t cached = 0;
  uint64_t slack = 0;
  uint64_t reserved = 0;
  uint64_t reserved_peak = 0;
  uint64_t asleep = 0;
  uint64_t backup = 0;
  uint64_t free_ranges = 0;
  uint64_t largest_free_range = 0;
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t steals = 0;
  uint64_t stream_steals = 0;
  uint64_t retries = 0;
  uint64_t failed_mallocs = 0;
  uint64_t driver_calls = 0;
  uint64_t driver_ns = 0;
  uint64_t streams = 0;
  uint64_t group_limit = 0;
  uint64_t group_used = 0;
  uint64_t given = 0;
  uint64_t taken = 0;
  std::vector<ShownTag> tags;
  bool is_hidden = false;  // not asked for, but counted in its process's figures
};

struct StatsPage {
  uint64_t process = 0;  // as its own namespace numbers it
  std::string version;
  uint64_t not_shown = 0;  // pools that found no slot
  uint64_t busy = 0;       // pools that were written whenever they were read
  std::vector<ShownPool> pools;
};

/// Copies bytes of a page; false if there are fewer.
using ReadPage = std::function<bool(uint64_t offset, void* to, size_t bytes)>;

/// Throws PageError.
StatsPage read_stats_page(const ReadPage& read);

}  // namespace gpupool::cli
