// SPDX-License-Identifier: Apache-2.0
// Counters of shards that threads change alone: what they find of peaks, and how far off that may be.
#include "core/counters.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "base/bits.hpp"

namespace gpupool::internal {
namespace {

/// Folds all shards, as the pool does.
void fold(Counters& counters, std::vector<CounterShard>& shards) {
  counters.fold([&](auto visit) {
    for (CounterShard& shard : shards) visit(shard);
  });
}

/// Finding D12: random shards in lockstep, so that the true peak is known. The one found is never below it,
/// and above it by at most an allowance a shard; with one shard it is exact. So for live and for active
/// bytes.
TEST(Counters, PeaksAreNeverTooLowAndBoundedAbove) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::mt19937_64 random(seed);
    Counters counters;
    std::vector<CounterShard> shards(1 + seed % 9);
    std::vector<std::vector<uint64_t>> live(shards.size());
    std::vector<std::vector<uint64_t>> pending(shards.size());
    const uint64_t largest = seed % 2 == 0 ? 8192 : 1 << 18;  // units: 4 MiB, 128 MiB
    uint64_t now_live = 0;
    uint64_t now_active = 0;
    uint64_t peak_live = 0;
    uint64_t peak_active = 0;
    for (int step = 0; step < 3000; ++step) {
      const size_t at = random() % shards.size();
      const auto chance = static_cast<unsigned>(random() % 100);
      if (live[at].empty() || chance < (step / 500 % 2 == 0 ? 55u : 30u)) {
        const uint64_t size = kUnit * (1 + random() % largest);
        live[at].push_back(size);
        now_live += size;
        now_active += size;
        if (shards[at].add(group_of(size), size, size)) fold(counters, shards);
      } else if (chance < 90) {
        const uint64_t size = live[at].back();
        live[at].pop_back();
        now_live -= size;
        shards[at].subtract(group_of(size), size, size);
        if (chance < 75) {
          now_active -= size;
        } else {
          shards[at].add_pending(group_of(size), size, size);
          pending[at].push_back(size);
        }
      } else if (!pending[at].empty()) {
        const uint64_t size = pending[at].back();
        pending[at].pop_back();
        now_active -= size;
        shards[at].remove_pending(group_of(size), size, size);
      }
      peak_live = std::max(peak_live, now_live);
      peak_active = std::max(peak_active, now_active);
      if (step % 400 == 399) fold(counters, shards);
      if (step == 1700) {
        counters.reset_peaks([&](auto visit) {
          for (CounterShard& shard : shards) visit(shard);
        });
        peak_live = now_live;
        peak_active = now_active;
      }
    }
    fold(counters, shards);
    const uint64_t bound = shards.size() == 1 ? 0 : shards.size() * CounterShard::kAllowanceBytes;
    EXPECT_GE(counters.peak_all().live.allocated, peak_live) << "seed " << seed;
    EXPECT_LE(counters.peak_all().live.allocated, peak_live + bound) << "seed " << seed;
    EXPECT_GE(counters.peak_all().active.allocated, peak_active) << "seed " << seed;
    EXPECT_LE(counters.peak_all().active.allocated, peak_active + bound) << "seed " << seed;
  }
}

TEST(Counters, PeaksOfAGroupAreItsOwn) {
  Counters counters;
  CounterShard shard;
  (void)shard.add(SizeGroup::small, 1, kUnit);
  (void)shard.add(SizeGroup::large, 2 * kMiB, 2 * kMiB);
  shard.subtract(SizeGroup::large, 2 * kMiB, 2 * kMiB);
  (void)shard.add(SizeGroup::small, 1, kUnit);
  counters.fold([&](auto visit) { visit(shard); });
  EXPECT_EQ(counters.peak(SizeGroup::small).live, (Amounts{2, 2 * kUnit, 2}));
  EXPECT_EQ(counters.peak(SizeGroup::large).live, (Amounts{2 * kMiB, 2 * kMiB, 1}));
  EXPECT_EQ(counters.peak_all().live, (Amounts{2 * kMiB + 1, 2 * kMiB + kUnit, 2}));
}

void fold(Counters& counters, CounterShard& shard) {
  counters.fold([&](auto visit) { visit(shard); });
}

TEST(Counters, PeaksAreExactWithOneShardHoweverOftenItPublishes) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 50; ++round) {
    Counters counters;
    CounterShard shard;
    std::vector<uint64_t> live;
    uint64_t current = 0;
    uint64_t peak = 0;
    uint64_t total = 0;
    for (int step = 0; step < 300; ++step) {
      if (live.empty() || random() % 2 == 0) {
        live.push_back(kUnit * (1 + random() % 8192));
        if (shard.add(group_of(live.back()), live.back() - 1, live.back())) fold(counters, shard);
        current += live.back();
        total += live.back();
      } else {
        std::swap(live[random() % live.size()], live.back());
        shard.subtract(group_of(live.back()), live.back() - 1, live.back());
        current -= live.back();
        live.pop_back();
      }
      peak = std::max(peak, current);
      if (random() % 20 == 0) fold(counters, shard);
    }
    fold(counters, shard);
    EXPECT_EQ(counters.peak_all().live.allocated, peak);
    EXPECT_EQ((shard.live()[0] + shard.live()[1]).allocated, current);
    EXPECT_EQ((shard.total()[0] + shard.total()[1]).allocated, total);
  }
}

TEST(Counters, WhatWaitsForStreamsIsActive) {
  Counters counters;
  CounterShard shard;
  (void)shard.add(SizeGroup::small, 100, 512);
  (void)shard.add(SizeGroup::small, 100, 512);
  fold(counters, shard);
  shard.subtract(SizeGroup::small, 100, 512);
  shard.add_pending(SizeGroup::small, 100, 512);
  (void)shard.add(SizeGroup::small, 100, 512);
  fold(counters, shard);
  EXPECT_EQ(counters.peak_all().live.allocated, 1024u);
  EXPECT_EQ(counters.peak_all().active.allocated, 1536u);
  shard.remove_pending(SizeGroup::small, 100, 512);
  counters.reset_peaks([&](auto visit) { visit(shard); });
  EXPECT_EQ(counters.peak_all().active.allocated, 1024u);
}

TEST(Counters, SeveralShardsAreOffByNoMoreThanTheirAllowances) {
  Counters counters;
  std::vector<CounterShard> shards(4);
  const auto fold_all = [&] {
    counters.fold([&](auto visit) {
      for (CounterShard& shard : shards) visit(shard);
    });
  };
  fold_all();
  // Each shard peaks while the others are empty: the true peak is one block.
  for (CounterShard& shard : shards) {
    EXPECT_FALSE(shard.add(SizeGroup::large, 10 * kMiB, 10 * kMiB));
    shard.subtract(SizeGroup::large, 10 * kMiB, 10 * kMiB);
  }
  fold_all();
  const uint64_t peak = counters.peak_all().live.allocated;
  EXPECT_GE(peak, 10 * kMiB);
  EXPECT_LE(peak, 10 * kMiB + 3 * CounterShard::kAllowanceBytes);
  EXPECT_TRUE(shards[0].add(SizeGroup::large, 32 * kMiB, 32 * kMiB));
}

}  // namespace
}  // namespace gpupool::internal
