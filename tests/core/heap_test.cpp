// SPDX-License-Identifier: Apache-2.0
// Heaps against a model: every step of random sequences is checked with is_valid(), and against a plain map
// of live and backed memory.
#include "core/heap.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace gpupool::internal {
namespace {

constexpr Address kBase = Address{1} << 40;

/// The reference: live blocks by address, and backed granules with the chunk behind each.
struct Model {
  std::map<Address, uint64_t> live;
  std::map<Address, const Chunk*> backed;

  bool is_free(Address start, uint64_t size) const {
    auto next = live.upper_bound(start);
    if (next != live.end() && next->first < start + size) return false;
    if (next == live.begin()) return true;
    --next;
    return next->first + next->second <= start;
  }

  bool is_backed(Address start, uint64_t size) const {
    for (Address at = align_down(start, kGranule); at < start + size; at += kGranule) {
      if (backed.find(at) == backed.end()) return false;
    }
    return true;
  }

  bool touches(const Chunk& chunk) const { return !is_free(chunk.address, chunk.size); }
};

/// The free chunk of a heap that became free first; null if there is none.
Chunk* oldest(const Heap& heap) {
  Chunk* best = nullptr;
  for (size_t at = 0; at < ChunkLists::kClasses; ++at) {
    Chunk* chunk = heap.free_chunks().oldest(at);
    if (chunk != nullptr && (best == nullptr || chunk->serial < best->serial)) best = chunk;
  }
  return best;
}

class HeapTest : public ::testing::Test {
 protected:
  ~HeapTest() override {
    for (Chunk* chunk : chunks_) delete chunk;
  }

  void expect_valid() {
    std::string why;
    ASSERT_TRUE(space_.is_valid(why)) << why;
    ASSERT_TRUE(heap_.is_valid(why)) << why;
  }

  Chunk* new_chunk(uint64_t size) {
    auto* chunk = new Chunk;
    chunk->size = size;
    chunks_.push_back(chunk);
    return chunk;
  }

  void attach(Region* region, Address address, Chunk* chunk) {
    space_.store.reserve(4);
    heap_.prepare_attach(region, address, chunk->size);
    heap_.attach(region, address, chunk, 1);
    for (Address at = address; at < chunk->end(); at += kGranule) model_.backed[at] = chunk;
  }

  /// Backs a whole window, as the pool does, with chunks of random sizes.
  void back_window(const Window& window, std::mt19937& random) {
    Gap gap;
    while (heap_.next_gap(window, window.start, gap)) {
      const uint64_t most = std::min<uint64_t>(gap.room / kGranule, 8);
      attach(window.region, gap.address, new_chunk(kGranule * floor_power_of_two(1 + random() % most)));
    }
  }

  Range* allocate(uint64_t size, uint64_t alignment) {
    Range* block = heap_.allocate(size, alignment);
    if (block != nullptr) {
      EXPECT_EQ(block->address % alignment, 0u);
      EXPECT_EQ(block->size, size);
      EXPECT_TRUE(model_.is_free(block->address, size)) << "a live block was handed out again";
      EXPECT_TRUE(model_.is_backed(block->address, size)) << "a block without memory";
      EXPECT_EQ(space_.map.find(block->address), block);
      model_.live[block->address] = size;
      blocks_.push_back(block);
    }
    return block;
  }

  void free(size_t index) {
    Range* block = blocks_[index];
    model_.live.erase(block->address);
    if (index % 2 == 0) {
      heap_.free(block, 1);
    } else {
      free_listed(block);
    }
    blocks_[index] = blocks_.back();
    blocks_.pop_back();
  }

  /// Frees a block whose record somebody still has.
  void free_listed(Range* block) {
    space_.store.reserve(1);
    const Address address = block->address;
    const uint64_t size = block->size;
    const Range* hole = heap_.free_listed(block, 1);
    EXPECT_TRUE(block->is(State::unused));
    EXPECT_TRUE(hole->is(State::hole) && hole->address <= address && hole->end() >= address + size);
    space_.store.recycle(block);
  }

  /// Takes some free chunk away and forgets its addresses at once or later.
  void detach(std::mt19937& random) {
    Chunk* chunk = oldest(heap_);
    if (chunk == nullptr) return;
    ASSERT_FALSE(model_.touches(*chunk)) << "a chunk under a live block counts as free";
    for (Address at = chunk->address; at < chunk->end(); at += kGranule) model_.backed.erase(at);
    space_.store.reserve(2);
    heap_.claim_chunk(chunk);
    retired_.push_back(heap_.detach(chunk));
    if (random() % 2 == 0) {
      for (Range* range : retired_) Heap::reuse_retired(range);
      retired_.clear();
    }
  }

  void expect_as_model() {
    uint64_t reserved = 0;
    for (const Region& region : space_.regions) {
      for_each_chunk(region, [&](const Chunk* chunk) {
        reserved += chunk->size;
        EXPECT_EQ(chunk->users == 0, !model_.touches(*chunk));
      });
    }
    EXPECT_EQ(reserved, model_.backed.size() * kGranule);
    EXPECT_EQ(heap_.reserved(), reserved);
    uint64_t live = 0;
    for (const auto& [address, size] : model_.live) live += size;
    EXPECT_EQ(heap_.hole_bytes(), reserved - live);
  }

  Space space_;
  Heap heap_{SizeGroup::large, space_};
  Model model_;
  std::vector<Chunk*> chunks_;
  std::vector<Range*> blocks_;
  std::vector<Range*> retired_;
};

class HeapModelTest : public HeapTest, public ::testing::WithParamInterface<unsigned> {};

TEST_P(HeapModelTest, EveryStepKeepsEveryPromise) {
  std::mt19937 random(GetParam());
  heap_.add_region(kBase, 4 * kGiB);
  for (int step = 0; step < 600; ++step) {
    const uint64_t dice = random() % 10;
    if (dice < 5) {
      const uint64_t size = kUnit * (1 + random() % (uint64_t{1} << (1 + random() % 16)));
      const uint64_t alignment = random() % 8 == 0 ? kUnit << random() % 13 : kUnit;
      if (allocate(size, alignment) == nullptr) {
        std::array<Window, Heap::kMaxWindows> windows;
        const size_t count = heap_.find_windows(size, alignment, windows);
        ASSERT_GT(count, 0u);
        back_window(windows[random() % count], random);
        ASSERT_NE(allocate(size, alignment), nullptr) << "the backed window holds the request";
      }
    } else if (dice < 9) {
      if (!blocks_.empty()) free(random() % blocks_.size());
    } else {
      detach(random);
    }
    expect_valid();
    expect_as_model();
    if (HasFatalFailure()) return;
  }
  while (!blocks_.empty()) free(blocks_.size() - 1);
  expect_valid();
  EXPECT_EQ(heap_.hole_bytes(), heap_.reserved());
  EXPECT_EQ(heap_.free_chunks().bytes(), heap_.reserved()) << "with nothing live, every chunk is free";
}

INSTANTIATE_TEST_SUITE_P(Seeds, HeapModelTest, ::testing::Range(0U, 40U));

TEST_F(HeapTest, TakesTheSmallestHoleThatFits) {
  heap_.add_region(kBase, kGiB);
  auto* region = &space_.regions.front();
  attach(region, kBase, new_chunk(kGranule));
  attach(region, kBase + 4 * kGranule, new_chunk(4 * kGranule));
  EXPECT_EQ(allocate(kGranule, kUnit)->address, kBase);
  EXPECT_EQ(allocate(kGranule, kUnit)->address, kBase + 4 * kGranule);
  EXPECT_EQ(allocate(kGiB, kUnit), nullptr);
}

TEST_F(HeapTest, BlocksLieWhereTheyAreAsked) {
  heap_.add_region(kBase, kGiB);
  Address at = 0;
  EXPECT_FALSE(heap_.find_room(2 * kGiB, at));
  ASSERT_TRUE(heap_.find_room(kGiB, at));
  EXPECT_EQ(at, kBase) << "all of the region is bare";
  Window window;
  ASSERT_TRUE(heap_.find_window(at, 8 * kMiB, window));
  EXPECT_EQ(heap_.allocate_at(at, 8 * kMiB), nullptr) << "nothing backs it yet";
  attach(window.region, at, new_chunk(8 * kMiB));
  Range* first = heap_.allocate_at(at, 6 * kMiB);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->address, at);
  // The next lies behind it, in what is backed and what is not.
  EXPECT_FALSE(heap_.find_window(at, 2 * kMiB, window)) << "a block is there";
  ASSERT_TRUE(heap_.find_window(first->end(), 6 * kMiB, window));
  EXPECT_EQ(heap_.allocate_at(first->end(), 6 * kMiB), nullptr);
  attach(window.region, at + 8 * kMiB, new_chunk(4 * kMiB));
  Range* second = heap_.allocate_at(first->end(), 6 * kMiB);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->address, at + 6 * kMiB);
  // Others begin in the middle of what is left.
  ASSERT_TRUE(heap_.find_room(kGiB / 4, at));
  EXPECT_GE(at, kBase + kGiB / 2);
  EXPECT_FALSE(heap_.find_window(kBase + kGiB - 2 * kMiB, 4 * kMiB, window)) << "the region ends before";
  EXPECT_FALSE(heap_.find_window(kBase - kGranule, kGranule, window));
  EXPECT_EQ(heap_.allocate_at(kBase - kGranule, kGranule), nullptr);
  expect_valid();
  heap_.free(first, 1);
  heap_.free(second, 1);
  expect_valid();
}

TEST_F(HeapTest, ACostCountsWhatSupplyDoesNotCover) {
  heap_.add_region(kBase, kGiB);
  std::array<Window, Heap::kMaxWindows> windows;
  ASSERT_GT(heap_.find_windows(8 * kGranule, kUnit, windows), 0u);
  ChunkSizer sizer;
  EXPECT_EQ(heap_.cost(windows[0], Supply{}, sizer, 8 * kGranule).created, 8 * kGranule);
  Supply supply;
  supply.add_class(ChunkLists::class_of(4 * kGranule), 1);
  const Cost cost = heap_.cost(windows[0], supply, sizer, 8 * kGranule);
  EXPECT_EQ(cost.created, 4 * kGranule);
  EXPECT_GE(cost.chunks, 2u);
}

TEST_F(HeapTest, SegmentsComeAndGo) {
  Chunk* chunk = new_chunk(3 * kMiB + kUnit);
  chunk->address = kBase + kUnit;
  heap_.add_segment(chunk, 0);
  expect_valid();
  Range* block = heap_.allocate(kMiB, kUnit);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(chunk->users, 1u);
  heap_.free(block, 1);
  expect_valid();
  Heap::Aside aside;
  heap_.remove_segment(chunk, aside);
  EXPECT_EQ(heap_.allocate(kMiB, kUnit), nullptr) << "it is on its way to the device";
  expect_valid();
  heap_.insert_segment(chunk, aside);
  EXPECT_EQ(heap_.reserved(), chunk->size);
  expect_valid();
  heap_.remove_segment(chunk, aside);
  space_.store.recycle(aside.front().first);
  EXPECT_EQ(heap_.reserved(), 0u);
  expect_valid();
}

TEST_F(HeapTest, ARunOfFreeChunksChangesHandsWhereItIs) {
  heap_.add_region(kBase, kGiB);
  Heap other(SizeGroup::large, space_);
  for (uint64_t i = 0; i < 4; ++i)
    attach(&space_.regions.front(), kBase + i * 2 * kGranule, new_chunk(2 * kGranule));
  Range* block = allocate(kGranule, kUnit);  // touches the first chunk, so three are free
  Window run;
  EXPECT_FALSE(heap_.find_run(6 * kGranule + kUnit, run));
  ASSERT_TRUE(heap_.find_run(3 * kGranule, run));
  EXPECT_EQ(run.start, kBase + 2 * kGranule);
  EXPECT_EQ(run.end, kBase + 6 * kGranule);
  space_.store.reserve(2);
  heap_.move_run(run, other, 0);
  expect_valid();
  std::string why;
  EXPECT_TRUE(other.is_valid(why)) << why;
  EXPECT_EQ(other.reserved(), 4 * kGranule);
  EXPECT_EQ(heap_.reserved(), 4 * kGranule);

  Range* theirs = other.allocate(4 * kGranule, kUnit);
  ASSERT_NE(theirs, nullptr);
  EXPECT_EQ(theirs->address, run.start);
  EXPECT_EQ(heap_.allocate(3 * kGranule, kUnit), nullptr) << "what is left lies on both sides of it";
  other.free(theirs, 1);
  expect_valid();
  EXPECT_EQ(other.hole_bytes(), 4 * kGranule) << "holes of different heaps stay apart";

  // Taken from there, the addresses go back to the heap that has those around them.
  Chunk* chunk = oldest(other);
  space_.store.reserve(2);
  other.claim_chunk(chunk);
  Heap::reuse_retired(other.detach(chunk));
  expect_valid();
  EXPECT_TRUE(other.is_valid(why)) << why;
  EXPECT_NE(block, nullptr);
}

}  // namespace
}  // namespace gpupool::internal
