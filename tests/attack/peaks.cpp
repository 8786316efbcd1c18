// SPDX-License-Identifier: Apache-2.0
// Peaks with several threads (finding D12): never below the true peak, never above it by more than 16 MiB or
// 4,096 blocks a thread, and exact with one thread. Threads take turns, so the true peaks are known.
//
// ATTACK_SEEDS: the number of random runs for each number of threads.
#include <algorithm>
#include <random>
#include <thread>

#include "attack/lab.hpp"
#include "attack/team.hpp"

namespace attack {
namespace {

constexpr int32_t kDevice = 1;
constexpr uint64_t kBytesTooHigh = 16 * kMiB;
constexpr uint64_t kBlocksTooHigh = 4096;

class Peaks : public testing::Test {
 protected:
  void SetUp() override { configure_device(kDevice, kAddressesOnly); }
};

/// What one thread has live while it lives or after, in 15 MiB blocks.
void hold(PoolUnderTest& pool, std::vector<gpupool_ptr_t>& blocks) {
  std::thread([&] { blocks.push_back(pool.malloc(15 * kMiB)); }).join();
}

void expect_peak(const gpupool_stat_t& seen, uint64_t truth, uint64_t slack, const char* what) {
  EXPECT_GE(seen.peak, truth) << what << ": too low";
  EXPECT_LE(seen.peak, truth + slack) << what << ": too high";
}

TEST_F(Peaks, CountABlockOfAnotherThread) {
  PoolUnderTest pool(sim_config(kDevice));
  const gpupool_ptr_t first = pool.malloc(15 * kMiB);
  (void)pool.stats();
  std::vector<gpupool_ptr_t> blocks;
  hold(pool, blocks);
  pool.free(first);
  const gpupool_stats_t stats = pool.stats();
  expect_peak(stats.all.allocated_bytes, 30 * kMiB, 2 * kBytesTooHigh, "allocated");
  expect_peak(stats.all.requested_bytes, 30 * kMiB, 2 * kBytesTooHigh, "requested");
  expect_peak(stats.all.active_bytes, 30 * kMiB, 2 * kBytesTooHigh, "active");
  expect_peak(stats.all.allocated_blocks, 2, 2 * kBlocksTooHigh, "blocks");
  expect_peak(stats.all.active_blocks, 2, 2 * kBlocksTooHigh, "active blocks");
  expect_peak(stats.large.allocated_bytes, 30 * kMiB, 2 * kBytesTooHigh, "allocated, large");
  EXPECT_LE(stats.all.allocated_bytes.peak, stats.all.reserved_bytes.peak);
  EXPECT_LE(stats.all.active_bytes.peak, stats.all.reserved_bytes.peak);
  pool.free(blocks[0]);
}

TEST_F(Peaks, CountThirtyTwoThreads) {
  PoolUnderTest pool(sim_config(kDevice));
  Team team(32);
  std::vector<gpupool_ptr_t> blocks(team.size());
  for (size_t i = 0; i < blocks.size(); ++i) team.run(i, [&] { blocks[i] = pool.malloc(15 * kMiB); });
  for (size_t i = 0; i < blocks.size(); ++i) team.run(i, [&] { pool.free(blocks[i]); });
  const gpupool_stats_t stats = pool.stats();
  expect_peak(stats.all.allocated_bytes, 480 * kMiB, 32 * kBytesTooHigh, "allocated");
  expect_peak(stats.all.active_bytes, 480 * kMiB, 32 * kBytesTooHigh, "active");
  expect_peak(stats.all.allocated_blocks, 32, 32 * kBlocksTooHigh, "blocks");
  EXPECT_LE(stats.all.allocated_bytes.peak, stats.all.reserved_bytes.peak);
}

// ---- random threads against a model

struct Quantity {
  uint64_t current = 0;
  uint64_t peak = 0;

  void add(uint64_t amount) { peak = std::max(peak, current += amount); }
};

struct Group {
  Quantity requested;
  Quantity allocated;
  Quantity blocks;

  void add(uint64_t size) {
    requested.add(size);
    allocated.add((size + 511) / 512 * 512);
    blocks.add(1);
  }
  void remove(uint64_t size) {
    requested.current -= size;
    allocated.current -= (size + 511) / 512 * 512;
    --blocks.current;
  }
  void reset() {
    for (Quantity* each : {&requested, &allocated, &blocks}) each->peak = each->current;
  }
};

struct Block {
  gpupool_ptr_t address;
  uint64_t size;
  gpupool_stream_t stream;
};

class Lockstep {
 public:
  Lockstep(size_t threads, uint32_t seed) : random_(seed), team_(threads), pool_(sim_config(kDevice)) {}
  ~Lockstep() {
    for (const Block& block : live_) pool_.free(block.address, block.stream);
  }
  Lockstep(const Lockstep&) = delete;
  Lockstep& operator=(const Lockstep&) = delete;

  void run(int turns) {
    for (int i = 0; i < turns && !testing::Test::HasFailure(); ++i) {
      const size_t member = pick(team_.size());
      if (pick(200) == 0) team_.replace(member);
      team_.run(member, [this] {
        for (uint64_t left = 1 + pick(12); left > 0; --left) step();
      });
      if (pick(25) == 0) check();
      if (pick(150) == 0) reset();
    }
    check();
  }

 private:
  uint64_t pick(uint64_t count) { return random_() % count; }

  uint64_t any_size() {
    switch (pick(6)) {
      case 0: return 1 + pick(2000);
      case 1: return 1 + pick(200 * kKiB);
      case 2: return kMiB - 512 + pick(1024);
      case 3: return 1 + pick(3 * kMiB);
      default: return 1 + pick(14 * kMiB);
    }
  }

  void step() {
    // Waves, so that peaks are left behind and reached again.
    const bool grows = pick(100) < (wave_++ / 200 % 2 == 0 ? 65 : 35);
    if (grows || live_.empty()) {
      Block block{0, any_size(), 11 + pick(3)};
      block.address = pool_.malloc(block.size, block.stream);
      live_.push_back(block);
      all_.add(block.size);
      group_of(block).add(block.size);
    } else {
      std::swap(live_[pick(live_.size())], live_.back());
      const Block block = live_.back();
      live_.pop_back();
      pool_.free(block.address, block.stream);
      all_.remove(block.size);
      group_of(block).remove(block.size);
    }
  }

  Group& group_of(const Block& block) { return (block.size + 511) / 512 * 512 <= kMiB ? small_ : large_; }

  void reset() {
    EXPECT_TRUE(ok(gpupool_reset_peaks(pool_)));
    for (Group* group : {&all_, &small_, &large_}) group->reset();
    check();
  }

  void check() {
    const gpupool_stats_t stats = pool_.stats();
    check_group(stats.all, all_, "all");
    check_group(stats.small, small_, "small");
    check_group(stats.large, large_, "large");
    EXPECT_LE(stats.all.allocated_bytes.peak, stats.all.reserved_bytes.peak);
    EXPECT_LE(stats.all.active_bytes.peak, stats.all.reserved_bytes.peak);
    EXPECT_LE(stats.all.requested_bytes.peak, stats.all.allocated_bytes.peak);
  }

  void check_group(const gpupool_stat_group_t& seen, const Group& truth, const char* name) {
    SCOPED_TRACE(name);
    const uint64_t several = team_.size() == 1 ? 0 : team_.size();
    EXPECT_EQ(seen.requested_bytes.current, truth.requested.current);
    EXPECT_EQ(seen.allocated_bytes.current, truth.allocated.current);
    EXPECT_EQ(seen.active_bytes.current, truth.allocated.current);
    EXPECT_EQ(seen.allocated_blocks.current, truth.blocks.current);
    const uint64_t bytes = several * kBytesTooHigh;
    const uint64_t blocks = several * kBlocksTooHigh;
    expect_peak(seen.requested_bytes, truth.requested.peak, bytes, "requested");
    expect_peak(seen.allocated_bytes, truth.allocated.peak, bytes, "allocated");
    expect_peak(seen.active_bytes, truth.allocated.peak, bytes, "active");
    expect_peak(seen.allocated_blocks, truth.blocks.peak, blocks, "blocks");
    expect_peak(seen.active_blocks, truth.blocks.peak, blocks, "active blocks");
  }

  std::mt19937_64 random_;
  Team team_;
  PoolUnderTest pool_;
  std::vector<Block> live_;
  uint64_t wave_ = 0;
  Group all_;
  Group small_;
  Group large_;
};

void run_seeds(size_t threads) {
  const uint64_t seeds = size_from("ATTACK_SEEDS", 5);
  for (uint32_t seed = 0; seed < seeds && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Lockstep(threads, seed).run(2500);
  }
}

TEST_F(Peaks, HoldWithOneThread) {
  run_seeds(1);
}
TEST_F(Peaks, HoldWithTwoThreads) {
  run_seeds(2);
}
TEST_F(Peaks, HoldWithFourThreads) {
  run_seeds(4);
}
TEST_F(Peaks, HoldWithSixteenThreads) {
  run_seeds(16);
}

}  // namespace
}  // namespace attack
