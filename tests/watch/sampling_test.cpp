// SPDX-License-Identifier: Apache-2.0
// What samples cost, by count: whatever a program does, few of its mallocs are samples, but those of a
// program that makes few. And what they say is right on average, wherever marks were thinned for that.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "gpupool/gpupool.h"
#include "watch/busy_time.hpp"
#include "watch/sampler.hpp"

namespace sampling_test {
namespace {

namespace internal = gpupool::internal;
using internal::FirstMark;
using internal::Marks;
using internal::SampleBudget;
using internal::Sampler;

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;

// ---- laws

std::atomic<uint64_t> samples{0};
std::atomic<bool> has_many_sites{false};

/// Called once for each sample.
size_t count_sample(void* /*user*/, char* text, size_t capacity) {
  const uint64_t number = samples.fetch_add(1);
  return static_cast<size_t>(std::snprintf(text, capacity, "site %d", has_many_sites ? int(number) : 0));
}

/// In the usual density. The budget is the process's: each of these tests may find it spent.
class Sampling : public testing::Test {
 protected:
  void SetUp() override {
    internal::set_sample_distance(kMiB, internal::Sparing::time);
    gpupool_sim_config_t sim{};
    sim.struct_size = sizeof sim;
    sim.data = 2;
    ASSERT_EQ(gpupool_sim_configure(0, &sim), GPUPOOL_SUCCESS);
    ASSERT_EQ(gpupool_set_stack_fn(count_sample, nullptr), GPUPOOL_SUCCESS);
    samples = 0;
    has_many_sites = false;
    begun_ = std::clock();
  }
  void TearDown() override { EXPECT_EQ(gpupool_set_stack_fn(nullptr, nullptr), GPUPOOL_SUCCESS); }

  /// Processor time since the test began.
  double used_ns() const { return 1e9 / CLOCKS_PER_SEC * static_cast<double>(std::clock() - begun_); }

  /// As many as a burst and a share of the time pay for, at what the long ways alone cost, and those that
  /// mark after mark takes to go.
  double most_samples() const {
    constexpr double kLeastCost = 150;
    return (SampleBudget::kBurst + used_ns() / SampleBudget::kShare) / kLeastCost + 2 * Sampler::kSamples;
  }

  /// Until a burst is there again, and the turn of each pool.
  static void wait_until_paid() {
    const uint64_t begun = internal::busy_time_ns();
    const uint64_t owed_ns = internal::sample_budget().owed(begun);
    const uint64_t most = owed_ns * SampleBudget::kShare + 20 * SampleBudget::kRound;
    while (internal::busy_time_ns() < begun + most) continue;
  }

 private:
  std::clock_t begun_ = 0;
};

class Pool {
 public:
  Pool() {
    gpupool_config_t config;
    EXPECT_EQ(gpupool_config_init(&config, sizeof config), GPUPOOL_SUCCESS);
    config.backend = GPUPOOL_BACKEND_SIM;
    EXPECT_EQ(gpupool_create(&config, &pool_), GPUPOOL_SUCCESS);
  }
  ~Pool() { EXPECT_EQ(gpupool_destroy(pool_), GPUPOOL_SUCCESS); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// So many blocks come and go, so many times.
  void play(uint64_t bytes, size_t blocks, size_t times) const {
    gpupool_stream_t stream = 0;
    ASSERT_EQ(gpupool_stream_create(pool_, &stream), GPUPOOL_SUCCESS);
    std::vector<gpupool_ptr_t> live(blocks);
    for (size_t i = 0; i < times; ++i) {
      for (gpupool_ptr_t& block : live)
        ASSERT_EQ(gpupool_malloc(pool_, bytes, stream, &block), GPUPOOL_SUCCESS);
      for (const gpupool_ptr_t block : live) ASSERT_EQ(gpupool_free(pool_, block, stream), GPUPOOL_SUCCESS);
    }
    ASSERT_EQ(gpupool_stream_destroy(pool_, stream), GPUPOOL_SUCCESS);
  }

  gpupool_t* get() const { return pool_; }

 private:
  gpupool_t* pool_ = nullptr;
};

/// Whether a mark lies in the way of one block is chance; if so, it was a sample at each malloc.
TEST_F(Sampling, AFewLiveBytes) {
  for (const uint64_t size : {kMiB, 16 * kMiB, 256 * kMiB}) {
    const Pool pool;
    pool.play(size, 1, 200'000);
  }
  EXPECT_LE(static_cast<double>(samples), most_samples());
}

TEST_F(Sampling, ManyLiveBlocks) {
  const Pool pool;
  pool.play(kMiB, 2000, 200);
  EXPECT_LE(static_cast<double>(samples), most_samples());
}

TEST_F(Sampling, ManyThreads) {
  const Pool pool;
  std::array<std::thread, 8> threads;
  for (std::thread& thread : threads) thread = std::thread([&] { pool.play(16 * kMiB, 2, 20'000); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(static_cast<double>(samples), most_samples());
}

/// Each has a stack of its own, which costs more than one that is known.
TEST_F(Sampling, ManySites) {
  has_many_sites = true;
  const Pool pool;
  pool.play(16 * kMiB, 10, 20'000);
  EXPECT_LE(static_cast<double>(samples), most_samples());
}

TEST_F(Sampling, ManyPools) {
  for (int i = 0; i < 200; ++i) {
    const Pool pool;
    pool.play(16 * kMiB, 1, 1000);
  }
  EXPECT_LE(static_cast<double>(samples), most_samples());
}

/// Threads that only hit their caches lose the marks in their way, and have them back once there was time,
/// though no malloc looks at a clock: whoever takes the pool's lock does, such as who asks.
TEST_F(Sampling, ThreadsThatOnlyHitAreSeenAgain) {
  const Pool pool;
  const auto asked = [&] {
    size_t count = 0;
    EXPECT_EQ(gpupool_holders(pool.get(), nullptr, sizeof(gpupool_holder_t), 0, &count), GPUPOOL_SUCCESS);
    return count;
  };
  const size_t kBlocks = 200;
  std::vector<gpupool_ptr_t> live(kBlocks);
  const auto take = [&] {
    for (gpupool_ptr_t& block : live)
      ASSERT_EQ(gpupool_malloc(pool.get(), 16 * kMiB, 0, &block), GPUPOOL_SUCCESS);
  };
  const auto give = [&] {
    for (const gpupool_ptr_t block : live) ASSERT_EQ(gpupool_free(pool.get(), block, 0), GPUPOOL_SUCCESS);
  };
  const std::clock_t begun = std::clock();
  while (std::clock() - begun < CLOCKS_PER_SEC / 2) {
    take();
    give();
  }
  wait_until_paid();
  asked();
  const uint64_t before = samples;
  take();
  EXPECT_GE(samples - before, kBlocks / 2);
  EXPECT_EQ(asked(), 1U);
  give();
}

/// All its blocks are samples that are large enough. One of these may be interrupted, and cost what the
/// others might have.
TEST_F(Sampling, ASmallProgramIsSeenWhole) {
  wait_until_paid();
  const Pool pool;
  pool.play(16 * kMiB, 50, 2);
  EXPECT_GE(samples, 90U);
}

// ---- the budget by itself, in nanoseconds of a made-up clock

constexpr uint64_t kSecond = 1'000'000'000;

TEST(SampleBudget, IsAShareOfTheTime) {
  SampleBudget budget;
  uint64_t now = 1000 * kSecond;
  uint64_t spent = 0;
  constexpr uint64_t kCost = 10'000;
  for (int i = 0; i < 2'000'000; ++i, now += kCost) {
    if (budget.owed(now) != 0) continue;
    budget.spend(now, kCost, 0);
    spent += kCost;
  }
  EXPECT_LE(spent, SampleBudget::kBurst + 20 * kSecond / SampleBudget::kShare + kCost);
  EXPECT_GE(spent, 20 * kSecond / SampleBudget::kShare * 9 / 10);
}

TEST(SampleBudget, QuietTimeEarnsNoMoreThanABurst) {
  SampleBudget budget;
  budget.spend(kSecond, 100'000, 0);
  const uint64_t later = 3600 * kSecond;
  EXPECT_EQ(budget.owed(later), 0U);
  for (uint64_t spent = 0; spent < SampleBudget::kBurst; spent += 100'000) budget.spend(later, 100'000, 0);
  EXPECT_GT(budget.owed(later), 0U);
}

/// While a sample is taken, the system may give the processor to another program for any time.
TEST(SampleBudget, OneThatWasInterruptedCostsABurst) {
  SampleBudget budget;
  budget.spend(1000 * kSecond, 10 * kSecond, 0);
  EXPECT_EQ(budget.owed(1000 * kSecond + SampleBudget::kRound), 0U);
}

TEST(SampleBudget, NewStacksCostNothingAtFirst) {
  SampleBudget budget;
  constexpr uint32_t kStacks = SampleBudget::kFreeStacks;
  for (uint32_t stack = 1; stack <= kStacks; ++stack) budget.spend(kSecond, 40'000, stack);
  EXPECT_EQ(budget.owed(kSecond), 0U);
  for (uint32_t stack = 1; stack <= kStacks; ++stack) budget.spend(kSecond, 40'000, stack);
  EXPECT_GE(budget.owed(kSecond), kStacks * 40'000 - SampleBudget::kBurst);
}

TEST(SampleBudget, AProcessThatHasJustBegunHasLittle) {
  SampleBudget budget;
  budget.spend(SampleBudget::kRound / 10, SampleBudget::kBurst / 5, 0);
  EXPECT_GE(budget.owed(SampleBudget::kRound / 10), SampleBudget::kBurst / 10);
}

TEST(SampleBudget, MarksThatGoAreNotFree) {
  SampleBudget budget;
  for (int i = 0; i < 100'000; ++i) budget.spend_on_pass(kSecond);
  EXPECT_GT(budget.owed(kSecond), 5'000'000U);
}

/// Whatever number of pools there are, and of threads in them.
TEST(SampleBudget, OnePoolAtATimeDrawsMarksAnew) {
  SampleBudget budget;
  uint64_t caches = 0;
  for (uint64_t now = kSecond; now < 11 * kSecond; now += kSecond / 1000)
    for (uint64_t pool = 1; pool <= 20; ++pool)
      if (budget.take_turn(now, pool)) caches += pool;
  EXPECT_LE(caches, 10 * kSecond / SampleBudget::kRound + 20);
  EXPECT_GE(caches, 10 * kSecond / SampleBudget::kRound / 2);
}

TEST(BusyTime, GoesOnWhileSomethingIsDone) {
  const uint64_t before = internal::busy_time_ns();
  const std::clock_t begun = std::clock();
  while (std::clock() - begun < CLOCKS_PER_SEC / 20) {
  }
  const uint64_t passed = internal::busy_time_ns() - before;
  EXPECT_GT(passed, 30'000'000U);
  EXPECT_LT(passed, 1'000'000'000U);
}

// ---- marks by themselves

TEST(Sampler, MarksLieAtTheirDistanceOnAverage) {
  internal::set_sample_distance(kMiB);
  Sampler sampler;
  double sum = 0;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    Marks marks;
    sampler.draw(marks, 0);
    sum += static_cast<double>(marks.next);
  }
  EXPECT_NEAR(sum / kDraws, static_cast<double>(kMiB), 0.03 * kMiB);
}

/// A stack of blocks on a sampler's marks, as a cache plays it, without a pool.
class Heights {
 public:
  explicit Heights(Sampler& sampler) : sampler_(sampler) { sampler.draw(marks_, 0); }
  ~Heights() {
    while (!blocks_.empty()) pop(blocks_.size() - 1);
    sampler_.draw(marks_, 0);  // gives the regions back
  }

  void redraw() { sampler_.draw(marks_, live_); }
  void push(uint64_t bytes, int site, uint64_t owed_ns) {
    live_ += bytes;
    FirstMark mark;
    if (live_ > marks_.next) mark = sampler_.pass_mark(marks_, live_, bytes, owed_ns);
    blocks_.push_back({++last_, bytes, site, mark.weight});
    if (mark.weight == 0) return;
    internal::Sample sample{};
    sample.address = last_;
    sample.bytes = bytes;
    sample.mark = mark;
    sampler_.add(sample);
  }
  void pop(size_t at) {
    const Block block = blocks_[at];
    blocks_.erase(blocks_.begin() + static_cast<ptrdiff_t>(at));
    live_ -= block.bytes;
    if (block.weight != 0) sampler_.return_mark(marks_, block.address, live_, block.bytes);
  }
  size_t count() const { return blocks_.size(); }
  double live(int site) const { return sum(site, &Block::bytes); }
  double estimated(int site) const { return sum(site, &Block::weight); }

 private:
  struct Block {
    uint64_t address;
    uint64_t bytes;
    int site;
    uint64_t weight;
  };
  double sum(int site, uint64_t Block::*what) const {
    double bytes = 0;
    for (const Block& block : blocks_) bytes += block.site == site ? static_cast<double>(block.*what) : 0;
    return bytes;
  }

  Sampler& sampler_;
  Marks marks_;
  std::vector<Block> blocks_;
  uint64_t live_ = 0;
  uint64_t last_ = 0;
};

/// Plays something thousands of times, with other marks each time: the mean of the errors is 0, as far as
/// their spread lets one see.
void expect_right(const char* what, const std::function<void(Heights&, int)>& play) {
  internal::set_sample_distance(kMiB);
  Sampler sampler;
  constexpr int kTrials = 40'000;
  for (int site = 0; site < 2; ++site) {
    double sum = 0;
    double squares = 0;
    double live = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      Heights heights(sampler);
      play(heights, trial);
      const double error = heights.estimated(site) - heights.live(site);
      sum += error;
      squares += error * error;
      live += heights.live(site);
    }
    const double spread = std::sqrt(squares / kTrials / kTrials);
    EXPECT_NEAR(sum / kTrials, 0, 4 * spread) << what << ", site " << site;
    EXPECT_LT(spread, 0.03 * live / kTrials) << what << ": such a test would see nothing";
  }
}

/// The blocks that come and go first wear the marks down where the others lie later.
TEST(Sampler, EstimatesAreRightOnAverageWhereMarksWereThinned) {
  for (const uint64_t size : {256 * kKiB, kMiB, 5 * kMiB}) {
    expect_right("below thinned marks", [&](Heights& heights, int) {
      for (int i = 0; i < 3; ++i) {
        heights.push(size, 0, i == 0 ? 0 : 1);
        heights.pop(0);
      }
      // One across the border of what was thinned, then others beside it.
      heights.push(size / 2, 0, 0);
      heights.push(size, 1, 0);
      heights.push(2 * size, 0, 0);
    });
  }
}

TEST(Sampler, EstimatesAreRightOnAverageWhereMarksAreDrawnAnew) {
  expect_right("above what stays", [&](Heights& heights, int) {
    heights.push(kMiB, 0, 1);
    heights.push(kMiB, 1, 1);
    heights.pop(0);
    heights.redraw();
    heights.push(3 * kMiB, 0, 0);
    heights.pop(0);
    heights.push(kMiB / 2, 0, 1);
    heights.push(kMiB, 1, 0);
  });
}

/// Whatever is owed, as long as nobody looks at what is sampled to say so.
TEST(Sampler, EstimatesAreRightOnAverageInAnyOrder) {
  std::mt19937_64 random(1);
  expect_right("any order", [&](Heights& heights, int) {
    heights.push(4 * kMiB, 0, 0);
    heights.push(4 * kMiB, 1, 0);
    for (int step = 0; step < 20; ++step) {
      const uint64_t word = random();
      if (word % 8 < 3 && heights.count() > 2) {
        heights.pop(2 + (word >> 8) % (heights.count() - 2));
      } else if (word % 8 == 3) {
        heights.redraw();
      } else {
        heights.push((1 + (word >> 16) % 8) * 256 * kKiB, static_cast<int>(word >> 32) & 1,
                     word % 8 == 4 ? 1 : 0);
      }
    }
  });
}

/// Blocks that are large beside the distance of marks are exact as long as nothing was thinned, and then
/// within that distance.
TEST(Sampler, LargeBlocksAreExactOrNearlySo) {
  internal::set_sample_distance(kMiB);
  Sampler sampler;
  Heights heights(sampler);
  heights.push(64 * kMiB, 0, 0);
  EXPECT_EQ(heights.estimated(0), heights.live(0));
  for (int i = 0; i < 10; ++i) heights.push(256 * kMiB, 1, 1);
  EXPECT_NEAR(heights.estimated(1), heights.live(1), 0.05 * heights.live(1));
}

/// A mark that is reached again and again goes, or stands for so much that it is one in thousands.
TEST(Sampler, WhatComesAndGoesWhileMuchIsOwedIsSoonNoSample) {
  internal::set_sample_distance(kMiB);
  Sampler sampler;
  int sampled = 0;
  constexpr int kTrials = 1000;
  for (int trial = 0; trial < kTrials; ++trial) {
    Heights heights(sampler);
    for (int i = 0; i < 100; ++i) {
      heights.push(16 * kMiB, 0, 1);
      sampled += heights.estimated(0) != 0 ? 1 : 0;
      heights.pop(0);
    }
  }
  EXPECT_LE(sampled, 4 * kTrials);
}

}  // namespace
}  // namespace sampling_test
