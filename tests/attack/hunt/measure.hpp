// SPDX-License-Identifier: Apache-2.0
// Plays a pattern on gpupool until it should have come to rest, and says what it costs then.
#pragma once

#include "attack/hunt/laws.hpp"

namespace hunt {

inline constexpr int kPeriodsToRest = 8;
inline constexpr int kPeriodsMeasured = 4;
/// What may be live at a time: half of what the simulated device has.
inline constexpr uint64_t kMostLive = uint64_t{64} << 30;

/// In a process of its own, on the simulated device: if that process ends or hangs, that is a fault.
Figures measure(const Pattern& pattern);

/// How long each call takes in rest: of what a step took in each of the periods measured, the least counts,
/// because they do the same, and what else happens on the machine only lengthens them.
class Times {
 public:
  void add(const std::vector<uint32_t>& nanoseconds);
  double mean_ns() const;
  double longest_ns() const;

 private:
  std::vector<uint32_t> least_;
};

}  // namespace hunt
