// SPDX-License-Identifier: Apache-2.0
// The searcher itself: a line gives the same pattern back, a pattern the same figures, and shrinking leaves
// what matters.
#include <gtest/gtest.h>

#include <stdexcept>
#include <tuple>

#include "attack/hunt/locks.hpp"
#include "attack/hunt/measure.hpp"
#include "attack/hunt/player.hpp"
#include "attack/hunt/search.hpp"
#include "attack/hunt/times.hpp"

namespace hunt {
namespace {

TEST(Pattern, ComesBackFromItsLine) {
  Random random(3);
  for (int i = 0; i < 1000; ++i) {
    const Pattern pattern = draw(random, kMostLive);
    EXPECT_EQ(from_line(to_line(pattern)), pattern) << to_line(pattern);
    EXPECT_EQ(made_sound(pattern, kMostLive), pattern) << to_line(pattern);
  }
}

TEST(Pattern, RefusesWhatItDoesNotKnow) {
  for (const char* line :
       {"threads", "threads=", "threads=0", "thread=1", "order=newest", "order=1", "live=1x"}) {
    EXPECT_THROW(from_line(line), std::invalid_argument) << line;
  }
}

TEST(Script, RepeatsItself) {
  Random random(5);
  for (int i = 0; i < 50; ++i) {
    Pattern pattern = draw(random, kMostLive);
    if (pattern.sizes == 0) pattern.sizes = 3;
    Script script(pattern);
    (void)script.next_period();
    const std::vector<Step> second = script.next_period();
    const std::vector<Step> third = script.next_period();
    EXPECT_EQ(second, third) << to_line(pattern);
  }
}

/// Says who called, and what is live.
class Witness : public Allocator {
 public:
  uint64_t malloc(int /*pool*/, uint64_t bytes, int stream) override {
    calls.emplace_back(std::this_thread::get_id(), bytes, stream);
    live += bytes;
    return calls.size();
  }
  void free(int /*pool*/, uint64_t /*address*/, uint64_t bytes, int /*stream*/) override {
    if (bytes == kMiB) throw std::runtime_error("a free that fails");
    live -= bytes;
  }
  uint64_t reserved_bytes() const override { return live; }

  std::vector<std::tuple<std::thread::id, uint64_t, int>> calls;
  uint64_t live = 0;
};

TEST(Player, LetsThreadsTakeTurns) {
  const Pattern pattern = from_line("threads=3 streams=3 steps=2");
  Script script(pattern);
  Witness witness;
  Player player(witness, 3, script.slots());
  player.play(script.next_period());
  player.play(script.last_frees());
  ASSERT_EQ(witness.calls.size(), 6u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(witness.calls[i], witness.calls[i + 3]);
    EXPECT_NE(std::get<0>(witness.calls[i]), std::get<0>(witness.calls[(i + 1) % 3]));
  }
  EXPECT_EQ(witness.live, 0u);
}

TEST(Player, TellsWhatAnAllocatorThrows) {
  const Pattern pattern = from_line("threads=2 low=1048576 high=1048576");
  Script script(pattern);
  Witness witness;
  Player player(witness, 2, script.slots());
  EXPECT_THROW(player.play(script.next_period()), std::runtime_error);
}

TEST(BestFit, NeedsWhatIsLive) {
  BestFit best_fit(1);
  const uint64_t a = best_fit.malloc(0, kMiB, 0);
  const uint64_t b = best_fit.malloc(0, kMiB, 0);
  EXPECT_EQ(best_fit.reserved_bytes(), 2 * kMiB);
  best_fit.free(0, a, kMiB, 0);
  EXPECT_EQ(best_fit.malloc(0, 1000, 0), a);
  EXPECT_EQ(best_fit.malloc(0, kMiB - 1024, 0), a + 1024);
  best_fit.free(0, b, kMiB, 0);
  // What is free at the end is used before it grows.
  EXPECT_EQ(best_fit.malloc(0, 3 * kMiB, 0), b);
  EXPECT_EQ(best_fit.reserved_bytes(), 4 * kMiB);
}

/// A graph may run again until the next period captures another: its memory is nobody else's.
TEST(BestFit, KeepsWhatGraphsUse) {
  BestFit best_fit(1);
  for (int period = 0; period < 3; ++period) {
    best_fit.begin_capture(0);
    best_fit.free(0, best_fit.malloc(0, 2 * kMiB, 0), 2 * kMiB, 0);
    best_fit.end_capture(0);
    best_fit.free(0, best_fit.malloc(0, 2 * kMiB, 0), 2 * kMiB, 0);
    EXPECT_EQ(best_fit.reserved_bytes(), 4 * kMiB);
  }
  EXPECT_EQ(live_peak(from_line("captures=4 high=4096 live=3")), 7 * 4096u);
}

TEST(Measure, CountsTheSameEachTime) {
  const Pattern pattern = from_line("threads=4 streams=4 route=any sizes=8 high=524288 pick=any busy=30");
  const Figures first = measure(pattern);
  const Figures second = measure(pattern);
  for (const Law law : {kMisses, kDriverCalls, kDriverTime, kReserved, kLocks, kFailures, kFaults}) {
    EXPECT_EQ(first.values[law], second.values[law]) << laws()[law].name;
  }
}

TEST(Measure, CountsLocks) {
  if (!counts_locks()) GTEST_SKIP() << "a sanitizer has functions of its own";
  // Sizes that are always new miss, and each miss takes the pool's lock.
  EXPECT_GE(measure(from_line("sizes=0 low=8192 high=800000")).values[kLocks], 0.25);
  EXPECT_EQ(measure(from_line("sizes=1")).values[kLocks], 0);
}

TEST(Times, TakeTheLeastOfEachStep) {
  Times times;
  times.add({10, 0, 500});
  times.add({900, 0, 30});
  EXPECT_EQ(times.mean_ns(), 20);
  EXPECT_EQ(times.longest_ns(), 30);
}

/// As if much were reserved for many streams, and for nothing else.
Figures reserve_for_streams(const Pattern& pattern) {
  Figures figures;
  figures.values[kReserved] = pattern.streams >= 4 ? 9 : 1;
  return figures;
}

TEST(Shrinking, LeavesWhatMatters) {
  const Pattern pattern =
      from_line("streams=64 threads=8 sizes=20 high=1000000 order=any live=20 busy=30 gap=1");
  const Finding finding = shrunk({kReserved, pattern, reserve_for_streams(pattern)}, reserve_for_streams);
  EXPECT_LE(finding.pattern.streams, 8);
  EXPECT_GE(finding.pattern.streams, 4);
  Pattern rest = finding.pattern;
  rest.streams = 1;
  EXPECT_EQ(rest, Pattern{}) << to_line(finding.pattern);
}

TEST(Search, KeepsTheWorstOfEachKind) {
  int told = 0;
  Search search(9, reserve_for_streams, [&](const Finding&) { ++told; });
  for (int i = 0; i < 100; ++i) search.try_one();
  EXPECT_EQ(search.tried(), 100u);
  EXPECT_GT(search.broken()[kReserved], 0u);
  while (search.shrink_one()) continue;
  ASSERT_EQ(search.findings().size(), 1u);
  EXPECT_EQ(kind_of(search.findings()[0]), "reserved streams");
  EXPECT_GE(told, 1);
}

}  // namespace
}  // namespace hunt
