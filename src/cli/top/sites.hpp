// SPDX-License-Identifier: Apache-2.0
// Who holds live bytes, summed up by function, or as a tree of calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "cli/processes/control_snapshot.hpp"

namespace gpupool::cli {

/// By which figure lines come; the largest first.
enum class SiteOrder : uint8_t { total, own, oldest };

struct SiteLine {
  uint64_t key = 0;  // stays the same while figures change
  std::string name;
  uint64_t own = 0;    // bytes that it has allocated itself
  uint64_t total = 0;  // with those of what it has called
  uint64_t oldest_ns = 0;
  size_t depth = 0;  // in the tree
  bool has_callees = false;
};

/// Without the native frames of stacks that have others: they are the interpreter's.
std::vector<ShownHolder> without_native(std::vector<ShownHolder> holders);

/// A line for each function, of all the lines of source from which it allocates or calls.
std::vector<SiteLine> functions_of(const std::vector<ShownHolder>& holders, SiteOrder order);

/// A line for each frame, under the one that has called it, and for each tag under the frames that allocate
/// with it. Those below `folded` are left out. What has one callee only does not indent it.
std::vector<SiteLine> tree_of(const std::vector<ShownHolder>& holders, SiteOrder order,
                              const std::set<uint64_t>& folded);

}  // namespace gpupool::cli
