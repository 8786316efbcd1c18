// SPDX-License-Identifier: Apache-2.0
// Sums over the mallocs of a pool: by call site and tag, by size, and what failed.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "cli/recording/leaks.hpp"
#include "cli/recording/recording.hpp"

namespace gpupool::cli {

/// What the mallocs of one call site under one tag come to, in bytes as blocks take them.
struct SiteSums {
  uint32_t stack = 0;
  uint32_t tag = 0;
  uint64_t mallocs = 0;
  uint64_t bytes = 0;      // of all of them
  uint64_t requested = 0;  // the same, as was asked for
  uint64_t peak_blocks = 0;
  uint64_t peak_bytes = 0;  // live when most was live in the pool
  uint64_t end_blocks = 0;
  uint64_t end_bytes = 0;
  uint64_t temporary_mallocs = 0;  // freed before the second malloc after them
  uint64_t temporary_bytes = 0;
  uint64_t freed = 0;
  uint64_t life_ns = 0;  // of those that were freed, added up
  Growth growth;
};

struct SizeSums {
  uint64_t mallocs = 0;
  uint64_t live = 0;
  uint64_t most_live = 0;  // blocks at once
};

struct FailedMalloc {
  uint64_t ns;
  uint64_t bytes;
  uint32_t tag;
};

struct Groups {
  std::vector<SiteSums> sites;         // what held most at the peak comes first
  std::map<uint64_t, SizeSums> sizes;  // by requested bytes
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

Groups make_groups(const Recording& recording, uint64_t pool);

}  // namespace gpupool::cli
