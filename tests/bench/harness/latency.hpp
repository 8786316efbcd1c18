// SPDX-License-Identifier: Apache-2.0
// How long single calls take: a histogram that costs nothing to fill.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace gpupool_bench {

using Clock = std::chrono::steady_clock;

inline uint64_t nanoseconds_since(Clock::time_point start) {
  return static_cast<uint64_t>(std::chrono::nanoseconds(Clock::now() - start).count());
}

/// Counts of nanoseconds: eight buckets to each power of two, so that a quantile is true to 12 per cent.
class Histogram {
 public:
  void add(uint64_t nanoseconds) {
    ++buckets_[index_of(nanoseconds)];
    ++count_;
    sum_ += nanoseconds;
    most_ = std::max(most_, nanoseconds);
    if (nanoseconds >= kSlow) slow_ += nanoseconds;
  }

  /// The least number of nanoseconds that at most (1 - share) of all calls exceed.
  uint64_t quantile(double share) const {
    const auto wanted = static_cast<uint64_t>(share * static_cast<double>(count_));
    uint64_t seen = 0;
    for (size_t i = 0; i < buckets_.size(); ++i) {
      seen += buckets_[i];
      if (seen > wanted) return std::min(most_, upper_bound(i));
    }
    return most_;
  }

  uint64_t count() const { return count_; }
  uint64_t most() const { return most_; }
  uint64_t mean() const { return sum_ / std::max<uint64_t>(count_, 1); }
  /// The sum of all calls that took so long that a driver must have been asked.
  uint64_t slow_nanoseconds() const { return slow_; }

  /// [[nanoseconds, count], ...] of the buckets that are not empty.
  std::string to_json() const {
    std::string list;
    for (size_t i = 0; i < buckets_.size(); ++i) {
      if (buckets_[i] == 0) continue;
      list += (list.empty() ? "[" : ",[") + std::to_string(upper_bound(i)) + ',' +
              std::to_string(buckets_[i]) + ']';
    }
    return '[' + list + ']';
  }

  static constexpr uint64_t kSlow = 3000;

 private:
  static size_t index_of(uint64_t nanoseconds) {
    if (nanoseconds < 16) return static_cast<size_t>(nanoseconds);
    const auto power = static_cast<size_t>(std::bit_width(nanoseconds)) - 1;
    return 16 + (power - 4) * 8 + static_cast<size_t>((nanoseconds >> (power - 3)) & 7);
  }
  static uint64_t upper_bound(size_t index) {
    if (index < 16) return index;
    const size_t power = (index - 16) / 8 + 4;
    return ((8 + (index - 16) % 8 + 1) << (power - 3)) - 1;
  }

  std::array<uint64_t, 16 + 60 * 8> buckets_{};
  uint64_t count_ = 0;
  uint64_t sum_ = 0;
  uint64_t most_ = 0;
  uint64_t slow_ = 0;
};

/// The yardstick for single calls: as many waits of `nanoseconds`, in which nothing is done. What they exceed
/// that by is the machine's: its clock's ticks, and what else runs there.
inline Histogram time_nothing(uint64_t nanoseconds, uint64_t count) {
  Histogram histogram;
  for (uint64_t i = 0; i < count; ++i) {
    const Clock::time_point start = Clock::now();
    uint64_t taken = 0;
    while ((taken = nanoseconds_since(start)) < nanoseconds) {
    }
    histogram.add(taken);
  }
  return histogram;
}

}  // namespace gpupool_bench
