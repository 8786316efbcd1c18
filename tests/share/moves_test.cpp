// SPDX-License-Identifier: Apache-2.0
// How much memory goes from one process to another, and at how many driver calls: no more than the working
// sets need, in chunks as large as the card allows.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <random>
#include <vector>

#include "pools_fixture.hpp"
#include "working_set.hpp"

namespace gpupool::internal::share {
namespace {

constexpr size_t kMembers = 3;
constexpr uint64_t kCardLimit = 60 * kGiB;
constexpr uint64_t kMostLive = kCardLimit / 100 * 97;

struct Resize {
  size_t who = 0;
  uint64_t bytes = 0;
};

/// One program at a time gets another working set, of any size that the others leave room for.
std::vector<Resize> make_turns(size_t count) {
  std::mt19937_64 random(1);
  std::array<uint64_t, kMembers> has{};
  std::vector<Resize> turns;
  while (turns.size() < count) {
    const size_t who = random() % kMembers;
    has[who] = 0;
    const uint64_t room = kMostLive - has[0] - has[1] - has[2];
    has[who] = random() % 1000 * (room / 1000) / kMiB * kMiB;
    turns.push_back({who, has[who]});
  }
  return turns;
}

/// What must go from one to another if each keeps what it has until another needs it, and gives it exactly.
uint64_t least_moved(const std::vector<Resize>& turns) {
  std::array<uint64_t, kMembers> live{};
  std::array<uint64_t, kMembers> reserved{};
  uint64_t moved = 0;
  for (const Resize& turn : turns) {
    live[turn.who] = turn.bytes;
    uint64_t& own = reserved[turn.who];
    if (turn.bytes <= own) continue;
    const uint64_t free = kCardLimit - reserved[0] - reserved[1] - reserved[2];
    uint64_t lacks = turn.bytes - own - std::min(turn.bytes - own, free);
    own = turn.bytes;
    moved += lacks;
    for (size_t i = 0; i < kMembers; ++i) {
      if (i == turn.who) continue;
      const uint64_t given = std::min(lacks, reserved[i] - live[i]);
      reserved[i] -= given;
      lacks -= given;
    }
  }
  return moved;
}

/// GPUPOOL_MOVES=TURNS for longer runs.
TEST_F(PoolsTest, F9_WhatMovesIsWhatWorkingSetsNeed) {
  setenv("GPUPOOL_SIM", "capacity=80GiB,data=0", 1);
  setenv("GPUPOOL_SHARE_LIMIT", std::to_string(kCardLimit).c_str(), 1);
  const char* const asked = getenv("GPUPOOL_MOVES");
  const auto turns = make_turns(asked == nullptr ? 60 : std::strtoull(asked, nullptr, 10));
  std::array<pid_t, kMembers> children{};
  for (size_t self = 0; self < kMembers; ++self) {
    children[self] = start([&, self] {
      gpupool_t* const pool = make_pool();
      WorkingSet set(pool, self, 512);
      for (size_t i = 0; i < turns.size(); ++i) {
        if (!board_->reaches(static_cast<int>(i), 60'000)) return 100;
        if (turns[i].who != self) continue;
        if (!set.become(turns[i].bytes)) return 1;
        ++board_->step;
      }
      const gpupool_stats_t stats = stats_of(pool);
      board_->figures[self] = stats.share_given_bytes;
      board_->figures[kMembers + self] = stats.driver.create.count + stats.driver.map.count +
                                         stats.driver.unmap.count + stats.driver.release.count;
      ++board_->step;
      return board_->reaches(static_cast<int>(turns.size() + kMembers)) ? 0 : 101;
    });
  }
  for (const pid_t child : children) EXPECT_EQ(end_of(child), 0);
  unsetenv("GPUPOOL_SHARE_LIMIT");
  const auto sum = [&](size_t first) {
    uint64_t all = 0;
    for (size_t i = 0; i < kMembers; ++i) all += board_->figures[first + i].load();
    return static_cast<double>(all);
  };
  const auto least = static_cast<double>(least_moved(turns));
  const double given = sum(0) / least;
  const double calls = sum(kMembers) / (least / kGiB);
  RecordProperty("given_per_least", std::to_string(given));
  RecordProperty("calls_per_gib", std::to_string(calls));
  EXPECT_LE(given, 1.15) << "memory goes to and fro";
  EXPECT_LE(calls, 260);
}

}  // namespace
}  // namespace gpupool::internal::share
