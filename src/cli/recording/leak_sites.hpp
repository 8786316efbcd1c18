// SPDX-License-Identifier: Apache-2.0
// What is live at the end of a recording, by call site and tag, and which of it grows.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cli/recording/recording.hpp"

namespace gpupool::cli {

/// Live blocks of one call site under one tag.
struct LeakSite {
  uint32_t stack = 0;
  uint32_t tag = 0;
  uint64_t bytes = 0;
  uint64_t blocks = 0;
  uint64_t first_ns = 0;           // when the oldest one that is live at the end was allocated
  std::vector<uint64_t> at_marks;  // bytes at each mark since this site's first malloc
  uint64_t bytes_per_mark = 0;     // 0: does not grow
};

/// The sites with live blocks at the end, of one pool or of all: growing sites first, then the largest.
std::vector<LeakSite> find_leak_sites(const Recording& recording, std::optional<uint64_t> pool = {});

}  // namespace gpupool::cli
