// SPDX-License-Identifier: Apache-2.0
// What the searcher found once holds now; or it fails still, no worse than when it was kept, and no better: a
// pattern that has come to hold is to be moved. And the first patterns of a seed break no more laws than they
// did.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "attack/hunt/kept.hpp"
#include "attack/hunt/locks.hpp"
#include "attack/hunt/measure.hpp"

namespace hunt {
namespace {

constexpr int kDrawn = 150;
constexpr uint64_t kSeed = 1;
/// Counts are exact, but a change that has nothing to do with a pattern may move them a little. Times are the
/// machine's: what is mended takes less than half of what it may, and what fails may take longer elsewhere.
double tolerance(Law law) {
  return is_time(law) ? 5 : 1.25;
}
double mended_at(Law law) {
  return is_time(law) ? 0.5 : 1;
}

const std::vector<Kept>& kept() {
  static const std::vector<Kept> all = read_kept(HUNT_KEPT);
  return all;
}

TEST(Kept, WhatHolds) {
  for (const Kept& each : kept()) {
    if (each.state != State::holds) continue;
    const Figures figures = measure(each.pattern);
    EXPECT_LE(excess(each.law, each.pattern, figures), 1)
        << each.line << "\nis " << figures.values[each.law] << ' ' << figures.words.data();
  }
}

TEST(Kept, WhatFailsStill) {
  for (const Kept& each : kept()) {
    if (each.state != State::fails || std::isinf(laws()[each.law].bound(each.pattern))) continue;
    const Figures figures = measure(each.pattern);
    const double figure = figures.values[each.law];
    EXPECT_GT(excess(each.law, each.pattern, figures), mended_at(each.law))
        << each.line << "\nholds now, with " << figure << ": make it \"holds\" in kept.txt";
    EXPECT_LE(figure, each.figure * tolerance(each.law)) << each.line << "\nis worse than it was";
  }
}

/// Each of many threads on a stream of its own: what they take in common, they wait for on many processors.
TEST(Kept, ThreadsThatOnlyHitTakeNoLock) {
  if (!counts_locks()) GTEST_SKIP() << "locks are not counted";
  const Figures figures = measure(from_line("threads=16 streams=16 own=1 low=65536 high=65536 steps=1000"));
  EXPECT_EQ(figures.values[kMisses], 0);
  EXPECT_LE(figures.values[kLocks], 0.001);
}

TEST(Drawn, BreakNoMoreLaws) {
  std::array<int, kLawCount> broken{};
  Random random(kSeed);
  for (int i = 0; i < kDrawn; ++i) {
    const Pattern pattern = draw(random, kMostLive);
    const Figures figures = measure(pattern);
    for (size_t law = 0; law < kLawCount; ++law) {
      broken[law] += excess(static_cast<Law>(law), pattern, figures) > 1 ? 1 : 0;
    }
    EXPECT_EQ(figures.values[kFaults], 0) << to_line(pattern) << '\n' << figures.words.data();
  }
  for (const Kept& each : kept()) {
    if (each.state != State::drawn || (each.law == kLocks && !counts_locks())) continue;
    EXPECT_LE(broken[each.law], each.figure) << each.line;
    EXPECT_GE(broken[each.law], each.figure / 2) << each.line << "\nis better: lower it in kept.txt";
  }
}

}  // namespace
}  // namespace hunt
