// SPDX-License-Identifier: Apache-2.0
// Sums over the mallocs of a pool: by call site and tag, by size, and what failed; of all the time and of
// windows of it.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "cli/recording/leaks.hpp"
#include "cli/recording/recording.hpp"
#include "cli/recording/timeline.hpp"
#include "cli/report/tally.hpp"

namespace gpupool::cli {

/// The mallocs of one call site under one tag.
struct SiteSums : GroupSums {
  uint32_t stack = 0;
  uint32_t tag = 0;
  Growth growth;
};

struct FailedMalloc {
  uint64_t ns;
  uint64_t bytes;
  uint32_t tag;
};

/// A part of the time between two moments of the timeline. A window begins where the one before it ends.
struct Window {
  size_t peak;  // the moment at which most was live
  size_t end;   // the last moment
};

struct Groups {
  std::vector<Window> windows;
  std::vector<SiteSums> sites;              // what held most at the peak comes first
  std::map<uint64_t, GroupSums> sizes;      // by requested bytes
  std::map<uint32_t, GroupSums> doublings;  // by size again: of up to two to the power of the key
  std::vector<FailedMalloc> failed;
  std::vector<Leak> growing;  // sites, tags and streams, what has grown most first
  uint64_t mallocs = 0;
  uint64_t frees = 0;
  uint64_t peak_bytes = 0;
  uint64_t peak_blocks = 0;
  uint64_t peak_ns = 0;
  uint64_t end_bytes = 0;
  uint64_t end_blocks = 0;
};

/// Rows of a table of the page; it counts those beyond.
inline constexpr size_t kMostRows = 4000;

/// The sites that a table has room for: what holds or leaks most is kept, and then what allocates most.
std::vector<const SiteSums*> most_held(const Groups& groups);

Groups make_groups(const Recording& recording, uint64_t pool, const Timeline& timeline);

}  // namespace gpupool::cli
