// SPDX-License-Identifier: Apache-2.0
// The contract of parked streams: they may be destroyed at any time, and may be used again.
#include "pool/contract.hpp"

namespace pool_test {
namespace {

void park(gpupool_t* pool, gpupool_stream_t stream) {
  EXPECT_TRUE(ok(gpupool_park_stream(pool, stream)));
}

class ParkedStreams : public Contract {};
INSTANTIATE_TEST_SUITE_P(On, ParkedStreams, testing::ValuesIn(all_variants()), name_of);

TEST_P(ParkedStreams, MayBeDestroyed) {
  PoolUnderTest pool(config_with_limit(kBlock + 8 * kMiB));
  const gpupool_stream_t gone = new_stream();
  const gpupool_stream_t stream = new_stream();
  const gpupool_ptr_t live = pool.malloc(1000, gone);
  pool.free(pool.malloc(kBlock, gone), gone);
  pool.free(pool.malloc(3000, gone), gone);
  park(pool, gone);
  EXPECT_EQ(pool.stats().streams, 1u);
  destroy_stream(gone);

  // Whatever asks about streams leaves it alone, and its memory serves others.
  pool.synchronize();
  const gpupool_ptr_t block = pool.malloc(kBlock, stream);
  EXPECT_EQ(pool.info(live).stream, gone);
  pool.free(live, kUnknownStream);
  pool.free(block, stream);
  EXPECT_TRUE(ok(gpupool_release_stream(pool, gone)));
  EXPECT_EQ(pool.stats().streams, 1u);
  pool.synchronize();
  EXPECT_EQ(pool.active(), 0u);
  pool.empty();
  EXPECT_EQ(pool.reserved(), 0u);
  pool.validate();
}

TEST_P(ParkedStreams, KeepTheirMemory) {
  PoolUnderTest pool(config());
  const gpupool_stream_t stream = new_stream();
  const gpupool_ptr_t block = pool.malloc(kBlock, stream);
  pool.free(block, stream);
  const gpupool_stats_t before = pool.stats();
  for (int i = 0; i < 3; ++i) {
    park(pool, stream);
    park(pool, stream);
    EXPECT_EQ(pool.malloc(kBlock, stream), block);
    pool.free(block, stream);
  }
  const gpupool_stats_t after = pool.stats();
  EXPECT_EQ(after.streams, 1u);
  EXPECT_EQ(after.driver.create.count, before.driver.create.count);
  EXPECT_EQ(after.driver.map.count, before.driver.map.count);
  EXPECT_EQ(after.driver.host_wait.count, 0u);
  pool.validate();
}

TEST_P(ParkedStreams, AreTakenUpByWhateverNamesThem) {
  PoolUnderTest pool(config());
  const gpupool_stream_t stream = new_stream();
  const gpupool_stream_t home = new_stream();
  const gpupool_ptr_t own = pool.malloc(1000, stream);
  const gpupool_ptr_t used = pool.malloc(1000, home);
  park(pool, stream);
  pool.record_stream(used, stream);
  park(pool, stream);
  pool.free(used, stream);
  park(pool, stream);
  pool.free(own, stream);
  EXPECT_EQ(pool.malloc(1000, stream), own);
  pool.free(own, stream);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, gpupool_free(pool, own, stream)));
  pool.synchronize();
  EXPECT_EQ(pool.active(), 0u);
  EXPECT_EQ(pool.stats().streams, 2u);
  pool.validate();
}

TEST_P(ParkedStreams, NeedANumber) {
  PoolUnderTest pool(config());
  EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_park_stream(pool, kUnknownStream)));
  park(pool, new_stream());  // not seen: no error
  EXPECT_EQ(pool.stats().streams, 0u);
}

/// Those that the GPU has not caught up with.
class ParkedBusyStreams : public Contract {
 protected:
  void SetUp() override {
    Contract::SetUp();
    if (IsSkipped()) return;
    busy_ = new_stream();
    other_ = new_stream();
  }

  /// Frees a block that its stream is still using, and parks that.
  gpupool_ptr_t park_busy_block(PoolUnderTest& pool) {
    const gpupool_ptr_t block = free_busy_block(pool, busy_, kBlock);
    park(pool, busy_);
    return block;
  }

  gpupool_stream_t busy_ = 0;
  gpupool_stream_t other_ = 0;
};
INSTANTIATE_TEST_SUITE_P(On, ParkedBusyStreams, testing::ValuesIn(controlled_variants()), name_of);

TEST_P(ParkedBusyStreams, GetTheirMemoryInOrder) {
  PoolUnderTest pool(config());
  const gpupool_ptr_t block = park_busy_block(pool);
  // It might be a new stream with that number: it waits for the old one's work, on the GPU.
  EXPECT_EQ(pool.malloc(kBlock, busy_), block);
  EXPECT_EQ(pool.stats().driver.stream_wait.count, 1u);
  work(busy_, block, kBlock);
  pool.free(block, busy_);
  EXPECT_EQ(pool.stats().driver.host_wait.count, 0u);
  finish(busy_);
  park(pool, busy_);
  EXPECT_EQ(pool.malloc(kBlock, busy_), block);
  EXPECT_EQ(pool.stats().driver.stream_wait.count, 1u);
  pool.free(block, busy_);
}

// What was recorded when the stream was parked does not cover the work that came after.
TEST_P(ParkedBusyStreams, AreWaitedForWhereTheyWereUsedAgain) {
  if (!variant().is_vmm()) GTEST_SKIP() << "segments do not move";
  PoolUnderTest pool(config_with_limit(kBlock));
  const gpupool_ptr_t block = pool.malloc(kBlock, busy_);
  park(pool, busy_);
  work(busy_, block, kBlock);
  pool.free(block, busy_);
  park(pool, busy_);
  const gpupool_ptr_t next = pool.malloc(kBlock, other_);
  work(other_, next, kBlock);  // the simulated device would see a race
  EXPECT_EQ(pool.stats().driver.host_wait.count, 0u);
  EXPECT_GT(pool.stats().driver.stream_wait.count, 0u);
  finish(busy_);
  finish(other_);
  pool.free(next, other_);
}

TEST_P(ParkedBusyStreams, MayBeDestroyed) {
  PoolUnderTest pool(config());
  park_busy_block(pool);
  finish(busy_);
  destroy_stream(busy_);
  pool.empty();
  EXPECT_EQ(pool.reserved(), 0u);
}

}  // namespace
}  // namespace pool_test
