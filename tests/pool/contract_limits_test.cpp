// SPDX-License-Identifier: Apache-2.0
// The contract of keeping memory: limits, and giving memory back.
#include <algorithm>
#include <limits>

#include "pool/contract.hpp"

namespace pool_test {
namespace {

class Limits : public Contract {
 protected:
  /// Twelve blocks of 3 MiB, large enough for chunks of their own and not a multiple of any.
  static std::vector<gpupool_ptr_t> malloc_many(PoolUnderTest& pool, size_t count = 12) {
    std::vector<gpupool_ptr_t> blocks;
    for (size_t i = 0; i < count; ++i) blocks.push_back(pool.malloc(3 * kMiB));
    return blocks;
  }

  /// What the pool says it holds is what the device misses.
  void expect_device_agrees(PoolUnderTest& pool) {
    if (!variant().is_on_device() || variant().source == Source::pool || !variant().is_controlled()) return;
    EXPECT_EQ(taken_from_device(), pool.reserved());
  }
};
INSTANTIATE_TEST_SUITE_P(On, Limits, testing::ValuesIn(all_variants()), name_of);

TEST_P(Limits, HoldByFractionOfTheDevice) {
  // A half where the device is the test's own, else what comes to little enough.
  const uint64_t total = device_info().total_bytes;
  const double fraction =
      variant().is_controlled() ? 0.5 : static_cast<double>(256 * kMiB) / static_cast<double>(total);
  gpupool_config_t limited = config();
  limited.fraction = fraction;
  PoolUnderTest pool(limited);
  const uint64_t limit = pool.stats().limit_bytes;
  EXPECT_EQ(limit, static_cast<uint64_t>(fraction * static_cast<double>(total)));
  if (variant().is_controlled()) {
    ASSERT_EQ(limit, kCapacity / 2);
  }

  const gpupool_ptr_t most = pool.malloc(limit - 32 * kMiB);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, pool.try_malloc(64 * kMiB)));
  const std::string message = last_message();
  EXPECT_NE(message.find(std::to_string(64 * kMiB)), std::string::npos) << message;
  EXPECT_NE(message.find("iB in 1 live blocks"), std::string::npos) << message;
  EXPECT_NE(message.find(variant().is_controlled() ? "limit of 2.00 GiB" : "limit of 256.00 MiB"),
            std::string::npos)
      << message;
  EXPECT_EQ(pool.stats().failed_mallocs, 1u);
  const gpupool_ptr_t little = pool.malloc(8 * kMiB);
  EXPECT_LE(pool.stats().all.reserved_bytes.peak, limit);
  pool.free(little);
  pool.free(most);
  pool.free(pool.malloc(64 * kMiB));
  pool.free(pool.malloc(limit - 8 * kMiB));
  EXPECT_LE(pool.stats().all.reserved_bytes.peak, limit);
}

TEST_P(Limits, AreTheSmallerOfFractionAndBytes) {
  gpupool_config_t both = config();
  both.fraction = 1;
  both.limit_bytes = 100 * kMiB;
  PoolUnderTest pool(both);
  EXPECT_EQ(pool.stats().limit_bytes, 100 * kMiB);
  pool.set_limit(0);
  EXPECT_EQ(pool.stats().limit_bytes, 0u);
  EXPECT_TRUE(ok(gpupool_set_fraction(pool, 1)));
  EXPECT_EQ(pool.stats().limit_bytes, device_info().total_bytes);
  for (const double fraction : {0.0, -0.5, 1.001, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_set_fraction(pool, fraction)));
  }
  EXPECT_EQ(pool.stats().limit_bytes, device_info().total_bytes);
}

TEST_P(Limits, AreHeldToTheLastByte) {
  constexpr uint64_t kLimit = 64 * kMiB;
  PoolUnderTest pool(config_with_limit(kLimit));
  const gpupool_ptr_t all = pool.malloc(kLimit);
  EXPECT_EQ(pool.reserved(), kLimit);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, pool.try_malloc(1)));
  pool.free(all);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, pool.try_malloc(kLimit + 1)));
  const gpupool_ptr_t small = pool.malloc(1);
  pool.free(small);
  EXPECT_EQ(pool.stats().all.reserved_bytes.peak, kLimit);
}

TEST_P(Limits, CannotBeSetBelowWhatIsLive) {
  PoolUnderTest pool(config_with_limit(200 * kMiB));
  const gpupool_ptr_t live = pool.malloc(64 * kMiB);
  pool.free(pool.malloc(32 * kMiB));
  const gpupool_stats_t before = pool.stats();
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, gpupool_set_limit(pool, 64 * kMiB - 1)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, gpupool_set_limit(pool, 1)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, gpupool_set_fraction(pool, 1e-9)));
  const gpupool_stats_t after = pool.stats();
  EXPECT_EQ(after.limit_bytes, 200 * kMiB);
  EXPECT_EQ(after.all.reserved_bytes.current, before.all.reserved_bytes.current);
  EXPECT_EQ(after.all.reserved_bytes.total_freed, before.all.reserved_bytes.total_freed);
  pool.free(live);
}

TEST_P(Limits, BelowWhatIsReservedGiveTheRestBack) {
  PoolUnderTest pool(config());
  const gpupool_ptr_t live = pool.malloc(64 * kMiB);
  pool.free(pool.malloc(128 * kMiB));
  ASSERT_GE(pool.reserved(), 192 * kMiB);
  pool.set_limit(100 * kMiB);
  EXPECT_LE(pool.reserved(), 100 * kMiB);
  EXPECT_GE(pool.reserved(), 64 * kMiB);
  EXPECT_EQ(pool.stats().limit_bytes, 100 * kMiB);
  expect_device_agrees(pool);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, pool.try_malloc(128 * kMiB)));
  pool.set_limit(0);
  pool.free(pool.malloc(128 * kMiB));
  pool.free(live);
}

// 100 blocks of 10 MB, every second one freed, then 200 MB, with no room left: the freed memory must do.
TEST_P(Limits, FragmentationDoesNotAddUp) {
  if (!variant().is_vmm()) GTEST_SKIP() << "segments cannot be moved";
  constexpr uint64_t kLimit = 1'004'000'000;
  PoolUnderTest pool(config_with_limit(kLimit));
  std::vector<gpupool_ptr_t> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(pool.malloc(10'000'000));
  for (size_t i = 0; i < blocks.size(); i += 2) pool.free(blocks[i]);
  const uint64_t reserved = pool.reserved();
  EXPECT_GE(reserved, 1'000'000'000u);
  const gpupool_ptr_t large = pool.malloc(200'000'000);
  EXPECT_EQ(pool.reserved(), reserved);
  EXPECT_EQ(pool.stats().all.reserved_bytes.peak, reserved);
  EXPECT_GT(pool.stats().steals, 0u);
  EXPECT_EQ(pool.stats().driver.host_wait.count, 0u);
  pool.validate();
  for (size_t i = 1; i < blocks.size(); i += 2) pool.free(blocks[i]);
  pool.free(large);
}

TEST_P(Limits, FragmentationDoesNotAddUpUnderALimitThatIsSetLater) {
  if (!variant().is_vmm()) GTEST_SKIP() << "segments cannot be moved";
  PoolUnderTest pool(config());
  std::vector<gpupool_ptr_t> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(pool.malloc(10'000'000));
  const uint64_t reserved = pool.reserved();
  pool.set_limit(reserved);
  for (size_t i = 0; i < blocks.size(); i += 2) pool.free(blocks[i]);
  const gpupool_ptr_t large = pool.malloc(200'000'000);
  EXPECT_EQ(pool.stats().all.reserved_bytes.peak, reserved);
  pool.validate();
  for (size_t i = 1; i < blocks.size(); i += 2) pool.free(blocks[i]);
  pool.free(large);
}

TEST_P(Limits, AreNotUsedUpByARequestThatCannotFit) {
  PoolUnderTest pool(config_with_limit(64 * kMiB));
  const gpupool_ptr_t live = pool.malloc(3 * kMiB);
  const uint64_t reserved = pool.reserved();
  for (const uint64_t size : {62 * kMiB, 64 * kMiB, 65 * kMiB, 100 * kMiB, 1000 * kMiB}) {
    EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, pool.try_malloc(size)));
    EXPECT_LE(pool.reserved(), reserved) << size;
    expect_device_agrees(pool);
  }
  pool.validate();
  pool.free(live);
}

TEST_P(Limits, EmptyGivesEverythingBack) {
  PoolUnderTest pool(config());
  for (const gpupool_ptr_t block : malloc_many(pool)) pool.free(block);
  pool.free(pool.malloc(100));
  const uint64_t reserved = pool.reserved();
  EXPECT_GE(reserved, 36 * kMiB);
  expect_device_agrees(pool);
  EXPECT_EQ(pool.stats().cached_bytes, reserved);
  EXPECT_EQ(pool.stats().releasable_bytes, reserved);
  EXPECT_EQ(pool.empty(), reserved);
  const gpupool_stats_t stats = pool.stats();
  EXPECT_EQ(stats.all.reserved_bytes.current, 0u);
  EXPECT_EQ(stats.all.reserved_bytes.total_freed, stats.all.reserved_bytes.total_allocated);
  EXPECT_EQ(stats.all.chunks.current, 0u);
  EXPECT_EQ(stats.cached_bytes, 0u);
  expect_device_agrees(pool);
  EXPECT_TRUE(pool.snapshot().segments.empty());
  EXPECT_TRUE(ok(gpupool_empty(pool, nullptr)));
  pool.free(pool.malloc(3 * kMiB));
}

TEST_P(Limits, EmptyKeepsOnlyWhatLiveBlocksTouch) {
  PoolUnderTest pool(config());
  const std::vector<gpupool_ptr_t> blocks = malloc_many(pool, 60);
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (i % 15 != 7) pool.free(blocks[i]);
  }
  pool.empty();
  const gpupool_stats_t stats = pool.stats();
  EXPECT_EQ(stats.releasable_bytes, 0u);
  uint64_t held = 0;
  for (const gpupool_segment_t& segment : pool.snapshot().segments) {
    EXPECT_GT(segment.blocks, 0u);
    held += segment.size_bytes;
  }
  EXPECT_EQ(stats.all.reserved_bytes.current, held);
  EXPECT_LT(held, 180 * kMiB);
  expect_device_agrees(pool);
  EXPECT_EQ(pool.empty(), 0u);
  for (size_t i = 7; i < blocks.size(); i += 15) pool.free(blocks[i]);
  pool.empty();
  EXPECT_EQ(pool.reserved(), 0u);
}

TEST_P(Limits, TrimGoesDownToItsTarget) {
  PoolUnderTest pool(config());
  for (const gpupool_ptr_t block : malloc_many(pool, 40)) pool.free(block);
  const uint64_t reserved = pool.reserved();
  EXPECT_EQ(pool.trim(reserved), 0u);
  EXPECT_EQ(pool.reserved(), reserved);
  const uint64_t released = pool.trim(40 * kMiB);
  EXPECT_LE(pool.reserved(), 40 * kMiB);
  EXPECT_EQ(pool.reserved(), reserved - released);
  // No more than was needed: chunks are of 16 MiB at most here.
  if (variant().is_vmm()) {
    EXPECT_GT(pool.reserved() + 16 * kMiB, 40 * kMiB);
  }
  expect_device_agrees(pool);
  const gpupool_ptr_t live = pool.malloc(3 * kMiB);
  pool.trim(0);
  EXPECT_GE(pool.reserved(), 3 * kMiB);
  pool.free(live);
}

TEST_P(Limits, ReserveMakesMemoryReady) {
  PoolUnderTest pool(config_with_limit(200 * kMiB));
  const gpupool_stream_t stream = new_stream();
  EXPECT_TRUE(ok(gpupool_reserve(pool, 100 * kMiB, stream)));
  const uint64_t reserved = pool.reserved();
  EXPECT_GE(reserved, 100 * kMiB);
  EXPECT_LE(reserved, 102 * kMiB);
  expect_device_agrees(pool);
  const uint64_t calls = count_calls(pool.stats().driver);
  EXPECT_TRUE(ok(gpupool_reserve(pool, 50 * kMiB, stream)));
  const gpupool_ptr_t block = pool.malloc(99 * kMiB, stream);
  EXPECT_EQ(count_calls(pool.stats().driver), calls);
  EXPECT_EQ(pool.reserved(), reserved);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, gpupool_reserve(pool, 300 * kMiB, stream)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OUT_OF_MEMORY, gpupool_reserve(pool, UINT64_MAX, stream)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_reserve(pool, 1, kUnknownStream)));
  pool.free(block, stream);
  EXPECT_EQ(pool.empty(), reserved);
}

TEST_P(Limits, ChunksAreNoLargerThanTold) {
  if (!variant().is_vmm()) GTEST_SKIP() << "segments are as large as the requests";
  gpupool_config_t small_chunks = config();
  small_chunks.max_chunk_bytes = 4 * kMiB;
  PoolUnderTest pool(small_chunks);
  pool.free(pool.malloc(500 * kMiB));
  EXPECT_TRUE(ok(gpupool_reserve(pool, 700 * kMiB, 0)));
  for (const auto& segment : pool.snapshot().segments) EXPECT_LE(segment.size_bytes, 4 * kMiB);
  for (const uint64_t wrong : {kMiB, 3 * kMiB, 1024 * kGiB}) {
    gpupool_config_t refused_config = config();
    refused_config.max_chunk_bytes = wrong;
    gpupool_t* none = nullptr;
    EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_create(&refused_config, &none)));
    EXPECT_EQ(none, nullptr);
  }
}

// On a device as large as a real one, without data.
TEST(Chunks, AreLargeInHugeBlocksWhereThereIsRoom) {
  constexpr int32_t kLarge = 5;
  gpupool_config_t config = empty_config();
  config.backend = GPUPOOL_BACKEND_SIM;
  config.device = kLarge;
  PoolUnderTest roomy(config);
  roomy.free(roomy.malloc(32 * kGiB));
  EXPECT_EQ(roomy.stats().driver.create.count, 32 * kGiB / (128 * kMiB));
  roomy.empty();

  config.limit_bytes = 32 * kGiB;
  PoolUnderTest narrow(config);
  const gpupool_ptr_t first = narrow.malloc(12 * kGiB);
  EXPECT_EQ(narrow.stats().driver.create.count, 12 * kGiB / (64 * kMiB));
  narrow.free(narrow.malloc(12 * kGiB));
  EXPECT_EQ(narrow.stats().driver.create.count, 12 * kGiB / (64 * kMiB) + 12 * kGiB / (16 * kMiB));
  narrow.free(first);
}

TEST_P(Limits, SlackSavesDriverCallsAndIsBounded) {
  if (!variant().is_vmm()) GTEST_SKIP() << "segments have a bound of their own";
  gpupool_config_t slack = config();
  slack.slack = 0.5;
  PoolUnderTest loose(slack);
  slack.slack = -1;
  PoolUnderTest tight(slack);
  const gpupool_stream_t streams[] = {new_stream(), new_stream()};
  for (PoolUnderTest* pool : {&loose, &tight}) {
    for (const gpupool_stream_t stream : streams) EXPECT_TRUE(ok(gpupool_reserve(*pool, 0, stream)));
    for (uint64_t i = 0; i < 60; ++i) {
      const gpupool_stream_t stream = streams[i % 2];
      pool->free(pool->malloc(64 * kMiB + i * kMiB, stream), stream);
      pool->validate();
    }
    EXPECT_TRUE(ok(gpupool_stream_synchronize(*pool, streams[0])));
  }
  const gpupool_stats_t stats = loose.stats();
  EXPECT_LE(static_cast<double>(stats.all.reserved_bytes.peak),
            1.5 * static_cast<double>(stats.all.allocated_bytes.peak) + static_cast<double>(kGranule));
  EXPECT_LT(stats.steals, tight.stats().steals);
  EXPECT_GT(stats.all.reserved_bytes.peak, tight.stats().all.reserved_bytes.peak);
}

TEST_P(Limits, SegmentsDoNotPileUpWhereSizesDrift) {
  PoolUnderTest pool(config());
  for (uint64_t i = 0; i < 60; ++i) {
    pool.free(pool.malloc(64 * kMiB + i * kMiB));
    pool.synchronize();
  }
  const gpupool_stats_t stats = pool.stats();
  EXPECT_LE(stats.all.reserved_bytes.peak, 2 * stats.all.allocated_bytes.peak + kGranule);
  pool.validate();
}

/// Many streams each keep a little of what they used, which a limit takes back.
TEST_P(Limits, HoldManyStreamsThatAlignTheirBlocksInAllWays) {
  PoolUnderTest pool(config());
  std::vector<gpupool_stream_t> streams(64);
  for (gpupool_stream_t& stream : streams) stream = new_stream();
  pool.set_limit(32 * kMiB);
  for (int round = 0; round < 3; ++round) {
    for (const gpupool_stream_t stream : streams) {
      std::vector<gpupool_ptr_t> blocks;
      for (uint64_t alignment = 512; alignment <= 2 * kMiB; alignment *= 2) {
        gpupool_ptr_t block = 0;
        ASSERT_TRUE(ok(gpupool_malloc_aligned(pool, 600 * 1024, alignment, stream, &block)));
        EXPECT_EQ(block % alignment, 0u);
        blocks.push_back(block);
      }
      for (const gpupool_ptr_t block : blocks) pool.free(block, stream);
    }
  }
  EXPECT_LE(pool.stats().all.reserved_bytes.peak, 32 * kMiB);
  pool.validate();
}

TEST_P(Limits, ThatTrimWaitForMemoryInUse) {
  if (variant().machine != Machine::sim) GTEST_SKIP() << "a held stream cannot be waited for";
  PoolUnderTest pool(config());
  const gpupool_stream_t home = new_stream();
  const gpupool_stream_t other = new_stream();
  const gpupool_ptr_t shared = pool.malloc(64 * kMiB, home);
  const gpupool_ptr_t own = pool.malloc(64 * kMiB, home);
  work(other, shared, 64 * kMiB);
  work(home, own, 64 * kMiB);
  pool.free(shared, other);
  pool.free(own, home);
  pool.set_limit(16 * kMiB);
  EXPECT_LE(pool.reserved(), 16 * kMiB);
  EXPECT_GT(pool.stats().driver.host_wait.count + pool.stats().driver.free.count, 0u);
}

}  // namespace
}  // namespace pool_test
