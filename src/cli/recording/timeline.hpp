// SPDX-License-Identifier: Apache-2.0
// What was live over time, thinned to some hundreds of moments.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/recording/recording.hpp"
#include "cli/recording/walk.hpp"

namespace gpupool::cli {

/// Live bytes of groups of blocks; the last group is all others if there are too many to tell apart.
struct GroupedBytes {
  std::string what;                            // "tag"
  std::vector<std::string> names;              // of the groups
  std::vector<std::vector<uint64_t>> by_name;  // of each group, at each moment
};

/// Each moment is the one of its interval at which most was live, so that no peak is lost.
struct Timeline {
  std::vector<uint64_t> ns;
  std::vector<uint64_t> events;  // of the whole recording that had happened by then
  std::vector<uint64_t> live;
  std::vector<uint64_t> reserved;
  std::vector<uint64_t> idle;  // in chunks that no live block touches
  std::vector<uint64_t> blocks;
  std::vector<GroupedBytes> groups;  // by tag, size, stream and thread
  size_t peak = 0;                   // which moment has the most
  uint64_t peak_reserved = 0;        // at any time
  uint64_t peak_reserved_ns = 0;
};

/// At most some twice `wanted` moments: intervals end by time and by number of events, so that neither a
/// burst nor a long rest hides the other.
Timeline make_timeline(const Recording& recording, uint64_t pool, uint64_t wanted);

}  // namespace gpupool::cli
