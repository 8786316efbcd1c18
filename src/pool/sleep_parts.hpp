// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "pool/sleeper.hpp"

namespace gpupool::internal {

/// Calls visit(address, size, offset) for the parts of runs that lie in a batch, until that fails.
template <typename Visit>
Status Sleeper::for_parts(const std::vector<Run>& runs, const Batch& batch, Visit visit) {
  const Address end = batch.start + batch.size;
  auto run = std::upper_bound(runs.begin(), runs.end(), batch.start,
                              [](Address at, const Run& each) { return at < each.address + each.size; });
  for (; run != runs.end() && run->address < end; ++run) {
    const Address first = std::max(run->address, batch.start);
    const Address last = std::min(run->address + run->size, end);
    const Status status = visit(first, last - first, run->offset + (first - run->address));
    if (status != kSuccess) return status;
  }
  return kSuccess;
}

}  // namespace gpupool::internal
