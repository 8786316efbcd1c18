// SPDX-License-Identifier: Apache-2.0
// Ranges: their records, and the two indexes, by size and by address, each against a standard container.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <new>
#include <random>
#include <set>
#include <vector>

#include "core/address_map.hpp"
#include "core/free_index.hpp"
#include "core/range.hpp"

namespace gpupool::internal {
namespace {

struct BySize {
  bool operator()(const Range* a, const Range* b) const {
    return a->size != b->size ? a->size < b->size : a->address < b->address;
  }
};

TEST(FreeIndex, CostsTheHostThePagesThatItUses) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t pages = (sizeof(FreeIndex) + page - 1) / page;
  if (pages < 2) GTEST_SKIP() << "a page is as large as all of it";
  void* const memory =
      mmap(nullptr, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const index = ::new (memory) FreeIndex;
  EXPECT_EQ(index->find(kUnit), nullptr);
  std::vector<unsigned char> is_there(pages);
  ASSERT_EQ(mincore(memory, pages * page, is_there.data()), 0);
  EXPECT_EQ(
      std::count_if(is_there.begin(), is_there.end(), [](unsigned char bits) { return (bits & 1) != 0; }),
      1);  // the bits that say which bins are in use
  EXPECT_EQ(munmap(memory, pages * page), 0);
}

TEST(FreeIndex, AgreesWithASortedSet) {
  std::mt19937_64 random(7);
  std::vector<Range> blocks(400);
  FreeIndex index;
  std::set<Range*, BySize> reference;
  for (int step = 0; step < 20000; ++step) {
    Range& block = blocks[random() % blocks.size()];
    if (reference.count(&block) != 0) {
      reference.erase(&block);
      index.remove(&block);
    } else {
      block.address = kUnit * (random() % 1000000);
      block.size = kUnit * (1 + random() % (uint64_t{1} << random() % 30));
      reference.insert(&block);
      index.insert(&block);
    }
    const uint64_t wanted = kUnit * (1 + random() % (uint64_t{1} << random() % 30));
    Range probe;
    probe.size = wanted;
    const auto best = reference.lower_bound(&probe);
    const Range* found = index.find(wanted);
    ASSERT_EQ(found == nullptr, best == reference.end()) << "a fit must never be missed";
    if (found != nullptr) {
      ASSERT_GE(found->size, wanted);
      ASSERT_LE(found->size, (*best)->size + (*best)->size / 8) << "best fit, but for long bins";
    }
    ASSERT_EQ(index.count(), reference.size());
    if (step % 500 == 0) {
      ASSERT_TRUE(index.is_valid());
    }
  }
}

TEST(FreeIndex, IsExactInShortBinsAndPrefersLowAddresses) {
  std::vector<Range> blocks(3);
  FreeIndex index;
  const Address addresses[] = {3 * kMiB, kMiB, 2 * kMiB};
  for (size_t i = 0; i < blocks.size(); ++i) {
    blocks[i].address = addresses[i];
    blocks[i].size = 64 * kKiB;
    index.insert(&blocks[i]);
  }
  EXPECT_EQ(index.find(64 * kKiB), &blocks[1]);
  EXPECT_EQ(index.find(64 * kKiB + kUnit), nullptr);
}

TEST(FreeIndex, ListsFromTheLargest) {
  std::vector<Range> blocks(50);
  FreeIndex index;
  for (size_t i = 0; i < blocks.size(); ++i) {
    blocks[i].address = i * kGiB;
    blocks[i].size = kMiB << i % 10;
    index.insert(&blocks[i]);
  }
  size_t seen = 0;
  uint64_t last = ~uint64_t{0};
  for (const Range* at = index.top_bin(); at != nullptr; at = index.walk_down(at), ++seen) {
    EXPECT_LE(at->size, last);
    last = at->size;
  }
  EXPECT_EQ(seen, blocks.size());
}

TEST(FreeIndex, SeesACorruptedSize) {
  Range block;
  block.size = kMiB;
  FreeIndex index;
  index.insert(&block);
  ASSERT_TRUE(index.is_valid());
  block.size = 64 * kMiB;
  EXPECT_FALSE(index.is_valid());
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

TEST(AddressMap, AgreesWithASortedMap) {
  std::mt19937_64 random(11);
  AddressMap map;
  std::map<Address, std::unique_ptr<Range>> reference;
  for (int step = 0; step < 30000; ++step) {
    // Few MiB, far apart, so that starts share a MiB, and leaves lie between them.
    const Address address = (random() % 5) * 37 * kGiB + kUnit * (random() % 8192);
    const auto known = reference.find(address);
    if (known == reference.end()) {
      auto block = std::make_unique<Range>();
      block->address = address;
      map.prepare(address);
      map.insert(block.get());
      reference[address] = std::move(block);
    } else if (random() % 2 == 0) {
      map.erase(known->second.get());
      reference.erase(known);
    }
    const Address probe = (random() % 6) * 37 * kGiB + random() % (8 * kMiB);
    const Range* found = map.find(align_down(probe, kUnit));
    const auto exact = reference.find(align_down(probe, kUnit));
    if (exact != reference.end()) {
      ASSERT_EQ(found, exact->second.get());
    } else if (found != nullptr) {
      ASSERT_NE(found->address, align_down(probe, kUnit)) << "a block that is not there";
    }
    auto before = reference.upper_bound(probe);
    const Range* expected = before == reference.begin() ? nullptr : (--before)->second.get();
    ASSERT_EQ(map.find_at_or_before(probe), expected) << std::hex << probe;
  }
}

TEST(AddressMap, KeepsWhatWasLiveAtATimeHoweverFarBlocksWander) {
  AddressMap map;
  std::array<Range, 3> blocks{};
  uint64_t bytes = 0;
  for (Address at = 0; at < kTiB; at += 4 * kGiB + kMiB) {
    for (size_t i = 0; i < blocks.size(); ++i) {
      blocks[i].address = at + i * 2 * kUnit;
      map.prepare(blocks[i].address);
      map.insert(&blocks[i]);
    }
    for (const Range& block : blocks) {
      ASSERT_EQ(map.find(block.address), &block);
      ASSERT_EQ(map.find(block.address + kUnit), nullptr);
      ASSERT_EQ(map.find_at_or_before(block.address + kUnit), &block);
    }
    for (const Range& block : blocks) map.erase(&block);
    ASSERT_EQ(map.find_at_or_before(at + kGiB), nullptr);
    if (at == 0) bytes = map.bytes();
  }
  EXPECT_EQ(map.bytes(), bytes);
}

TEST(AddressMap, KnowsItsLimit) {
  EXPECT_TRUE(AddressMap::covers(0, uint64_t{1} << 48));
  EXPECT_FALSE(AddressMap::covers(kUnit, uint64_t{1} << 48));
  EXPECT_FALSE(AddressMap::covers(~uint64_t{0}, 1));
  const AddressMap map;
  EXPECT_EQ(map.find(~uint64_t{0}), nullptr);
  EXPECT_EQ(map.find_at_or_before(~uint64_t{0}), nullptr);
}

}  // namespace
}  // namespace gpupool::internal
