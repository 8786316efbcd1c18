// SPDX-License-Identifier: Apache-2.0
// The small parts: arithmetic, bins, supply, sizer, budget.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <random>
#include <set>
#include <vector>

#include "core/bitmap.hpp"
#include "core/budget.hpp"
#include "core/chunk.hpp"
#include "core/chunk_sizer.hpp"
#include "core/quick_bins.hpp"
#include "core/supply.hpp"

namespace gpupool::internal {
namespace {

TEST(Size, RoundsToUnitsAndGroups) {
  EXPECT_EQ(allocated_size(1), 512u);
  EXPECT_EQ(allocated_size(512), 512u);
  EXPECT_EQ(allocated_size(513), 1024u);
  EXPECT_EQ(group_of(kMiB), SizeGroup::small);
  EXPECT_EQ(group_of(kMiB + kUnit), SizeGroup::large);
  EXPECT_EQ(align_up(kSizeMax - 1, kUnit), kSizeMax);
}

/// Every block that it can drain, as a list.
Range* drain_all(QuickBins& bins) {
  size_t most = ~size_t{0};
  return bins.drain(SizeGroup::large, most, bins.drain(SizeGroup::small, most));
}

size_t count(const Range* list) {
  size_t blocks = 0;
  for (; list != nullptr; list = list->link) ++blocks;
  return blocks;
}

size_t count(const QuickBins& bins) {
  EXPECT_TRUE(bins.is_valid());
  size_t blocks = 0;
  bins.for_each([&](const Range*) { return ++blocks != 0; });
  return blocks;
}

TEST(QuickBins, GivesBackTheLastOfASize) {
  for (const uint64_t size : {4 * kKiB, 4 * kMiB}) {
    QuickBins bins;
    std::vector<Range> blocks(3);
    for (Range& block : blocks) {
      block.size = size;
      bins.push(&block);
    }
    EXPECT_EQ(bins.pop(2 * size), nullptr);
    EXPECT_EQ(bins.pop(size + 1), nullptr);
    EXPECT_EQ(bins.pop(size - kUnit), nullptr);
    EXPECT_EQ(bins.pop(size), &blocks[2]);
    EXPECT_EQ(bins.pop(size - kUnit + 1), &blocks[1]) << "a request that is rounded up to it";
    EXPECT_EQ(drain_all(bins), &blocks[0]);
    EXPECT_EQ(bins.pop(size), nullptr);
    EXPECT_EQ(drain_all(bins), nullptr);
  }
}

/// Sizes from `least` on, each once.
void push_sizes(QuickBins& bins, std::vector<Range>& blocks, uint64_t least) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    blocks[i].size = least + kUnit * i;
    bins.push(&blocks[i]);
  }
}

TEST(QuickBins, FindEverySmallSize) {
  QuickBins bins;
  std::vector<Range> blocks(kSmallMax / kUnit);
  push_sizes(bins, blocks, kUnit);
  EXPECT_EQ(count(bins), blocks.size());
  for (Range& block : blocks) EXPECT_EQ(bins.pop(block.size), &block);
  EXPECT_EQ(drain_all(bins), nullptr);
  EXPECT_TRUE(bins.is_valid());
}

TEST(QuickBins, NoticeWhatIsWrong) {
  QuickBins bins;
  std::vector<Range> blocks(2);
  for (Range& block : blocks) block.size = 4 * kKiB;
  bins.push(&blocks[0]);
  bins.push(&blocks[1]);
  EXPECT_TRUE(bins.is_valid());
  blocks[0].size = 8 * kKiB;
  EXPECT_FALSE(bins.is_valid()) << "a block of another size in a stack";
  blocks[1].size = 8 * kKiB;
  EXPECT_FALSE(bins.is_valid()) << "a stack in another one's place";
}

TEST(QuickBins, LosesNothingWhenSizesShareAPlace) {
  QuickBins bins;
  std::vector<Range> blocks(500);
  push_sizes(bins, blocks, 2 * kMiB);
  EXPECT_EQ(count(bins), blocks.size());
  size_t found = 0;
  for (Range& block : blocks) {
    if (bins.pop(block.size) == &block) ++found;
  }
  EXPECT_GT(found, 30u);
  EXPECT_LT(found, blocks.size());
  EXPECT_EQ(found + count(drain_all(bins)), blocks.size());
}

TEST(QuickBins, AreDrainedInParts) {
  QuickBins bins;
  std::vector<Range> blocks(4000);  // from half a MiB on, so of both groups
  push_sizes(bins, blocks, kMiB / 2);
  for (Range& block : blocks) block.tag = Tag::of(State::cached);
  size_t drained = 0;
  for (size_t part = 7; drained < blocks.size();) {
    size_t most = part;
    size_t taken = 0;
    for (const SizeGroup group : {SizeGroup::large, SizeGroup::small}) {
      for (Range* at = bins.drain(group, most); at != nullptr; at = at->link, ++taken) {
        EXPECT_TRUE(at->is(State::cached)) << "drained twice";
        EXPECT_EQ(group_of(at->size), group);
        at->set(Tag::of(State::hole));
      }
    }
    EXPECT_EQ(taken, part - most);
    ASSERT_EQ(taken, std::min(part, blocks.size() - drained));
    drained += taken;
    EXPECT_EQ(bins.empty(), drained == blocks.size()) << drained;
  }
  // What is freed between two parts is drained too.
  blocks[0].size = kUnit;
  bins.push(&blocks[0]);
  size_t most = 1;
  EXPECT_EQ(bins.drain(SizeGroup::small, most), &blocks[0]);
  EXPECT_EQ(most, 0u);
}

// What is on the shelf is in no malloc's way, but in that of a drain; what is freed later is above it.
TEST(QuickBins, PutSmallBlocksOnAShelf) {
  QuickBins bins;
  std::vector<Range> blocks(4000);  // from half a MiB on, so of both groups
  push_sizes(bins, blocks, kMiB / 2);
  for (Range& block : blocks) block.tag = Tag::of(State::cached);
  ASSERT_TRUE(bins.shelve());
  size_t large = 0;
  for (const Range& block : blocks) {
    if (group_of(block.size) == SizeGroup::small) {
      EXPECT_EQ(bins.pop(block.size), nullptr);
    } else {
      ++large;
    }
  }
  EXPECT_EQ(count(bins), blocks.size());
  Range* one = bins.pop_shelved();
  ASSERT_NE(one, nullptr);
  bins.push(one);
  EXPECT_EQ(bins.pop(one->size), one);
  one->set(Tag::of(State::unused));
  bins.push(one);
  ASSERT_TRUE(bins.shelve());
  EXPECT_EQ(count(bins), blocks.size() - 1) << "a record that is no block counts as one";
  EXPECT_FALSE(bins.empty());
  size_t most = ~size_t{0};
  EXPECT_EQ(count(bins.drain(SizeGroup::small, most)), blocks.size() - large);
  EXPECT_EQ(count(bins.drain(SizeGroup::large, most)), large);
  EXPECT_TRUE(bins.empty());
}

TEST(QuickBins, HaveAShelfOfBoundedLength) {
  QuickBins bins;
  std::vector<Range> blocks(9000);
  size_t shelved = 0;
  for (Range& block : blocks) {
    block.size = kUnit;
    bins.push(&block);
    shelved += bins.shelve() ? 1 : 0;
  }
  EXPECT_GT(shelved, 2048u);
  EXPECT_LT(shelved, blocks.size());
  EXPECT_EQ(count(drain_all(bins)), blocks.size());
}

TEST(QuickBins, KnowWhetherTheyWereUsed) {
  for (const SizeGroup group : {SizeGroup::small, SizeGroup::large}) {
    const SizeGroup other = group == SizeGroup::small ? SizeGroup::large : SizeGroup::small;
    QuickBins bins;
    Range block;
    block.size = group == SizeGroup::small ? kSmallMax : kSmallMax + kUnit;
    bins.push(&block);
    EXPECT_FALSE(bins.was_touched(group));
    EXPECT_FALSE(bins.empty());
    EXPECT_EQ(bins.pop(block.size), &block);
    EXPECT_TRUE(bins.was_touched(group));
    EXPECT_FALSE(bins.was_touched(other));
    bins.rest();
    EXPECT_FALSE(bins.was_touched(group));
    bins.touch(group);
    EXPECT_TRUE(bins.was_touched(group));
    EXPECT_EQ(drain_all(bins), nullptr);
    EXPECT_TRUE(bins.empty());
  }
}

TEST(QuickBins, FindTheNextLargerSmallBlock) {
  QuickBins bins;
  std::vector<Range> blocks(4);
  for (size_t i = 0; i < 4; ++i) blocks[i].size = std::array{8 * kKiB, 64 * kKiB, 1000 * kKiB, 2 * kMiB}[i];
  for (Range& block : blocks) bins.push(&block);
  EXPECT_EQ(bins.pop_larger(8 * kKiB), &blocks[1]);
  EXPECT_EQ(bins.pop_larger(8 * kKiB), &blocks[2]);
  EXPECT_EQ(bins.pop_larger(8 * kKiB), nullptr) << "a large one is another heap's";
  EXPECT_EQ(bins.pop_larger(kSmallMax), nullptr);
  EXPECT_EQ(bins.pop_larger(kUnit), &blocks[0]);
  EXPECT_EQ(drain_all(bins), &blocks[3]);
}

TEST(QuickBins, GiveTheirSurplusTwoAtATime) {
  QuickBins bins;
  std::vector<Range> blocks(500);
  push_sizes(bins, blocks, 2 * kMiB);
  size_t given = 0;
  size_t turns = 0;
  for (; const Range* surplus = bins.pop_surplus(SizeGroup::large); ++turns) given += count(surplus);
  EXPECT_EQ(given, 2 * turns);
  EXPECT_EQ(given + count(bins), blocks.size());
  EXPECT_LE(count(bins), 64u + 64u) << "a block for each place, and a bounded number of loose ones";
  EXPECT_EQ(given + count(drain_all(bins)), blocks.size());
  for (Range& block : blocks) bins.push(&block);
  EXPECT_NE(bins.pop_surplus(SizeGroup::large), nullptr) << "counted anew after a drain";
}

TEST(QuickBins, KeepFewSmallSizesAfterADrainUntilTheyRepeat) {
  QuickBins bins;
  std::vector<Range> blocks(500);
  push_sizes(bins, blocks, kUnit);
  EXPECT_EQ(bins.pop_surplus(SizeGroup::small), nullptr) << "nothing has been drained yet";
  (void)drain_all(bins);
  push_sizes(bins, blocks, kUnit);
  size_t given = 0;
  while (const Range* surplus = bins.pop_surplus(SizeGroup::small)) {
    EXPECT_LE(count(surplus), 2u);
    given += count(surplus);
  }
  EXPECT_EQ(given + count(bins), blocks.size());
  EXPECT_LE(count(bins), 18u) << "16, and one for 128 misses";
  EXPECT_EQ(bins.pop(kUnit), &blocks[0]) << "the largest go first";
  bins.push(&blocks[0]);
  // Misses make room again, until the next drain.
  for (size_t i = 0; i < blocks.size() * 128; ++i) EXPECT_EQ(bins.pop_surplus(SizeGroup::small), nullptr);
  for (const Range& block : blocks) (void)bins.pop(block.size);
  push_sizes(bins, blocks, kUnit);
  EXPECT_EQ(bins.pop_surplus(SizeGroup::small), nullptr);
  (void)drain_all(bins);
  push_sizes(bins, blocks, kUnit);
  EXPECT_NE(bins.pop_surplus(SizeGroup::small), nullptr);
}

TEST(Bitmap, AgreesWithASet) {
  using Bits = Bitmap<3 * 4096>;
  Bits bits;
  std::set<size_t> set;
  std::mt19937 random(7);
  for (int step = 0; step < 20000; ++step) {
    // In turns sparse and dense, so that words and whole runs of words are empty.
    const size_t bit = random() % 8 == 0 ? random() % (3 * 4096) : random() % 3 * 4096 + random() % 64;
    if (random() % 2 == 0) {
      bits.set(bit);
      set.insert(bit);
    } else {
      bits.clear(bit);
      set.erase(bit);
    }
    if (step % 1000 == 999) {
      for (const size_t each : set) bits.clear(each);
      set.clear();
    }
    const size_t from = random() % (3 * 4096);
    const auto after = set.lower_bound(from);
    const auto above = set.upper_bound(from);
    ASSERT_EQ(bits.has(from), set.count(from) != 0);
    ASSERT_EQ(bits.first_from(from), after == set.end() ? Bits::kNone : *after);
    ASSERT_EQ(bits.last_to(from), above == set.begin() ? Bits::kNone : *std::prev(above));
  }
  EXPECT_EQ(bits.first_from(3 * 4096), Bits::kNone);
}

TEST(ChunkLists, KeepOrderAndCount) {
  ChunkLists lists;
  std::vector<Chunk> chunks(4);
  for (size_t i = 0; i < chunks.size(); ++i) {
    chunks[i].size = i % 2 == 0 ? kGranule : 8 * kGranule;
    chunks[i].serial = i + 1;
    lists.push(&chunks[i]);
  }
  EXPECT_EQ(lists.oldest(ChunkLists::class_of(kGranule)), &chunks[0]);
  lists.remove(&chunks[0]);
  EXPECT_EQ(lists.oldest(ChunkLists::class_of(8 * kGranule)), &chunks[1]);
  EXPECT_EQ(lists.oldest(ChunkLists::class_of(kGranule)), &chunks[2]);
  EXPECT_EQ(lists.bytes(), kGranule + 16 * kGranule);
  EXPECT_EQ(lists.count(ChunkLists::class_of(kGranule)), 1u);
  EXPECT_EQ(lists.count(ChunkLists::class_of(8 * kGranule)), 2u);
}

TEST(Supply, PicksWhatCoversBestWithinTheRoom) {
  Supply supply;
  EXPECT_EQ(supply.pick(kGranule, kGiB), Supply::kNone);
  supply.add_class(ChunkLists::class_of(kGranule), 1);
  supply.add_class(ChunkLists::class_of(4 * kGranule), 1);
  supply.add_class(ChunkLists::class_of(32 * kGranule), 1);
  EXPECT_EQ(Supply::size_of(supply.pick(3 * kGranule, kGiB)), 4 * kGranule) << "one that covers the rest";
  EXPECT_EQ(Supply::size_of(supply.pick(3 * kGranule, 3 * kGranule)), kGranule) << "no room for more";
  EXPECT_EQ(Supply::size_of(supply.pick(16 * kGranule, kGiB)), 4 * kGranule)
      << "the largest that is not too large";
  supply.remove(kGranule);
  supply.remove(4 * kGranule);
  EXPECT_EQ(Supply::size_of(supply.pick(kGranule, kGiB)), 32 * kGranule) << "better too large than new";
  EXPECT_EQ(supply.pick(kGranule, 16 * kGranule), Supply::kNone);
}

TEST(ChunkSizer, GivesPowersOfTwoWithinItsBounds) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 20000; ++i) {
    ChunkSizer sizer;
    sizer.fine = i % 2 == 0;
    if (i % 3 == 0) sizer.max_chunk = kGranule << random() % 8;
    if (i % 3 == 1) sizer.max_inside = random() % policy::kLargestChunk;
    const uint64_t held = random() % (uint64_t{1} << random() % 40);
    const uint64_t block = kUnit * (1 + random() % (uint64_t{1} << random() % 28));
    const uint64_t gap = align_up(1 + random() % block, kGranule);
    const uint64_t room = gap + kGranule * (random() % 64);
    const uint64_t size = sizer.chunk_size(held, block, gap, room);
    ASSERT_TRUE(is_power_of_two(size));
    ASSERT_GE(size, kGranule);
    ASSERT_LE(size, room);
    const bool is_inside = 2 * size <= block && size <= sizer.max_inside;
    ASSERT_TRUE(is_inside || size <= sizer.max_chunk);
  }
}

TEST(ChunkSizer, CoarseChunksAreAPartOfTheirBlock) {
  ChunkSizer sizer;
  EXPECT_EQ(sizer.chunk_size(kGiB / 2, 128 * kMiB, 128 * kMiB, kGiB), 16 * kMiB) << "a part of the heap";
  sizer.max_shared = kGranule;
  EXPECT_EQ(sizer.chunk_size(kGiB / 2, 128 * kMiB, 128 * kMiB, kGiB), 8 * kMiB);
  sizer.block_parts = 8;
  EXPECT_EQ(sizer.chunk_size(kGiB / 2, 128 * kMiB, 128 * kMiB, kGiB), 16 * kMiB);
  EXPECT_EQ(sizer.chunk_size(kGiB / 2, kGiB, kGiB, kGiB), policy::kMaxChunk);
}

TEST(ChunkSizer, LargeChunksAreOnlyInsideBlocks) {
  ChunkSizer sizer;
  sizer.max_inside = 128 * kMiB;
  EXPECT_EQ(sizer.chunk_size(64 * kGiB, 32 * kMiB, 32 * kMiB, kGiB), 16 * kMiB);
  EXPECT_EQ(sizer.chunk_size(64 * kGiB, 100 * kMiB, 100 * kMiB, kGiB), 32 * kMiB);
  EXPECT_EQ(sizer.chunk_size(64 * kGiB, 100 * kMiB, 20 * kMiB, kGiB), 16 * kMiB) << "the block's end";
  EXPECT_EQ(sizer.chunk_size(64 * kGiB, kGiB, kGiB, kGiB), 128 * kMiB);
  sizer.max_inside = 20 * kMiB;
  EXPECT_EQ(sizer.chunk_size(64 * kGiB, kGiB, kGiB, kGiB), 16 * kMiB) << "no more than usual";
  sizer.max_chunk = 32 * kMiB;
  EXPECT_EQ(sizer.chunk_size(64 * kGiB, 32 * kMiB, 32 * kMiB, kGiB), 32 * kMiB) << "shared";
  sizer = {.fine = true, .max_inside = 128 * kMiB};
  EXPECT_EQ(sizer.chunk_size(0, kGiB, kGiB, kGiB), 16 * kMiB);
  EXPECT_EQ(sizer.chunk_size(0, 60 * kGiB, 60 * kGiB, 60 * kGiB), 128 * kMiB);
}

TEST(ChunkSizer, FineIsNeverCoarser) {
  for (uint64_t held = kMiB; held < 256 * kGiB; held *= 2) {
    const ChunkSizer coarse;
    ChunkSizer fine;
    fine.fine = true;
    EXPECT_LE(fine.chunk_size(held, 64 * kMiB, 64 * kMiB, kGiB),
              coarse.chunk_size(held, 64 * kMiB, 64 * kMiB, kGiB));
  }
}

TEST(Budget, StopsAtTheLimitToTheByte) {
  Budget budget;
  ASSERT_TRUE(budget.set_limit(1000));
  EXPECT_TRUE(budget.charge(999));
  EXPECT_FALSE(budget.charge(2));
  EXPECT_TRUE(budget.charge(1));
  EXPECT_FALSE(budget.charge(1));
  EXPECT_FALSE(budget.set_limit(999)) << "less than what is used";
  EXPECT_EQ(budget.limit(), 1000u);
  budget.refund(500);
  EXPECT_EQ(budget.room(), 500u);
  EXPECT_TRUE(budget.set_limit(500));
  EXPECT_FALSE(budget.charge(~uint64_t{0}));
}

}  // namespace
}  // namespace gpupool::internal
