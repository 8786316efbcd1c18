// SPDX-License-Identifier: Apache-2.0
// Checks that costs stay constant: a thread's processor time, compared within a run with room for noise, and
// bytes and driver calls, which are counted exactly.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "attack/lab.hpp"

namespace attack {

inline constexpr uint64_t kSpan = 1000;               // streams, pools, ... that are timed together
inline constexpr uint64_t kPatience = 8'000'000'000;  // nanoseconds of a thread, after which a test gives up

/// Times of spans that should take the same each, one after the other.
class Spans {
 public:
  /// Notes one of many equal steps. False when the test has lost patience.
  bool step() {
    if (++steps_ % kSpan != 0) return true;
    const uint64_t now = cpu_ns();
    spans_.push_back(now - last_);
    last_ = now;
    if (now - begin_ < kPatience) return true;
    ADD_FAILURE() << steps_ << " took " << (now - begin_) / 1'000'000 << " ms: the last " << kSpan << " "
                  << spans_.back() / 1'000'000 << " ms, the first " << spans_.front() / 1'000'000 << " ms";
    return false;
  }

  /// The end takes at most three times as long as the beginning, the very first span left out. Of the end the
  /// least counts, since what else the machine does only lengthens a span.
  void expect_flat() const {
    ASSERT_GE(spans_.size(), 7u);
    const auto end = static_cast<std::ptrdiff_t>(std::max<size_t>(spans_.size() / 4, 3));
    const uint64_t first = *std::max_element(spans_.begin() + 1, spans_.begin() + 4);
    const uint64_t last = *std::min_element(spans_.end() - end, spans_.end());
    EXPECT_LE(last, 3 * first + 200'000)
        << "nanoseconds for " << kSpan << ", at the end and at the beginning";
  }

  uint64_t steps() const { return steps_; }

 private:
  uint64_t begin_ = cpu_ns();
  uint64_t last_ = begin_;
  uint64_t steps_ = 0;
  std::vector<uint64_t> spans_;
};

/// What must not grow.
struct Footprint {
  uint64_t metadata;
  uint64_t memory;
  uint64_t addresses;
  uint64_t creates;
  uint64_t address_calls;
  uint64_t mallocs;
  uint64_t reserved;

  explicit Footprint(PoolUnderTest& pool) {
    const gpupool_stats_t stats = pool.stats();
    metadata = stats.metadata_bytes;
    creates = stats.driver.create.count;
    address_calls = stats.driver.address.count;
    mallocs = stats.driver.malloc.count;
    reserved = stats.all.reserved_bytes.current;
    memory = memory_of_process();
    addresses = addresses_of_process();
  }
};

/// `of_device`: bytes that the simulated device itself may keep for each that came and went.
inline void expect_flat(const Footprint& before, const Footprint& after, uint64_t count, uint64_t of_device) {
  EXPECT_LE(after.metadata, before.metadata + 64 * kKiB);
  EXPECT_LE(after.memory, before.memory + kNoise + count * of_device);
  EXPECT_LE(after.addresses, before.addresses + 64 * kMiB + kNoise + count * of_device);
  EXPECT_EQ(after.creates, before.creates);
  EXPECT_EQ(after.address_calls, before.address_calls);
  EXPECT_EQ(after.mallocs, before.mallocs);
  EXPECT_EQ(after.reserved, before.reserved);
}

/// Processor nanoseconds of one call, on average.
inline uint64_t time_of(uint64_t count, const std::function<void(uint64_t)>& call) {
  const uint64_t begin = cpu_ns();
  for (uint64_t i = 0; i < count; ++i) call(i);
  return (cpu_ns() - begin) / count;
}

/// The least of several, for calls that do the same each time.
inline uint64_t least_time_of(int count, const std::function<void()>& call) {
  uint64_t least = ~uint64_t{0};
  for (int i = 0; i < count; ++i) least = std::min(least, time_of(1, [&](uint64_t) { call(); }));
  return least;
}

/// The least of both costs, taken in turn up to seven times, until a law that holds shows: what else the
/// machine does lengthens one or the other by chance, and never shortens the least of a cost that grows.
inline void expect_like_in_turn(const std::function<uint64_t()>& few, const std::function<uint64_t()>& many,
                                uint64_t factor, uint64_t floor, const char* what) {
  uint64_t least_few = ~uint64_t{0};
  uint64_t least_many = ~uint64_t{0};
  for (int turn = 0; turn < 7 && !testing::Test::HasFailure(); ++turn) {
    least_few = std::min(least_few, few());
    least_many = std::min(least_many, many());
    if (least_many <= std::max(factor * least_few, floor)) return;
  }
  ADD_FAILURE() << what << ": " << least_many << " nanoseconds with many, against " << least_few
                << " with few";
}

/// A cost with many may be `factor` times that with few, and up to `floor` nanoseconds in any case.
inline void expect_like(uint64_t few, uint64_t many, uint64_t factor, uint64_t floor, const char* what) {
  EXPECT_LE(many, std::max(factor * few, floor))
      << what << ": nanoseconds with many, against " << few << " with few";
}

}  // namespace attack
