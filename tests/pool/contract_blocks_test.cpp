// SPDX-License-Identifier: Apache-2.0
// The contract of blocks: sizes, statistics, addresses, and every pointer that is none.
#include <algorithm>
#include <thread>

#include "pool/contract.hpp"

namespace pool_test {
namespace {

class Blocks : public Contract {};
INSTANTIATE_TEST_SUITE_P(On, Blocks, testing::ValuesIn(all_variants()), name_of);

TEST_P(Blocks, AreRoundedUpTo512) {
  PoolUnderTest pool(config());
  std::vector<gpupool_ptr_t> blocks;
  for (const uint64_t expected : {512u, 1024u, 1536u}) {
    blocks.push_back(pool.malloc(4));
    EXPECT_EQ(pool.allocated(), expected);
  }
  EXPECT_EQ(pool.stats().all.requested_bytes.current, 12u);
  for (const gpupool_ptr_t block : blocks) pool.free(block);
  EXPECT_EQ(pool.allocated(), 0u);

  const gpupool_ptr_t floats128 = pool.malloc(128 * sizeof(float));
  EXPECT_EQ(pool.allocated(), 512u);
  const gpupool_ptr_t floats129 = pool.malloc(129 * sizeof(float));
  EXPECT_EQ(pool.allocated(), 512u + 1024u);
  pool.free(floats128);
  pool.free(floats129);
}

void expect_flow(const gpupool_stat_t& stat, uint64_t current, uint64_t peak, uint64_t total) {
  EXPECT_EQ(stat.current, current);
  EXPECT_EQ(stat.peak, peak);
  EXPECT_EQ(stat.total_allocated, total);
  EXPECT_EQ(stat.total_freed, total - current);
}

TEST_P(Blocks, AreCountedNowAtThePeakAndInTotal) {
  PoolUnderTest pool(config());
  const gpupool_ptr_t a = pool.malloc(1000);
  const gpupool_ptr_t b = pool.malloc(2000);
  pool.free(a);
  const gpupool_ptr_t c = pool.malloc(100);

  gpupool_stat_group_t all = pool.stats().all;
  expect_flow(all.requested_bytes, 2100, 3000, 3100);
  expect_flow(all.allocated_bytes, 2048 + 512, 3072, 3072 + 512);
  expect_flow(all.active_bytes, 2048 + 512, 3072, 3072 + 512);
  expect_flow(all.allocated_blocks, 2, 2, 3);
  expect_flow(all.active_blocks, 2, 2, 3);

  EXPECT_TRUE(ok(gpupool_reset_peaks(pool)));
  pool.free(b);
  all = pool.stats().all;
  expect_flow(all.requested_bytes, 100, 2100, 3100);
  expect_flow(all.allocated_bytes, 512, 2048 + 512, 3072 + 512);
  expect_flow(all.allocated_blocks, 1, 2, 3);
  pool.free(c);
}

TEST_P(Blocks, OfUpToOneMebibyteAreSmall) {
  PoolUnderTest pool(config());
  const gpupool_ptr_t small = pool.malloc(kMiB);
  const gpupool_ptr_t large = pool.malloc(kMiB + 1);
  const gpupool_stats_t stats = pool.stats();
  EXPECT_EQ(stats.small.allocated_bytes.current, kMiB);
  EXPECT_EQ(stats.small.allocated_blocks.current, 1u);
  EXPECT_EQ(stats.large.allocated_bytes.current, kMiB + 512);
  EXPECT_EQ(stats.large.requested_bytes.current, kMiB + 1);
  EXPECT_EQ(stats.large.allocated_blocks.current, 1u);
  EXPECT_EQ(stats.all.allocated_bytes.current, 2 * kMiB + 512);
  EXPECT_GT(stats.small.reserved_bytes.current, 0u);
  EXPECT_GT(stats.large.reserved_bytes.current, 0u);
  EXPECT_EQ(stats.all.reserved_bytes.current,
            stats.small.reserved_bytes.current + stats.large.reserved_bytes.current);
  EXPECT_EQ(stats.all.chunks.current, stats.small.chunks.current + stats.large.chunks.current);
  EXPECT_EQ(stats.all.reserved_bytes.current,
            stats.all.active_bytes.current + stats.cached_bytes + stats.slack_bytes);
  pool.free(small);
  pool.free(large);
}

TEST_P(Blocks, OfSizeZeroArePointerZero) {
  PoolUnderTest pool(config());
  gpupool_ptr_t block = 1;
  EXPECT_TRUE(ok(gpupool_malloc(pool, 0, 0, &block)));
  EXPECT_EQ(block, 0u);
  pool.free(0);
  pool.free(0, kUnknownStream);
  pool.record_stream(0, 1);
  const gpupool_stats_t stats = pool.stats();
  EXPECT_EQ(stats.all.allocated_blocks.total_allocated, 0u);
  EXPECT_EQ(stats.all.reserved_bytes.current, 0u);
  EXPECT_EQ(count_calls(stats.driver), 0u);
}

TEST_P(Blocks, ThatCannotBeAreRefused) {
  PoolUnderTest pool(config());
  for (const uint64_t size : {UINT64_MAX, UINT64_MAX - 511, (uint64_t{1} << 46) + 1}) {
    EXPECT_TRUE(refused(GPUPOOL_ERROR_OUT_OF_MEMORY, pool.try_malloc(size)));
  }
  EXPECT_EQ(pool.stats().failed_mallocs, 3u);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, pool.try_malloc(512, kUnknownStream)));
  for (const uint64_t alignment : {uint64_t{0}, uint64_t{3}, uint64_t{768}, 4 * kMiB, UINT64_MAX}) {
    gpupool_ptr_t block = 1;
    EXPECT_TRUE(
        refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_malloc_aligned(pool, 512, alignment, 0, &block)));
    EXPECT_EQ(block, 0u);
  }
  EXPECT_EQ(pool.reserved(), 0u);
  EXPECT_EQ(pool.stats().streams, 0u);
}

TEST_P(Blocks, AreAlignedAsAsked) {
  PoolUnderTest pool(config());
  std::vector<gpupool_ptr_t> blocks;
  // Blocks of 512 bytes in between keep addresses from being aligned by chance.
  for (uint64_t alignment = 1; alignment <= 2 * kMiB; alignment *= 2) {
    for (const uint64_t size : {uint64_t{1}, 3 * kMiB + 5}) {
      blocks.push_back(pool.malloc(512));
      gpupool_ptr_t block = 0;
      ASSERT_TRUE(ok(gpupool_malloc_aligned(pool, size, alignment, 0, &block)));
      EXPECT_EQ(block % std::max<uint64_t>(alignment, 512), 0u) << alignment;
      EXPECT_EQ(pool.info(block).address, block);
      blocks.push_back(block);
      blocks.push_back(pool.malloc(kMiB + 512));
    }
  }
  pool.validate();
  for (const gpupool_ptr_t block : blocks) pool.free(block);
}

TEST_P(Blocks, DoNotOverlap) {
  PoolUnderTest pool(config());
  std::vector<gpupool_block_t> blocks;
  for (uint64_t i = 0; i < 200; ++i) {
    const uint64_t size = i % 3 == 0 ? 100 + i * 4099 : 1 + i * 771;
    blocks.push_back(pool.info(pool.malloc(size)));
    EXPECT_EQ(blocks.back().requested_bytes, size);
    if (i % 5 == 4) {
      pool.free(blocks[i / 5].address);
      blocks.erase(blocks.begin() + static_cast<ptrdiff_t>(i / 5));
    }
  }
  std::sort(blocks.begin(), blocks.end(), [](auto& a, auto& b) { return a.address < b.address; });
  for (size_t i = 0; i + 1 < blocks.size(); ++i) {
    EXPECT_LE(blocks[i].address + blocks[i].allocated_bytes, blocks[i + 1].address);
  }
  for (const gpupool_block_t& block : blocks) pool.free(block.address);
}

TEST_P(Blocks, FreedOnAStreamAreReusedThereAtOnce) {
  PoolUnderTest pool(config());
  const gpupool_stream_t stream = new_stream();
  for (const uint64_t size : {uint64_t{700}, 64 * kMiB}) {
    const gpupool_ptr_t first = pool.malloc(size, stream);
    pool.free(first, stream);
    const gpupool_stats_t before = pool.stats();
    EXPECT_EQ(pool.malloc(size, stream), first);
    EXPECT_EQ(pool.stats().hits, before.hits + 1);
    pool.free(first, stream);
    const uint64_t reserved = pool.reserved();
    for (uint64_t i = 0; i < 20; ++i) {
      // Other sizes that fit as well, so that it is not one block handed back and forth.
      const gpupool_ptr_t block = pool.malloc(size - i % 4 * size / 8, stream);
      pool.free(block, stream);
    }
    EXPECT_EQ(pool.stats().all.reserved_bytes.peak, reserved);
  }
}

/// cudaStreamLegacy, by its number, is the queue of stream 0, and no slower.
TEST_P(Blocks, OfTheLegacyStreamAreThoseOfStream0) {
  PoolUnderTest pool(config());
  for (const uint64_t size : {uint64_t{1000}, 3 * kMiB}) {
    const gpupool_ptr_t block = pool.malloc(size, 1);
    pool.free(block, 1);
    const gpupool_stats_t before = pool.stats();
    for (const gpupool_stream_t stream : {gpupool_stream_t{0}, gpupool_stream_t{1}}) {
      EXPECT_EQ(pool.malloc(size, stream), block);
      pool.free(block, 1 - stream);
    }
    EXPECT_EQ(pool.stats().hits, before.hits + 2);
    EXPECT_EQ(pool.stats().misses, before.misses);
  }
  EXPECT_EQ(pool.stats().streams, 1u);
}

/// Work on several streams leaves an event behind so many freed bytes, and that is all.
TEST_P(Blocks, CostNoDriverCallOnceTheWorkIsSteady) {
  for (const size_t count : {1, 2}) {
    PoolUnderTest pool(config());
    const gpupool_stream_t streams[] = {new_stream(), new_stream()};
    const auto step = [&] {
      std::vector<std::pair<gpupool_ptr_t, gpupool_stream_t>> blocks;
      for (uint64_t i = 0; i < 40; ++i) {
        const gpupool_stream_t stream = streams[i % count];
        blocks.emplace_back(pool.malloc(i % 4 < 2 ? (1 + i) * kMiB : 300 * (1 + i), stream), stream);
      }
      for (const auto& [block, stream] : blocks) pool.free(block, stream);
    };
    for (int warm_up = 0; warm_up < 20; ++warm_up) step();
    const gpupool_stats_t before = pool.stats();
    for (int steady = 0; steady < 10; ++steady) step();
    const gpupool_stats_t after = pool.stats();
    EXPECT_GT(count_calls(before.driver), 0u);
    const uint64_t events = after.driver.event_record.count - before.driver.event_record.count;
    const uint64_t queries = after.driver.query.count - before.driver.query.count;
    EXPECT_EQ(count_calls(after.driver) - events - queries, count_calls(before.driver));
    EXPECT_EQ(count == 1 ? events : 0, 0u);
    EXPECT_EQ(queries, events);
    EXPECT_LE(events, 10 * 500 * kMiB / (64 * kMiB));
    EXPECT_EQ(after.all.reserved_bytes.peak, before.all.reserved_bytes.peak);
    EXPECT_EQ(after.hits + after.misses, before.hits + before.misses + 400);
  }
}

// ---- pointers that are no blocks

/// Nothing that counts has changed.
void expect_same(const gpupool_stats_t& before, const gpupool_stats_t& after) {
  const auto same = [](const gpupool_stat_t& a, const gpupool_stat_t& b) {
    return std::memcmp(&a, &b, sizeof a) == 0;
  };
  EXPECT_TRUE(same(before.all.requested_bytes, after.all.requested_bytes));
  EXPECT_TRUE(same(before.all.allocated_bytes, after.all.allocated_bytes));
  EXPECT_TRUE(same(before.all.active_bytes, after.all.active_bytes));
  EXPECT_TRUE(same(before.all.reserved_bytes, after.all.reserved_bytes));
  EXPECT_TRUE(same(before.all.allocated_blocks, after.all.allocated_blocks));
  EXPECT_EQ(before.streams, after.streams);
}

TEST_P(Blocks, ThatAreNoneCannotBeFreed) {
  PoolUnderTest pool(config());
  PoolUnderTest other(config());
  const gpupool_stream_t unseen = new_stream();
  for (const uint64_t size : {uint64_t{512}, uint64_t{5000}, kMiB, 3 * kMiB, 40 * kMiB}) {
    const gpupool_ptr_t block = pool.malloc(size);
    const gpupool_ptr_t freed = pool.malloc(size);
    pool.free(freed);
    const gpupool_ptr_t foreign = other.malloc(size);
    const gpupool_stats_t before = pool.stats();
    const auto refuse_all = [&] {
      for (const gpupool_ptr_t pointer : {freed, foreign, block + 1, block + size / 2, block + size - 1,
                                          gpupool_ptr_t{4096}, ~gpupool_ptr_t{0}}) {
        for (const gpupool_stream_t stream : {gpupool_stream_t{0}, unseen, kUnknownStream}) {
          EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, gpupool_free(pool, pointer, stream)));
        }
        EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, gpupool_record_stream(pool, pointer, unseen)));
      }
      for (const gpupool_ptr_t pointer : {freed, foreign}) {
        EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, pool.try_info(pointer)));
      }
    };
    refuse_all();
    std::thread(refuse_all).join();
    expect_same(before, pool.stats());
    pool.free(block);
    EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, gpupool_free(pool, block, 0)));
    std::thread([&] {
      EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, gpupool_free(pool, block, 0)));
    }).join();
    other.free(foreign);
  }
}

TEST_P(Blocks, MayBeFreedByAnyThread) {
  PoolUnderTest pool(config());
  const gpupool_stream_t stream = new_stream();
  for (const uint64_t size : {uint64_t{512}, 8 * kMiB}) {
    const gpupool_ptr_t block = pool.malloc(size, stream);
    std::thread([&] { pool.free(block, stream); }).join();
    EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, gpupool_free(pool, block, stream)));
    EXPECT_EQ(pool.active(), 0u);
  }
}

TEST_P(Blocks, AreFoundFromAnyAddressInside) {
  PoolUnderTest pool(config());
  const gpupool_stream_t stream = new_stream();
  for (const uint64_t size : {uint64_t{1}, uint64_t{777}, kMiB, 3 * kMiB + 9, 40 * kMiB}) {
    const gpupool_ptr_t first = pool.malloc(size, stream);
    const gpupool_ptr_t second = pool.malloc(size, stream);
    const uint64_t allocated = (size + 511) / 512 * 512;
    for (const uint64_t offset : {uint64_t{0}, allocated / 3, allocated / 2, size - 1, allocated - 1}) {
      const gpupool_block_t block = pool.info(first + offset);
      EXPECT_EQ(block.address, first);
      EXPECT_EQ(block.requested_bytes, size);
      EXPECT_EQ(block.allocated_bytes, allocated);
      EXPECT_EQ(block.stream, stream);
      EXPECT_EQ(block.state, GPUPOOL_BLOCK_LIVE);
      EXPECT_EQ(block.device, kDevice);
      EXPECT_EQ(pool.info(second + offset).address, second);
    }
    pool.free(first, stream);
    for (const uint64_t offset : {uint64_t{0}, size - 1}) {
      EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, pool.try_info(first + offset)));
    }
    pool.free(second, stream);
  }
}

}  // namespace
}  // namespace pool_test
