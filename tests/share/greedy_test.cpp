// SPDX-License-Identifier: Apache-2.0
// Processes that each take all that they can get.
#include <stdio.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <utility>
#include <vector>

#include "pools_fixture.hpp"

namespace gpupool::internal::share {
namespace {

/// What moving memory has cost a process so far.
uint64_t driver_ns(const gpupool_driver_stats_t& calls) {
  return calls.create.nanoseconds + calls.map.nanoseconds + calls.set_access.nanoseconds +
         calls.unmap.nanoseconds + calls.release.nanoseconds;
}

gpupool_driver_stats_t driver_calls(gpupool_t* pool) {
  gpupool_stats_t stats{};
  stats.struct_size = sizeof stats;
  gpupool_stats(pool, &stats);
  return stats.driver;
}

/// Each takes as much as it gets, frees something only when it is refused, and so on.
int be_greedy(gpupool_t* pool, uint64_t seed, uint64_t until, std::atomic<uint64_t>& held_now,
              std::atomic<uint64_t>& driver_now) {
  std::mt19937_64 random(seed);
  std::vector<std::pair<gpupool_ptr_t, uint64_t>> blocks;
  uint64_t held = 0;
  while (now_ns() < until) {
    const uint64_t bytes = (1 + random() % 32) * kMiB;
    gpupool_ptr_t block = 0;
    const gpupool_status_t status = gpupool_malloc(pool, bytes, 0, &block);
    if (status == GPUPOOL_SUCCESS) {
      blocks.emplace_back(block, bytes);
      held += bytes;
    } else if (status != GPUPOOL_ERROR_OVER_LIMIT && status != GPUPOOL_ERROR_OUT_OF_MEMORY) {
      return 1;
    }
    // A working set that turns over: a refusal costs more than one block.
    for (int i = status == GPUPOOL_SUCCESS ? (random() % 4 == 0 ? 1 : 0) : 8; i > 0 && !blocks.empty(); --i) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      gpupool_free(pool, blocks.back().first, 0);
      held -= blocks.back().second;
      blocks.pop_back();
    }
    held_now = held;
    driver_now = driver_ns(driver_calls(pool));
  }
  return gpupool_validate(pool) == GPUPOOL_SUCCESS ? 0 : 2;
}

/// What each of the greedy has got, and what it spent on it, while one looked.
struct Shares {
  double least_part = 0;   // of an equal one, on average
  double driver_time = 0;  // the largest part of the time that the driver took

  bool are_fair() const { return least_part >= 0.9 && driver_time <= kMostDriverTime; }

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  static constexpr double kMostDriverTime = 0.03;  // a sanitizer slows down the simulated driver
#else
  static constexpr double kMostDriverTime = 0.01;
#endif
};

class Greedy : public PoolsTest {
 protected:
  static constexpr size_t kProcesses = 3;

  Shares watch(uint64_t seconds) const {
    const auto spent = [&](size_t i) { return static_cast<double>(board_->figures[kProcesses + i].load()); };
    std::array<double, kProcesses> held{};
    std::array<double, kProcesses> before{};
    for (size_t i = 0; i < kProcesses; ++i) before[i] = spent(i);
    double looks = 0;
    const uint64_t start_at = now_ns();
    for (const uint64_t end_at = start_at + seconds * 1000 * kMillisecond; now_ns() < end_at; ++looks) {
      for (size_t i = 0; i < kProcesses; ++i) held[i] += static_cast<double>(board_->figures[i].load());
      usleep(5000);
    }
    const auto elapsed = static_cast<double>(now_ns() - start_at);
    Shares shares;
    shares.least_part =
        *std::min_element(held.begin(), held.end()) / looks / (double{kCapacity} / kProcesses);
    for (size_t i = 0; i < kProcesses; ++i)
      shares.driver_time = std::max(shares.driver_time, (spent(i) - before[i]) / elapsed);
    return shares;
  }
};

/// Each is in need all the time, and frees something only when it is refused. The one that comes first, and
/// has everything, does not stay ahead. GPUPOOL_GREEDY_SECONDS=60 for the figures of docs/sharing.md; a busy
/// machine gets some more tries.
TEST_F(Greedy, F14_ProcessesComeToLikeParts) {
  setenv("GPUPOOL_SIM", "capacity=8GiB,data=0,time=real", 1);
  std::vector<pid_t> children;
  for (size_t i = 0; i < kProcesses; ++i) {
    children.push_back(start([&, i] {
      gpupool_t* const pool = make_pool({.wait_ns = 50 * kMillisecond});
      return pool == nullptr
                 ? 3
                 : be_greedy(pool, i, ~uint64_t{0}, board_->figures[i], board_->figures[kProcesses + i]);
    }));
    if (i == 0) usleep(500'000);
  }
  const char* const asked = getenv("GPUPOOL_GREEDY_SECONDS");
  const uint64_t seconds = asked == nullptr ? 2 : std::strtoull(asked, nullptr, 10);
  Shares shares;
  for (int i = 0; i < 60 && shares.least_part < 0.85; ++i) shares = watch(1);
  for (int i = 0; i < 8 && (i == 0 || !shares.are_fair()); ++i) {
    shares = watch(seconds);
    if (asked != nullptr) {
      printf("the least part: %.3f of a third; the driver took %.2f %% of the time at most\n",
             shares.least_part, 100 * shares.driver_time);
    }
  }
  EXPECT_GE(shares.least_part, 0.9);
  EXPECT_LE(shares.driver_time, Shares::kMostDriverTime);
  for (const pid_t child : children) end(child);
}

/// Pools that are killed at any moment: the device never gives out more than it has, nor the group, and all
/// of it is there at the end.
TEST_F(PoolsTest, PoolsThatAreKilledAtRandomLoseNothing) {
  constexpr int kProcesses = 4;
  std::vector<pid_t> children;
  uint64_t seed = 0;
  const auto start_one = [&] {
    ++seed;
    return start([&, seed] {
      gpupool_t* const pool = make_pool({.guaranteed = seed % 3 * 256 * kMiB, .wait_ns = 10 * kMillisecond});
      return pool == nullptr ? 0
                             : be_greedy(pool, seed, ~uint64_t{0}, board_->figures[0], board_->figures[1]);
    });
  };
  for (int i = 0; i < kProcesses; ++i) children.push_back(start_one());
  std::mt19937_64 random(5);
  const uint64_t end_at = now_ns() + 6000 * kMillisecond;
  int kills = 0;
  while (now_ns() < end_at) {
    usleep(static_cast<useconds_t>(random() % 30'000));
    pid_t& child = children[random() % children.size()];
    end(child);
    ++kills;
    child = start_one();
    if (std::filesystem::exists(path())) {
      EXPECT_LE(used(), kCapacity);
      View view;
      int64_t off = 0;
      ASSERT_EQ(view.open(place_), kSuccess);
      ASSERT_EQ(view.repair(kCapacity - std::min(kCapacity, held_on_device()), off), kSuccess);
      ASSERT_EQ(off, 0);
    }
    EXPECT_TRUE(is_within_capacity());
  }
  for (const pid_t child : children) end(child);
  EXPECT_EQ(used_after_repair(), 0U);
  EXPECT_EQ(held_on_device(), 0U);
  RecordProperty("kills", kills);
}

}  // namespace
}  // namespace gpupool::internal::share
