// SPDX-License-Identifier: Apache-2.0
// How long each call of a pattern takes in rest. Of what a step took in each of the periods measured, the
// least counts: they do the same, and what else happens on the machine only lengthens them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace hunt {

class Times {
 public:
  /// Those of a period, by step; 0 is no call.
  void add(const std::vector<uint32_t>& nanoseconds) {
    if (least_.size() != nanoseconds.size()) least_.assign(nanoseconds.size(), UINT32_MAX);
    for (size_t i = 0; i < least_.size(); ++i) least_[i] = std::min(least_[i], nanoseconds[i]);
  }

  double mean_ns() const {
    uint64_t sum = 0;
    uint64_t calls = 0;
    for (const uint32_t each : least_) {
      sum += each;
      calls += each != 0 ? 1 : 0;
    }
    return calls == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(calls);
  }

  double longest_ns() const { return least_.empty() ? 0 : *std::max_element(least_.begin(), least_.end()); }

 private:
  std::vector<uint32_t> least_;
};

}  // namespace hunt
