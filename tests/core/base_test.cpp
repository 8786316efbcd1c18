// SPDX-License-Identifier: Apache-2.0
// Arithmetic, records of ranges, and index properties that hold only up to a length.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/bits.hpp"
#include "base/log.hpp"
#include "base/size_text.hpp"
#include "base/status.hpp"
#include "core/counters.hpp"
#include "core/free_index.hpp"
#include "core/range.hpp"

namespace gpupool::internal {
namespace {

TEST(Bits, AtTheEndsOfTheirRanges) {
  EXPECT_FALSE(is_power_of_two(0));
  EXPECT_TRUE(is_power_of_two(1));
  EXPECT_TRUE(is_power_of_two(uint64_t{1} << 63));
  EXPECT_FALSE(is_power_of_two(~uint64_t{0}));
  EXPECT_EQ(align_down(1023, 512), 512u);
  EXPECT_EQ(align_up(0, 512), 0u);
  EXPECT_EQ(align_up(1, 512), 512u);
  EXPECT_EQ(align_up(512, 512), 512u);
  EXPECT_EQ(log2_floor(1), 0u);
  EXPECT_EQ(log2_floor(~uint64_t{0}), 63u);
  for (unsigned bit = 1; bit < 64; ++bit) {
    const uint64_t power = uint64_t{1} << bit;
    EXPECT_EQ(log2_floor(power), bit);
    EXPECT_EQ(log2_floor(power - 1), bit - 1);
    EXPECT_EQ(floor_power_of_two(power), power);
    EXPECT_EQ(floor_power_of_two(power - 1), power / 2);
  }
}

TEST(RangeStore, HandsOutEachRecordOnce) {
  RangeStore store;
  store.reserve(1000);
  const uint64_t bytes = store.bytes();
  std::set<Range*> out;
  for (int i = 0; i < 1000; ++i) {
    Range* block = store.get();
    EXPECT_TRUE(block->is(State::unused));
    block->become(State::live);
    EXPECT_TRUE(out.insert(block).second);
  }
  EXPECT_EQ(store.in_use(), 1000u);
  for (Range* block : out) store.recycle(block);
  EXPECT_EQ(store.in_use(), 0u);
  store.reserve(1000);
  EXPECT_EQ(store.bytes(), bytes) << "records that came back serve again";
  EXPECT_TRUE(out.contains(store.get()));
}

/// The smallest range of at least `size`, the lowest among equals.
Range* best_fit(const std::vector<Range*>& blocks, uint64_t size) {
  Range* best = nullptr;
  for (Range* block : blocks) {
    if (block->size < size) continue;
    if (best == nullptr || block->size < best->size ||
        (block->size == best->size && block->address < best->address)) {
      best = block;
    }
  }
  return best;
}

TEST(FreeIndex, IsExactWhileBinsAreShort) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    // All sizes in two neighbouring bins, which together hold no more than a search looks at.
    std::vector<Range> blocks(8);
    std::vector<Range*> held;
    FreeIndex index;
    for (Range& block : blocks) {
      block.size = 64 * kMiB + kUnit * (random() % (4 * kMiB / kUnit));
      block.address = kUnit * (random() % 100000);
    }
    for (int step = 0; step < 200; ++step) {
      Range* block = &blocks[random() % blocks.size()];
      const auto known = std::find(held.begin(), held.end(), block);
      if (known == held.end()) {
        index.insert(block);
        held.push_back(block);
      } else {
        index.remove(block);
        held.erase(known);
      }
      const uint64_t wanted = 64 * kMiB + kUnit * (random() % (4 * kMiB / kUnit));
      ASSERT_EQ(index.find(wanted), best_fit(held, wanted));
      ASSERT_TRUE(index.is_valid());
    }
  }
}

TEST(FreeIndex, MissesNoFitAtTheEndOfALongBin) {
  std::vector<Range> blocks(100);
  FreeIndex index;
  // The only one that fits is the first to be inserted, and so ends up behind all others.
  for (size_t i = 0; i < blocks.size(); ++i) {
    blocks[i].address = i * kGiB;
    blocks[i].size = i == 0 ? 66 * kMiB : 64 * kMiB + kUnit * (i % 7);
    index.insert(&blocks[i]);
  }
  EXPECT_EQ(index.find(65 * kMiB), &blocks[0]);
  EXPECT_EQ(index.find(67 * kMiB), nullptr);
  EXPECT_TRUE(index.contains(&blocks[50]));
  index.remove(&blocks[50]);
  EXPECT_FALSE(index.contains(&blocks[50]));
  EXPECT_TRUE(index.is_valid());
}

TEST(FreeIndex, SeesBrokenLinks) {
  std::vector<Range> blocks(3);
  FreeIndex index;
  for (size_t i = 0; i < blocks.size(); ++i) {
    blocks[i].address = i * kGiB;
    blocks[i].size = kMiB;
    index.insert(&blocks[i]);
  }
  ASSERT_TRUE(index.is_valid());
  blocks[1].set_link_back(&blocks[2]);
  EXPECT_FALSE(index.is_valid());
  blocks[1].set_link_back(&blocks[0]);
  ASSERT_TRUE(index.is_valid());
  blocks[0].link = &blocks[2];
  EXPECT_FALSE(index.is_valid());
}

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

TEST(Message, IsOneLineWhateverItQuotes) {
  (void)fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "limit is \"%s\"", "8\nGiB\r\x1b[2J\x7f\xc3\xa9");
  EXPECT_STREQ(last_error().message, "limit is \"8?GiB??[2J?\xc3\xa9\"");
}

TEST(SizeText, WritesTheDigitsThatAnEstimateHas) {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  EXPECT_EQ(size_text(6 << 10), "6.00 KiB");
  EXPECT_EQ(size_text(1234 * kMiB), "1.21 GiB");
  EXPECT_EQ(size_text(1234 * kMiB, 1.0), "1.21 GiB");
  EXPECT_EQ(size_text(1234 * kMiB, 200.0 * kMiB), "1.2 GiB");
  EXPECT_EQ(size_text(234 * kMiB, 2.0 * kMiB), "234 MiB");
  EXPECT_EQ(size_text(234 * kMiB, 35.0 * kMiB), "230 MiB");
  EXPECT_EQ(size_text(234 * kMiB, 1e30), "200 MiB");  // one always
  EXPECT_EQ(size_text(0, 5), "0 B");
}

TEST(Message, GoesOnInLinesWhereOneCannotHoldAll) {
  std::string lines;
  add_line(lines, "Most is held by:");
  add_line(lines, "  1 B of \"a\nb\x1b\"");
  (void)fail(GPUPOOL_ERROR_OVER_LIMIT, "over the limit");
  explain(lines);
  EXPECT_STREQ(last_error().message, "over the limit\nMost is held by:\n  1 B of \"a?b?\"");
  EXPECT_EQ(first_line_length(last_error()), std::strlen("over the limit"));
  explain(std::string(2000, 'x'));
  EXPECT_EQ(std::strlen(last_error().message), sizeof last_error().message - 1);
}

TEST(Message, IsNotMadeLongerThanATerminal) {
  EXPECT_EQ(own_length("a \"quoted \" word, /a/path here"), 15u);
  (void)fail(GPUPOOL_ERROR_INTERNAL, "%s \"%s\"", std::string(150, 'x').c_str(),
             std::string(500, 'x').c_str());
  const std::string long_one(kMessageLength + 1, 'x');
  EXPECT_DEBUG_DEATH((void)fail(GPUPOOL_ERROR_INTERNAL, "%s", long_one.c_str()), "kMessageLength");
}

TEST(Log, HoldsLinesInTheirOrderAndWithinABound) {
  std::vector<std::string> lines;
  const auto receive = [](void* user, int32_t, const char* line) {
    static_cast<std::vector<std::string>*>(user)->emplace_back(line);
    log_line(GPUPOOL_LOG_ERROR, "a line about a line");
  };
  set_log(receive, &lines, GPUPOOL_LOG_INFO);
  hold_lines();
  hold_lines();
  log_line(GPUPOOL_LOG_INFO, "fir\nst");
  log_line(GPUPOOL_LOG_DEBUG, "not wanted");
  send_lines();
  EXPECT_TRUE(lines.empty());
  log_line(GPUPOOL_LOG_ERROR, "second %d", 2);
  send_lines();
  EXPECT_EQ(lines, (std::vector<std::string>{"fir?st", "second 2"}));
  lines.clear();
  hold_lines();
  for (int i = 0; i < 10'000; ++i) log_line(GPUPOOL_LOG_INFO, "%099d", i);
  send_lines();
  ASSERT_LT(lines.size(), 1000u);
  EXPECT_EQ(lines.back(), std::to_string(10'000 - (lines.size() - 1)) + " more lines found no room");
  set_log(nullptr, nullptr, GPUPOOL_LOG_OFF);
}

}  // namespace
}  // namespace gpupool::internal
