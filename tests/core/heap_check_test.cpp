// SPDX-License-Identifier: Apache-2.0
// The checks of spaces and heaps must be able to fail: each promise is broken in turn, alone, and they name
// it.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "core/heap.hpp"

namespace gpupool::internal {
namespace {

constexpr Address kCheckedBase = Address{1} << 40;

/// A space with two blocks beside each other, a hole, a free chunk, bare addresses, a free segment and a
/// fence.
class HeapCheckTest : public ::testing::Test {
 protected:
  HeapCheckTest() {
    heap_.add_region(kCheckedBase, kGiB);
    region_ = &space_.regions.front();
    attach(kCheckedBase, used_, 2 * kGranule);
    attach(kCheckedBase + 2 * kGranule, free_, kGranule);
    first_ = heap_.allocate(kMiB, kUnit);
    second_ = heap_.allocate(kMiB, kUnit);
    hole_ = second_->next;
    bare_ = hole_->next;
    segment_.address = kCheckedBase + 2 * kGiB;
    segment_.size = kGranule;
    heap_.add_segment(&segment_, 1);
    fence_.size = kGranule;
    fenced_ = heap_.add_fence(kCheckedBase + 4 * kGiB, 2 * kGranule, &fence_, kMiB, kUnit);
  }

  void attach(Address address, Chunk& chunk, uint64_t size) {
    chunk.size = size;
    space_.store.reserve(4);
    heap_.prepare_attach(region_, address, size);
    heap_.attach(region_, address, &chunk, 1);
  }

  /// As gpupool_validate asks: the promise that is broken, "" if none is.
  std::string broken() const {
    std::string why;
    const bool is_valid = space_.is_valid(why) && heap_.is_valid(why);
    EXPECT_EQ(is_valid, why.empty());
    return why.substr(0, why.find(" at 0x"));
  }

  using Step = std::function<void()>;
  void expect_seen(const char* promise, const Step& break_it, const Step& mend_it) {
    ASSERT_EQ(broken(), "") << "before: " << promise;
    break_it();
    EXPECT_EQ(broken(), promise);
    mend_it();
    EXPECT_EQ(broken(), "") << "after: " << promise;
  }

  /// The same, with a variable that has another value meanwhile.
  template <typename Value>
  void expect_value_seen(const char* promise, Value& place, Value wrong) {
    const Value right = place;
    expect_seen(
        promise, [&] { place = wrong; }, [&] { place = right; });
  }

  /// The same, with a block that is a hole meanwhile, which the address map does not know.
  void expect_hole_seen(const char* promise, Range* block) {
    const Tag tag = block->now();
    expect_seen(
        promise,
        [&] {
          space_.map.erase(block);
          block->set(Tag::of(State::hole));
        },
        [&] {
          block->set(tag);
          insert(block);
        });
  }

  void insert(Range* block) {
    space_.map.prepare(block->address);
    space_.map.insert(block);
  }

  Chunk used_;
  Chunk free_;
  Chunk segment_;
  Chunk fence_;
  Space space_;
  Heap heap_{SizeGroup::large, space_};
  Heap other_{SizeGroup::large, space_};
  Region* region_ = nullptr;
  Range* first_ = nullptr;
  Range* second_ = nullptr;
  Range* hole_ = nullptr;
  Range* bare_ = nullptr;
  Range* fenced_ = nullptr;
};

TEST_F(HeapCheckTest, RangesCoverTheirRegion) {
  expect_value_seen("ranges do not cover the region", first_->size, first_->size + kUnit);
  expect_value_seen("ranges do not cover the region", second_->prev, hole_);
  expect_value_seen("ranges end before the region", region_->size, region_->size + kGranule);
}

TEST_F(HeapCheckTest, NeighbouringHolesAreMerged) {
  expect_hole_seen("holes not merged", second_);
}

TEST_F(HeapCheckTest, TheMapKnowsBlocks) {
  expect_seen(
      "address map differs", [&] { space_.map.erase(first_); }, [&] { insert(first_); });
}

TEST_F(HeapCheckTest, BareRangesAreAtHome) {
  expect_value_seen<Heap*>("bare range away from home", region_->home, &other_);
}

TEST_F(HeapCheckTest, FencesHaveNoFreeRanges) {
  expect_hole_seen("free range in a fence", fenced_);
}

TEST_F(HeapCheckTest, SegmentsAreBacked) {
  Range* whole = segment_.region->first;
  const Tag tag = whole->now();
  expect_seen(
      "part of a segment is not backed", [&] { whole->set(Tag::of(State::retired)); },
      [&] { whole->set(tag); });
}

TEST_F(HeapCheckTest, BlocksAndHolesAreBackedByTheirHeap) {
  expect_value_seen<Chunk*>("backing differs", region_->pages[0], nullptr);
  expect_value_seen<Heap*>("chunk of another heap", used_.heap, &other_);
}

TEST_F(HeapCheckTest, ChunksKnowTheirUsersAndPlace) {
  expect_value_seen("a chunk's users or place differ", used_.users, used_.users + 1);
  expect_value_seen("a chunk's users or place differ", free_.users, uint32_t{1});
  expect_value_seen<Region*>("a chunk's users or place differ", used_.region, nullptr);
}

TEST_F(HeapCheckTest, FreeChunksAreInTheListsOfTheSpaceAndTheHeap) {
  expect_seen(
      "shared free chunks differ", [&] { space_.free_chunks.remove(&free_); },
      [&] { space_.free_chunks.push(&free_); });
  expect_seen(
      "free chunks differ",
      [&] {
        heap_.claim_chunk(&free_);
        space_.free_chunks.push(&free_);
      },
      [&] {
        space_.free_chunks.remove(&free_);
        heap_.unclaim_chunk(&free_);
      });
}

TEST_F(HeapCheckTest, TheIndexHasItsOwnLinks) {
  const Tag tag = hole_->now();
  expect_seen(
      "free index inconsistent", [&] { hole_->set_link_back(bare_); }, [&] { hole_->set(tag); });
}

TEST_F(HeapCheckTest, TheIndexHasEveryFreeRange) {
  const uint32_t users = used_.users;
  const Tag tag = first_->now();
  expect_seen(
      "free range not indexed",
      [&] {
        space_.map.erase(first_);
        first_->set(Tag::of(State::hole));
        --used_.users;
      },
      [&] {
        used_.users = users;
        first_->set(tag);
        insert(first_);
      });
}

TEST_F(HeapCheckTest, TheIndexHasNoRangeOfAnother) {
  expect_seen(
      "free range not indexed", [&] { bare_->heap = region_->home = &other_; },
      [&] { bare_->heap = region_->home = &heap_; });
}

TEST_F(HeapCheckTest, TheIndexHasFreeRangesOnly) {
  const Tag tag = bare_->now();
  expect_seen(
      "index holds unknown ranges", [&] { bare_->set(Tag::of(State::retired)); }, [&] { bare_->set(tag); });
}

TEST_F(HeapCheckTest, WhatIsReservedIsTheChunks) {
  expect_value_seen<Heap*>("reserved differs", segment_.heap, &other_);
  // As many bytes, in one chunk fewer.
  expect_seen(
      "reserved differs",
      [&] {
        segment_.heap = &other_;
        used_.size += segment_.size;
      },
      [&] {
        segment_.heap = &heap_;
        used_.size -= segment_.size;
      });
}

}  // namespace
}  // namespace gpupool::internal
