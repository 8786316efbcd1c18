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

/// Each is in need all the time, and frees something only when it is refused. The one that comes first, and
/// has everything, does not stay ahead. GPUPOOL_GREEDY_SECONDS=60 for the figures of docs/sharing.md.
TEST_F(PoolsTest, GreedyProcessesComeToLikeParts) {
  constexpr size_t kProcesses = 3;
  setenv("GPUPOOL_SIM", "capacity=8GiB,data=0,time=real", 1);
  std::vector<pid_t> children;
  for (size_t i = 0; i < kProcesses; ++i) {
    children.push_back(start([&, i] {
      gpupool_t* const pool = make_pool({.wait_ns = 50 * kMillisecond});
      return pool == nullptr
                 ? 3
                 : be_greedy(pool, i, ~uint64_t{0}, board_->figures[i], board_->figures[kProcesses + i]);
    }));
    if (i == 0) usleep(1'000'000);
  }
  // The least part of an equal one that any has on average.
  const auto least_part = [&](uint64_t seconds) {
    std::array<double, kProcesses> held{};
    double looks = 0;
    for (const uint64_t end_at = now_ns() + seconds * 1000 * kMillisecond; now_ns() < end_at; ++looks) {
      for (size_t i = 0; i < kProcesses; ++i) held[i] += static_cast<double>(board_->figures[i].load());
      usleep(5000);
    }
    return *std::min_element(held.begin(), held.end()) / looks / (double{kCapacity} / kProcesses);
  };
  double least = 0;
  for (int i = 0; i < 120 && least < 0.6; ++i) least = least_part(1);
  EXPECT_GE(least, 0.6);
  if (const char* const seconds = getenv("GPUPOOL_GREEDY_SECONDS"); seconds != nullptr) {
    for (int i = 0; i < 120 && least < 0.85; ++i) least = least_part(1);
    const auto spent = [&] {
      std::array<double, kProcesses> all{};
      for (size_t i = 0; i < kProcesses; ++i)
        all[i] = static_cast<double>(board_->figures[kProcesses + i].load());
      return all;
    };
    const auto before = spent();
    const uint64_t start = now_ns();
    const double part = least_part(std::strtoull(seconds, nullptr, 10));
    const auto elapsed = static_cast<double>(now_ns() - start);
    double most = 0;
    const auto after = spent();
    for (size_t i = 0; i < kProcesses; ++i) most = std::max(most, (after[i] - before[i]) / elapsed);
    printf("the least part: %.3f of a third; the driver took %.2f %% of the time at most\n", part,
           100 * most);
  }
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
