// SPDX-License-Identifier: Apache-2.0
// The contract of child pools: one limit, memory that stays where it is, an end of their own.
#include <algorithm>
#include <random>
#include <set>
#include <thread>

#include "pool/contract.hpp"

namespace pool_test {
namespace {

class Children : public Contract {
 protected:
  static std::set<gpupool_ptr_t> mapped(PoolUnderTest& pool) {
    std::set<gpupool_ptr_t> all;
    for (const gpupool_segment_t& segment : pool.snapshot().segments) all.insert(segment.address);
    return all;
  }
  static bool holds(const std::set<gpupool_ptr_t>& all, const std::set<gpupool_ptr_t>& some) {
    return std::includes(all.begin(), all.end(), some.begin(), some.end());
  }
};

INSTANTIATE_TEST_SUITE_P(On, Children, testing::ValuesIn(variants_where([](const Variant& variant) {
                           return variant.source == Source::none;
                         })),
                         name_of);

TEST_P(Children, ShareTheLimitToTheByte) {
  PoolUnderTest parent(config_with_limit(64 * kMiB));
  PoolUnderTest child(PoolUnderTest::child_of(parent));
  PoolUnderTest other(PoolUnderTest::child_of(parent));
  EXPECT_EQ(child.stats().limit_bytes, 64 * kMiB);
  const gpupool_ptr_t first = child.malloc(40 * kMiB);
  const gpupool_ptr_t second = parent.malloc(20 * kMiB);
  const gpupool_ptr_t third = other.malloc(4 * kMiB);
  for (PoolUnderTest* pool : {&parent, &child, &other}) {
    EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, pool->try_malloc(kMiB + 1)));
    EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, gpupool_reserve(*pool, 64 * kMiB, 0)));
  }
  EXPECT_EQ(parent.reserved() + child.reserved() + other.reserved(), 64 * kMiB);
  parent.set_limit(66 * kMiB);
  child.free(child.malloc(2 * kMiB));
  other.free(third);
  parent.free(second);
  child.free(first);
}

TEST_P(Children, GetWhatTheParentHasCached) {
  PoolUnderTest parent(config_with_limit(64 * kMiB));
  PoolUnderTest child(PoolUnderTest::child_of(parent));
  parent.free(parent.malloc(60 * kMiB));
  const gpupool_ptr_t block = child.malloc(50 * kMiB);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, parent.try_malloc(20 * kMiB)));
  child.free(block);
  // The other way round it stays where it is.
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, parent.try_malloc(20 * kMiB)));
  EXPECT_GE(child.empty(), 50 * kMiB);
  parent.free(parent.malloc(60 * kMiB));
}

/// Each size takes only what the ones before lack, as a graph's captures with inputs of growing size need it.
TEST_P(Children, GrowAtTheirEnds) {
  if (variant().mode != GPUPOOL_MODE_VMM) GTEST_SKIP() << "the driver's memory has addresses of its own";
  PoolUnderTest parent(config());
  PoolUnderTest child(PoolUnderTest::child_of(parent));
  const gpupool_stream_t stream = new_stream();
  for (const uint64_t size : {20 * kMiB, 26 * kMiB, 32 * kMiB, 38 * kMiB, 44 * kMiB, 50 * kMiB}) {
    std::vector<gpupool_ptr_t> blocks;
    for (int i = 0; i < 3; ++i) blocks.push_back(child.malloc(size, stream));
    for (const gpupool_ptr_t block : blocks) child.free(block, stream);
  }
  EXPECT_LE(child.reserved(), 152 * kMiB);  // 150, and what a chunk is larger than the last block needs
}

TEST_P(Children, KeepWhatTheyHaveMappedWhereItIs) {
  PoolUnderTest parent(config_with_limit(256 * kMiB));
  PoolUnderTest child(PoolUnderTest::child_of(parent));
  const gpupool_stream_t stream = new_stream();
  std::vector<gpupool_ptr_t> blocks;
  for (const uint64_t size : {1000 * kKiB, 3 * kMiB, 20 * kMiB, 7 * kMiB})
    blocks.push_back(child.malloc(size, stream));
  std::set<gpupool_ptr_t> used = mapped(child);
  for (const gpupool_ptr_t block : blocks) child.free(block, stream);
  child.synchronize();
  // Growth of its own, of its parent's and of a stranger's on a device that is full; and a shortage of each.
  child.free(child.malloc(60 * kMiB, stream), stream);
  EXPECT_TRUE(holds(mapped(child), used));
  const gpupool_ptr_t held = child.malloc(100 * kMiB, stream);
  used = mapped(child);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, child.try_malloc(200 * kMiB, stream)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, parent.try_malloc(200 * kMiB, stream)));
  child.free(held, stream);
  if (variant().is_controlled() && variant().is_on_device()) {
    PoolUnderTest stranger(config());
    EXPECT_TRUE(refused(GPUPOOL_ERROR_OUT_OF_MEMORY, stranger.try_malloc(kCapacity - 16 * kMiB)));
  }
  EXPECT_TRUE(holds(mapped(child), used));
  (void)parent.empty();
  EXPECT_EQ(parent.reserved(), 0u);
  EXPECT_TRUE(holds(mapped(child), used));
  // What it has serves it again.
  const uint64_t reserved = child.reserved();
  child.free(child.malloc(20 * kMiB, stream), stream);
  EXPECT_EQ(child.reserved(), reserved);
  child.validate();
  EXPECT_EQ(child.trim(8 * kMiB) + child.reserved(), reserved);
  EXPECT_LE(child.reserved(), 8 * kMiB);
  (void)child.empty();
  EXPECT_EQ(child.reserved(), 0u);
  child.validate();
}

TEST_P(Children, OutliveTheirParent) {
  PoolUnderTest parent(config_with_limit(64 * kMiB));
  PoolUnderTest child(PoolUnderTest::child_of(parent));
  const gpupool_ptr_t of_parent = parent.malloc(10 * kMiB);
  const gpupool_ptr_t block = child.malloc(10 * kMiB);
  gpupool_t* handle = parent.give_up();
  EXPECT_TRUE(ok(gpupool_destroy(handle)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, child.try_malloc(50 * kMiB)));  // its block is still there
  gpupool_t* late = handle;
  EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_create_child(handle, &late)));
  EXPECT_EQ(late, nullptr);
  EXPECT_TRUE(ok(gpupool_free(handle, of_parent, 0)));
  const gpupool_ptr_t more = child.malloc(50 * kMiB);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, child.try_malloc(10 * kMiB)));
  child.free(block);
  child.free(more);
  child.validate();
}

TEST_P(Children, GoWithTheirLastBlock) {
  PoolUnderTest parent(config_with_limit(64 * kMiB));
  gpupool_t* handle = PoolUnderTest::child_of(parent);
  gpupool_ptr_t block = 0;
  EXPECT_TRUE(ok(gpupool_malloc(handle, 60 * kMiB, 0, &block)));
  EXPECT_TRUE(ok(gpupool_destroy(handle)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, parent.try_malloc(10 * kMiB)));
  EXPECT_TRUE(ok(gpupool_free(handle, block, 0)));
  parent.free(parent.malloc(60 * kMiB));
}

TEST_P(Children, LeaveTheLimitToTheirParent) {
  PoolUnderTest parent(config());
  PoolUnderTest child(PoolUnderTest::child_of(parent));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_set_limit(child, 64 * kMiB)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_set_fraction(child, 0.5)));
  EXPECT_EQ(child.stats().limit_bytes, 0u);
  const gpupool_ptr_t block = child.malloc(30 * kMiB);
  parent.free(parent.malloc(30 * kMiB));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, gpupool_set_limit(parent, 20 * kMiB)));
  EXPECT_NE(last_message().find("child pools"), std::string::npos) << last_message();
  EXPECT_EQ(parent.stats().limit_bytes, 0u);
  EXPECT_EQ(parent.reserved(), 30 * kMiB);  // a call that fails changes nothing
  parent.set_limit(child.reserved());
  EXPECT_EQ(child.stats().limit_bytes, child.reserved());
  EXPECT_EQ(parent.reserved(), 0u);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, parent.try_malloc(1)));
  child.free(block);
}

TEST_P(Children, HaveStatisticsOfTheirOwn) {
  PoolUnderTest parent(config_with_limit(64 * kMiB));
  EXPECT_EQ(parent.report().find("child"), std::string::npos);
  PoolUnderTest child(PoolUnderTest::child_of(parent));
  const gpupool_ptr_t block = child.malloc(6 * kMiB);
  EXPECT_EQ(parent.stats().all.allocated_bytes.current, 0u);
  EXPECT_EQ(parent.reserved(), 0u);
  EXPECT_EQ(child.stats().all.allocated_blocks.current, 1u);
  EXPECT_GE(child.reserved(), 6 * kMiB);
  EXPECT_NE(parent.report().find("under the same limit, 1 child pool holds 6.00 MiB"), std::string::npos)
      << parent.report();
  EXPECT_NE(child.report().find("under the same limit, its parent and that one's other child pools hold 0 B"),
            std::string::npos)
      << child.report();
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, gpupool_free(parent, block, 0)));
  child.free(block);
  EXPECT_EQ(parent.snapshot().segments.size(), 0u);
}

TEST_P(Children, StayUnderTheLimitInEveryRace) {
  constexpr uint64_t kLimit = 96 * kMiB;
  PoolUnderTest parent(config_with_limit(kLimit));
  std::vector<gpupool_t*> pools = {parent, PoolUnderTest::child_of(parent), PoolUnderTest::child_of(parent)};
  std::vector<gpupool_stream_t> streams = {new_stream(), new_stream(), new_stream(), new_stream()};
  std::atomic<int> at_work{4};
  const auto work = [&](uint32_t number) {
    std::mt19937 random(number);
    std::vector<std::pair<gpupool_t*, gpupool_ptr_t>> live;
    for (int i = 0; i < 300; ++i) {
      gpupool_t* pool = pools[random() % pools.size()];
      gpupool_ptr_t block = 0;
      if (live.size() > 6 || random() % 3 == 0) {
        if (live.empty()) continue;
        EXPECT_TRUE(ok(gpupool_free(live.back().first, live.back().second, streams[number])));
        live.pop_back();
        if (random() % 4 == 0) {
          EXPECT_TRUE(ok(gpupool_empty(pool, nullptr)));
        }
      } else if (gpupool_malloc(pool, 1 + random() % (12 * kMiB), streams[number], &block) ==
                 GPUPOOL_SUCCESS) {
        live.emplace_back(pool, block);
      } else {
        EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, GPUPOOL_ERROR_OVER_LIMIT));
      }
    }
    for (const auto& [pool, block] : live) EXPECT_TRUE(ok(gpupool_free(pool, block, streams[number])));
    --at_work;
  };
  std::vector<std::thread> threads;
  for (uint32_t number = 0; number < 4; ++number) threads.emplace_back(work, number);
  while (at_work != 0) {
    if (variant().is_controlled() && variant().is_on_device()) {
      EXPECT_LE(taken_from_device(), kLimit);
    }
    std::this_thread::yield();
  }
  for (std::thread& thread : threads) thread.join();
  for (gpupool_t* pool : pools) EXPECT_TRUE(ok(gpupool_validate(pool)));
  for (gpupool_t* pool : pools) EXPECT_TRUE(ok(gpupool_empty(pool, nullptr)));
  parent.free(parent.malloc(kLimit));
  EXPECT_TRUE(ok(gpupool_destroy(pools[1])));
  EXPECT_TRUE(ok(gpupool_destroy(pools[2])));
}

class ChildrenOfAll : public Contract {};
INSTANTIATE_TEST_SUITE_P(On, ChildrenOfAll, testing::ValuesIn(all_variants()), name_of);

TEST_P(ChildrenOfAll, AreRefusedWhereTheyCannotBe) {
  PoolUnderTest parent(config());
  gpupool_t* child = parent;
  EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_create_child(nullptr, &child)));
  EXPECT_EQ(child, nullptr);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_create_child(parent, nullptr)));
  if (variant().mode == GPUPOOL_MODE_UPSTREAM) {
    EXPECT_TRUE(refused(GPUPOOL_ERROR_UNSUPPORTED, gpupool_create_child(parent, &child)));
    return;
  }
  EXPECT_TRUE(ok(gpupool_create_child(parent, &child)));
  gpupool_t* grandchild = parent;
  EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_create_child(child, &grandchild)));
  EXPECT_EQ(grandchild, nullptr);
  EXPECT_TRUE(ok(gpupool_destroy(child)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_destroy(child)));
}

}  // namespace
}  // namespace pool_test
