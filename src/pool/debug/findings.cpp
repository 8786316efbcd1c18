// SPDX-License-Identifier: Apache-2.0
#include "pool/debug/findings.hpp"

#include <cstdio>
#include <new>

#include "base/log.hpp"
#include "pool/debug/descriptions.hpp"
#include "pool/memory/pool_state.hpp"

namespace gpupool::internal {

std::vector<Finding> Findings::collect() noexcept {
  std::vector<Finding> found;
  try {
    inspector_.collect(history_, found);
  } catch (const std::bad_alloc&) {
    // Another look will find it.
  }
  return found;
}

void Findings::tell(const std::vector<Finding>& found) noexcept {
  for (const Finding& finding : found) {
    try {
      const std::string line = describe_finding(finding);
      if (!log_enabled(GPUPOOL_LOG_ERROR)) std::fprintf(stderr, "gpupool: %s\n", line.c_str());
      const PoolLock lock = pool_.look();
      log_line(GPUPOOL_LOG_ERROR, "%s", line.c_str());
      told_.push_back(line);
      if (told_.size() > kToldMax) told_.pop_front();
    } catch (const std::bad_alloc&) {
      // The finding counts all the same.
    }
    const PoolLock lock = pool_.look();
    ++count_;
  }
}

void Findings::describe(uint64_t& count, std::string& text) const {
  const uint64_t untold = inspector_.untold();
  count = count_ + untold;
  for (const std::string& line : told_) text += line + "\n";
  if (untold != 0) text += std::to_string(untold) + " more were only counted\n";
  if (const uint64_t skipped = inspector_.skipped(); skipped != 0)
    text += std::to_string(skipped) +
            " fills and looks were left out, while streams captured, might begin to, or were gone, or beside "
            "a sleep\n";
}

}  // namespace gpupool::internal
