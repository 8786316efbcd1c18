// SPDX-License-Identifier: Apache-2.0
// How much memory goes from one process to another, and at how many driver calls: no more than the working
// sets need, in chunks as large as the card allows.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

#include "pools_fixture.hpp"
#include "working_set.hpp"

namespace gpupool::internal::share {
namespace {

constexpr size_t kMembers = 3;
constexpr uint64_t kCardLimit = 60 * kGiB;
constexpr uint64_t kLivePercent = 97;  // of the limit, at most

struct Resize {
  size_t who = 0;
  uint64_t bytes = 0;
};

/// One program at a time gets another working set, of any size that the others leave room for; in so many of
/// 1,000 turns it takes all that room.
std::vector<Resize> make_turns(size_t count, size_t members, uint64_t limit, uint64_t full, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint64_t> has(members);
  std::vector<Resize> turns;
  while (turns.size() < count) {
    const size_t who = random() % members;
    has[who] = 0;
    const uint64_t room = limit / 100 * kLivePercent - std::accumulate(has.begin(), has.end(), uint64_t{0});
    const uint64_t part = random() % 1000;
    has[who] = (part < full ? room : part * (room / 1000)) / kMiB * kMiB;
    turns.push_back({who, has[who]});
  }
  return turns;
}

/// What a process does whose turns are those of `self`; it replaces so many blocks in each. Returns 0, or
/// what it ends with.
int take_turns(const std::vector<Resize>& turns, size_t self, Board& board, WorkingSet& set, int replaced) {
  for (size_t i = 0; i < turns.size(); ++i) {
    if (!board.reaches(static_cast<int>(i), 60'000)) return 100;
    if (turns[i].who != self) continue;
    if (!set.become(turns[i].bytes)) return 1;
    if (!set.work(replaced)) return 2;
    ++board.step;
  }
  return 0;
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
  const size_t count = asked == nullptr ? 60 : std::strtoull(asked, nullptr, 10);
  const auto turns = make_turns(count, kMembers, kCardLimit, 0, 1);
  std::array<pid_t, kMembers> children{};
  for (size_t self = 0; self < kMembers; ++self) {
    children[self] = start([&, self] {
      gpupool_t* const pool = make_pool();
      WorkingSet set(pool, self, 512);
      if (const int end = take_turns(turns, self, *board_, set, 0); end != 0) return end;
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

/// A step of a program whose streams take turns: what one has freed, the other needs in pieces of another
/// size.
bool take_a_step(gpupool_t* pool) {
  struct Work {
    gpupool_stream_t stream;
    size_t blocks;
    uint64_t bytes;
  };
  for (const Work& work : {Work{16, 8, 128 * kMiB}, Work{32, 5, 200 * kMiB}}) {
    std::vector<gpupool_ptr_t> blocks(work.blocks);
    for (gpupool_ptr_t& each : blocks) {
      if (gpupool_malloc(pool, work.bytes, work.stream, &each) != GPUPOOL_SUCCESS) return false;
    }
    for (const gpupool_ptr_t each : blocks) gpupool_free(pool, each, work.stream);
  }
  return true;
}

/// What three members did in the second half of their time, in which they took steps in turn.
struct AtRest {
  static constexpr uint64_t kBlocks = kMembers * 19 * 13;  // that they took
  uint64_t moved = 0;  // chunks, within and between the streams of a member
  uint64_t calls = 0;
  uint64_t given = 0;     // bytes, from one member to another
  uint64_t reserved = 0;  // at the end, by the member that has most
};

class RestTest : public PoolsTest {
 protected:
  AtRest take_steps(uint64_t limit) {
    setenv("GPUPOOL_SHARE_LIMIT", std::to_string(limit).c_str(), 1);
    board_->step = 0;
    for (auto& each : board_->figures) each = 0;
    constexpr int kSteps = 40;
    constexpr int kAll = static_cast<int>(kMembers);
    std::array<pid_t, kMembers> children{};
    for (int self = 0; self < kAll; ++self) {
      children[static_cast<size_t>(self)] = start([&, self] {
        gpupool_t* const pool = make_pool();
        gpupool_stats_t then{};
        for (int step = 0; step < kSteps; ++step) {
          if (!board_->reaches(step * kAll + self, 60'000)) return 100;
          if (!take_a_step(pool)) return 1;
          if (step == kSteps / 2) then = stats_of(pool);
          ++board_->step;
        }
        const gpupool_stats_t now = stats_of(pool);
        board_->figures[0] += now.steals - then.steals;
        board_->figures[1] += calls_of(now) - calls_of(then);
        board_->figures[2] += now.share_given_bytes - then.share_given_bytes;
        board_->figures[static_cast<size_t>(3 + self)] = now.all.reserved_bytes.current;
        ++board_->step;
        return board_->reaches((kSteps + 1) * kAll) ? 0 : 101;
      });
    }
    for (const pid_t child : children) EXPECT_EQ(end_of(child), 0);
    unsetenv("GPUPOOL_SHARE_LIMIT");
    const auto& all = board_->figures;
    return {all[0], all[1], all[2], std::max({all[3].load(), all[4].load(), all[5].load()})};
  }

 private:
  static uint64_t calls_of(const gpupool_stats_t& stats) {
    const gpupool_driver_stats_t& driver = stats.driver;
    return driver.create.count + driver.map.count + driver.unmap.count + driver.release.count;
  }
};

/// Each member alone comes to rest with about 2 GiB. Where the group has room for exactly that, or more, a
/// step moves nothing, within a member or to another, and calls no driver.
TEST_F(RestTest, WhereAllFitsNothingMoves) {
  const uint64_t held = kMembers * take_steps(kCapacity).reserved;
  EXPECT_LE(held, kMembers * 2100 * kMiB);
  for (const uint64_t limit : {kCapacity, held}) {
    const AtRest rest = take_steps(limit);
    EXPECT_EQ(rest.moved, 0U) << limit / kMiB;
    EXPECT_EQ(rest.calls, 0U) << limit / kMiB;
    EXPECT_EQ(rest.given, 0U) << limit / kMiB;
  }
}

/// What is live fits, but not what each would have to be at rest alone: whatever a member lacks for that, it
/// does not take from the others, but for a block at most that comes late on a busy machine. Within itself
/// its streams take large chunks from each other where they are, which hardly calls the driver: a block, of
/// 155 MiB on average, takes 16 of them at most.
TEST_F(RestTest, WhereWhatIsLiveFitsNothingGoesToNeighbours) {
  for (const uint64_t limit : {3400 * kMiB, 4500 * kMiB, 5500 * kMiB}) {
    const AtRest rest = take_steps(limit);
    EXPECT_LE(rest.given, 200 * kMiB) << limit / kMiB;
    EXPECT_LE(rest.moved, 16 * AtRest::kBlocks) << limit / kMiB;
    EXPECT_LE(rest.calls, AtRest::kBlocks) << limit / kMiB;
  }
}

struct Full {
  const char* name;
  uint64_t limit;
  uint64_t seed;
};

class FullCard : public PoolsTest, public testing::WithParamInterface<Full> {};
INSTANTIATE_TEST_SUITE_P(Of, FullCard,
                         testing::Values(Full{"64GiB", 64 * kGiB, 2}, Full{"80GiB", 80 * kGiB, 1},
                                         Full{"127GiB", 127 * kGiB, 3}),
                         [](const auto& each) { return std::string(each.param.name); });

/// Four programs whose working sets fill the card again and again, and which replace blocks between: what one
/// holds beyond its live blocks, in chunks that these touch, must not be what another lacks.
TEST_P(FullCard, WorkingSetsThatFillTheCardFindTheirMemory) {
  const Full& card = GetParam();
  constexpr size_t kPrograms = 4;
  setenv("GPUPOOL_SIM", "capacity=140GiB,data=0", 1);
  setenv("GPUPOOL_SHARE_LIMIT", std::to_string(card.limit).c_str(), 1);
  const auto turns = make_turns(300, kPrograms, card.limit, 500, card.seed);
  std::array<pid_t, kPrograms> children{};
  for (size_t self = 0; self < kPrograms; ++self) {
    children[self] = start([&, self] {
      WorkingSet set(make_pool(), self, 512);
      return take_turns(turns, self, *board_, set, 100);
    });
  }
  for (const pid_t child : children)
    EXPECT_EQ(end_of(child), 0) << "in turn " << board_->step << " of " << turns.size();
  unsetenv("GPUPOOL_SHARE_LIMIT");
}

}  // namespace
}  // namespace gpupool::internal::share
