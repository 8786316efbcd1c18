// SPDX-License-Identifier: Apache-2.0
// Blocks that lie directly behind others, for callers that divide them, and what statistics count of these.
#include "pool/contract.hpp"

namespace pool_test {
namespace {

class Behind : public Contract {
 protected:
  static gpupool_status_t get(gpupool_t* pool, uint64_t size, gpupool_ptr_t behind, gpupool_stream_t stream,
                              gpupool_ptr_t& block) {
    return gpupool_malloc_behind(pool, size, behind, stream, &block);
  }
  static gpupool_ptr_t malloc(PoolUnderTest& pool, uint64_t size, gpupool_ptr_t behind,
                              gpupool_stream_t stream) {
    gpupool_ptr_t block = 0;
    EXPECT_TRUE(ok(get(pool, size, behind, stream, block)));
    return block;
  }
};

INSTANTIATE_TEST_SUITE_P(On, Behind, testing::ValuesIn(variants_where([](const Variant& variant) {
                           return variant.mode == GPUPOOL_MODE_VMM;
                         })),
                         name_of);

TEST_P(Behind, TakesExactlyWhatItAsksFor) {
  PoolUnderTest pool(config());
  const gpupool_stream_t stream = new_stream();
  gpupool_ptr_t last = malloc(pool, 6 * kMiB, 0, stream);
  uint64_t total = 6 * kMiB;
  for (const uint64_t size : {2 * kMiB, 30 * kMiB, 4 * kMiB, 100 * kMiB}) {
    const gpupool_ptr_t next = malloc(pool, size, last, stream);
    const gpupool_block_t before = pool.info(last);
    EXPECT_EQ(next, before.address + before.allocated_bytes);
    total += size;
    EXPECT_EQ(pool.reserved(), total);
    last = next;
  }
  EXPECT_TRUE(ok(gpupool_validate(pool)));
  for (const gpupool_block_t& block : pool.snapshot().blocks) pool.free(block.address, stream);
}

TEST_P(Behind, MovesWhatOthersHaveFreed) {
  PoolUnderTest pool(config());
  const gpupool_stream_t stream = new_stream();
  const gpupool_stream_t other = new_stream();
  const gpupool_ptr_t first = malloc(pool, 2 * kMiB, 0, stream);
  pool.free(pool.malloc(64 * kMiB, other), other);
  pool.synchronize();
  const gpupool_ptr_t second = malloc(pool, 64 * kMiB, first, stream);
  EXPECT_EQ(second, first + 2 * kMiB);
  EXPECT_EQ(pool.reserved(), 66 * kMiB);
  pool.free(first, stream);
  pool.free(second, stream);
}

TEST_P(Behind, RunsDoNotStandInEachOthersWay) {
  PoolUnderTest pool(config());
  const gpupool_stream_t stream = new_stream();
  constexpr size_t kRuns = 40;
  std::vector<gpupool_ptr_t> last(kRuns);
  for (gpupool_ptr_t& run : last) run = malloc(pool, 2 * kMiB, 0, stream);
  for (int round = 0; round < 3; ++round) {
    for (gpupool_ptr_t& run : last) run = malloc(pool, 2 * kMiB, run, stream);
  }
  EXPECT_EQ(pool.reserved(), kRuns * 8 * kMiB);
  for (const gpupool_block_t& block : pool.snapshot().blocks) pool.free(block.address, stream);
}

/// As programs do that capture a graph anew for each batch: only the first makes driver calls.
TEST_P(Behind, WhatARunHasLeftServesTheNext) {
  PoolUnderTest pool(config());
  const gpupool_stream_t stream = new_stream();
  uint64_t maps = 0;
  for (int round = 0; round < 5; ++round) {
    std::vector<gpupool_ptr_t> blocks{malloc(pool, 10 * kMiB, 0, stream)};
    for (const uint64_t size : {4 * kMiB, 30 * kMiB})
      blocks.push_back(malloc(pool, size, blocks.back(), stream));
    for (const gpupool_ptr_t block : blocks) pool.free(block, stream);
    if (round == 0) maps = pool.stats().driver.map.count;
  }
  EXPECT_EQ(pool.stats().driver.map.count, maps);
  EXPECT_EQ(pool.reserved(), 44 * kMiB);
}

TEST_P(Behind, IsRefusedWhereAddressesAreInUse) {
  PoolUnderTest pool(config());
  const gpupool_stream_t stream = new_stream();
  const gpupool_ptr_t first = malloc(pool, 4 * kMiB, 0, stream);
  const gpupool_ptr_t second = malloc(pool, 4 * kMiB, first, stream);
  gpupool_ptr_t block = 1;
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNAVAILABLE, get(pool, 2 * kMiB, first, stream, block)));
  EXPECT_EQ(block, 0u);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNAVAILABLE, get(pool, 2 * kMiB, second, new_stream(), block)))
      << "they are another stream's";
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, get(pool, 2 * kMiB, first + 512, stream, block)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, get(pool, 2 * kMiB, 512, stream, block)));
  EXPECT_EQ(pool.reserved(), 8 * kMiB);
  // What was freed there is free again.
  pool.free(second, stream);
  pool.empty();
  EXPECT_EQ(malloc(pool, 8 * kMiB, first, stream), second);
  pool.free(second, stream);
  pool.free(first, stream);
}

TEST_P(Behind, AShortageChangesNothing) {
  PoolUnderTest pool(config_with_limit(64 * kMiB));
  const gpupool_stream_t stream = new_stream();
  const gpupool_ptr_t first = malloc(pool, 20 * kMiB, 0, stream);
  gpupool_ptr_t block = 0;
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, get(pool, 46 * kMiB, first, stream, block)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, get(pool, 46 * kMiB, 0, stream, block)));
  EXPECT_EQ(pool.reserved(), 20 * kMiB);
  block = malloc(pool, 44 * kMiB, first, stream);
  pool.free(block, stream);
  pool.free(first, stream);
}

class Parts : public Behind {
 protected:
  static void count(gpupool_t* pool, int32_t what, int32_t change, uint64_t size, bool is_small = false) {
    EXPECT_TRUE(ok(gpupool_count_parts(pool, what, change, is_small ? 1 : 0, 1, size, size - 100)));
  }
};

INSTANTIATE_TEST_SUITE_P(On, Parts, testing::ValuesIn(controlled_variants()), name_of);

TEST_P(Parts, CountInPlaceOfTheBlockThatIsDivided) {
  PoolUnderTest pool(config());
  const gpupool_ptr_t other = pool.malloc(10 * kMiB);
  const gpupool_ptr_t block = pool.malloc(100 * kMiB);
  count(pool, 0, 1, 100 * kMiB);
  EXPECT_TRUE(ok(gpupool_reset_peaks(pool)));
  EXPECT_EQ(pool.stats().all.allocated_bytes.current, 10 * kMiB);
  EXPECT_EQ(pool.stats().all.allocated_bytes.peak, 10 * kMiB);
  EXPECT_EQ(pool.stats().all.allocated_blocks.current, 1u);
  EXPECT_LT(pool.stats().cached_bytes, 100 * kMiB) << "it serves no other malloc";
  count(pool, GPUPOOL_BLOCK_LIVE, 1, 30 * kMiB);
  count(pool, GPUPOOL_BLOCK_LIVE, 1, 20 * kKiB, true);
  EXPECT_EQ(pool.stats().large.allocated_bytes.current, 40 * kMiB);
  EXPECT_EQ(pool.stats().small.allocated_bytes.current, 20 * kKiB);
  EXPECT_EQ(pool.stats().small.requested_bytes.current, 20 * kKiB - 100);
  EXPECT_EQ(pool.stats().all.allocated_blocks.current, 3u);
  count(pool, GPUPOOL_BLOCK_LIVE, -1, 20 * kKiB, true);
  // A part that is freed and still in use.
  count(pool, GPUPOOL_BLOCK_LIVE, -1, 30 * kMiB);
  count(pool, GPUPOOL_BLOCK_PENDING, 1, 30 * kMiB);
  EXPECT_EQ(pool.stats().all.allocated_bytes.current, 10 * kMiB);
  EXPECT_EQ(pool.stats().all.active_bytes.current, 40 * kMiB);
  count(pool, GPUPOOL_BLOCK_PENDING, -1, 30 * kMiB);
  // Peaks, of what was live at a time.
  pool.free(pool.malloc(25 * kMiB));
  const gpupool_stats_t stats = pool.stats();
  EXPECT_EQ(stats.large.allocated_bytes.peak, 40 * kMiB);
  EXPECT_EQ(stats.all.allocated_bytes.peak, 40 * kMiB + 20 * kKiB);
  EXPECT_EQ(stats.all.active_bytes.peak, 40 * kMiB + 20 * kKiB);
  EXPECT_EQ(stats.all.allocated_blocks.total_allocated, 4u);
  EXPECT_EQ(stats.all.allocated_blocks.total_freed, 3u);
  // The block goes.
  pool.free(block);
  count(pool, 0, -1, 100 * kMiB);
  EXPECT_EQ(pool.stats().all.allocated_bytes.current, 10 * kMiB);
  EXPECT_EQ(pool.stats().all.allocated_bytes.peak, 40 * kMiB + 20 * kKiB);
  EXPECT_EQ(pool.stats().all.allocated_blocks.current, 1u);
  pool.free(other);
  EXPECT_EQ(pool.stats().all.allocated_blocks.total_freed, 4u);
  EXPECT_EQ(pool.stats().all.allocated_bytes.current, 0u);
}

TEST_P(Parts, WhatNobodyHasIsNothing) {
  PoolUnderTest pool(config());
  count(pool, GPUPOOL_BLOCK_LIVE, -1, kMiB);
  EXPECT_EQ(pool.stats().all.allocated_bytes.current, 0u);
  EXPECT_EQ(pool.stats().all.allocated_bytes.peak, 0u);
}

}  // namespace
}  // namespace pool_test
