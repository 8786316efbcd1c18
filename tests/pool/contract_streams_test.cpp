// SPDX-License-Identifier: Apache-2.0
// The contract of streams: who may have a freed block, and when.
#include <thread>

#include "pool/contract.hpp"

namespace pool_test {
namespace {

/// Tests that make streams busy.
class BusyStreams : public Contract {
 protected:
  void SetUp() override {
    Contract::SetUp();
    if (IsSkipped()) return;
    home_ = new_stream();
    other_ = new_stream();
  }

  /// The freed block of the home stream cannot be had, though nothing else is free; then it can.
  void expect_withheld_until_passed(PoolUnderTest& pool, std::initializer_list<gpupool_stream_t> busy) {
    const gpupool_stats_t freed = pool.stats();
    EXPECT_EQ(freed.all.allocated_bytes.current, 0u);
    EXPECT_EQ(freed.all.active_bytes.current, kBlock);
    EXPECT_EQ(freed.all.active_blocks.current, 1u);

    // What the next block gets is other memory: the simulated device would see a race else.
    const gpupool_ptr_t next = pool.malloc(kBlock, home_);
    work(home_, next, kBlock);
    finish_only_home();
    EXPECT_GE(pool.reserved(), 2 * kBlock);
    EXPECT_EQ(pool.active(), 2 * kBlock);
    pool.free(next, home_);

    for (const gpupool_stream_t stream : busy) {
      come_by(pool, stream);  // its user, who leaves an event behind the work
      finish(stream);
    }
    EXPECT_EQ(pool.active(), 0u);
    const uint64_t reserved = pool.reserved();
    const gpupool_ptr_t again = pool.malloc(2 * kBlock - kGranule, home_);
    if (variant().is_vmm()) {
      EXPECT_EQ(pool.reserved(), reserved);
    }
    pool.free(again, home_);
    EXPECT_EQ(pool.stats().driver.host_wait.count, 0u);
  }

  /// The user of a stream calls the pool: only such a call may touch the stream.
  void come_by(PoolUnderTest& pool, gpupool_stream_t stream) {
    EXPECT_TRUE(ok(gpupool_reserve(pool, 0, stream)));
  }

  gpupool_stream_t home_ = 0;
  gpupool_stream_t other_ = 0;

 private:
  /// On the simulated device, time passes for all streams at once: there the home stream stays busy as well.
  void finish_only_home() {
    if (variant().machine == Machine::stand_in) finish(home_);
  }
};
INSTANTIATE_TEST_SUITE_P(On, BusyStreams, testing::ValuesIn(controlled_variants()), name_of);

TEST_P(BusyStreams, WithholdABlockThatWasRecordedOnThem) {
  PoolUnderTest pool(config());
  const gpupool_ptr_t block = pool.malloc(kBlock, home_);
  pool.record_stream(block, other_);
  pool.record_stream(block, other_);
  pool.record_stream(block, home_);  // its own: does nothing
  work(other_, block, kBlock);
  pool.free(block, home_);
  expect_withheld_until_passed(pool, {other_});
}

TEST_P(BusyStreams, WithholdABlockThatWasFreedOnThem) {
  PoolUnderTest pool(config());
  const gpupool_ptr_t block = pool.malloc(kBlock, home_);
  work(other_, block, kBlock);
  pool.free(block, other_);
  expect_withheld_until_passed(pool, {other_});
}

TEST_P(BusyStreams, KeepWhatTheyUseFromTheNextOfTheirNumber) {
  PoolUnderTest pool(config());
  const gpupool_ptr_t block = pool.malloc(kBlock, home_);
  work(home_, block, kBlock);
  EXPECT_TRUE(ok(gpupool_release_stream(pool, home_)));
  pool.free(block, home_);
  const gpupool_ptr_t next = pool.malloc(kBlock, home_);
  // A busy stream may get it if the GPU makes it wait.
  EXPECT_EQ(next == block, pool.stats().driver.stream_wait.count != 0);
  finish(home_);
  pool.free(next, home_);
}

TEST_P(BusyStreams, WithholdABlockThatWasFreedOnNoKnownStream) {
  PoolUnderTest pool(config());
  const gpupool_stream_t third = new_stream();
  pool.free(pool.malloc(512, other_), other_);  // so that the pool has seen it
  pool.free(pool.malloc(512, third), third);
  const gpupool_ptr_t block = pool.malloc(kBlock, home_);
  work(third, block, kBlock);
  pool.free(block, kUnknownStream);
  expect_withheld_until_passed(pool, {home_, other_, third});
}

TEST_P(BusyStreams, WithholdABlockUntilTheLastOfThemHasPassed) {
  if (variant().machine == Machine::sim) GTEST_SKIP() << "time passes for all streams at once";
  PoolUnderTest pool(config());
  const gpupool_stream_t third = new_stream();
  const gpupool_ptr_t block = pool.malloc(kBlock, home_);
  pool.record_stream(block, other_);
  work(other_, block, kBlock);
  work(third, block, kBlock);
  pool.free(block, third);
  EXPECT_EQ(pool.active(), kBlock);
  come_by(pool, other_);
  come_by(pool, third);
  finish(other_);
  EXPECT_EQ(pool.active(), kBlock);
  finish(third);
  EXPECT_EQ(pool.active(), 0u);
}

TEST_P(BusyStreams, WithheldBlocksAreNotLive) {
  PoolUnderTest pool(config());
  const gpupool_ptr_t block = pool.malloc(kBlock, home_);
  work(other_, block, kBlock);
  pool.free(block, other_);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, gpupool_free(pool, block, home_)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, gpupool_free(pool, block, other_)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, gpupool_record_stream(pool, block, other_)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, pool.try_info(block)));
  size_t pending = 0;
  for (const gpupool_block_t& each : pool.snapshot().blocks) {
    if (each.state == GPUPOOL_BLOCK_PENDING) {
      EXPECT_EQ(each.address, block);
    }
    if (each.state == GPUPOOL_BLOCK_PENDING) ++pending;
  }
  EXPECT_EQ(pending, 1u);
  finish(other_);
}

TEST_P(BusyStreams, AreWaitedForBySynchronize) {
  if (variant().machine != Machine::sim) GTEST_SKIP() << "a held stream cannot be waited for";
  PoolUnderTest pool(config());
  const gpupool_ptr_t block = pool.malloc(kBlock, home_);
  work(other_, block, kBlock);
  pool.free(block, other_);
  EXPECT_EQ(pool.active(), kBlock);
  pool.synchronize();
  EXPECT_EQ(pool.active(), 0u);
  EXPECT_GT(pool.stats().driver.host_wait.count, 0u);
}

TEST_P(BusyStreams, OfABlockItselfDoNotKeepItFromBeingReusedThere) {
  PoolUnderTest pool(config());
  free_busy_block(pool, home_, kBlock);
  EXPECT_EQ(pool.active(), 0u);
  const gpupool_ptr_t next = pool.malloc(kBlock, home_);
  work(home_, next, kBlock);
  EXPECT_EQ(pool.reserved(), pool.stats().all.reserved_bytes.peak);
  EXPECT_LT(pool.reserved(), 2 * kBlock);
  pool.free(next, home_);
  EXPECT_EQ(pool.stats().driver.host_wait.count, 0u);
  finish(home_);
}

TEST_P(BusyStreams, AreLeftAloneWhereThereIsRoom) {
  PoolUnderTest pool(config());
  const gpupool_ptr_t block = pool.malloc(kBlock, home_);
  work(home_, block, kBlock);
  pool.free(block, home_);
  const gpupool_ptr_t elsewhere = pool.malloc(kBlock, other_);
  EXPECT_GE(pool.reserved(), 2 * kBlock);
  const gpupool_stats_t stats = pool.stats();
  EXPECT_EQ(stats.stream_steals, 0u);
  EXPECT_EQ(stats.driver.stream_wait.count, 0u);
  EXPECT_EQ(stats.driver.host_wait.count, 0u);
  pool.free(elsewhere, other_);
  finish(home_);
}

TEST_P(BusyStreams, MayBeReleased) {
  PoolUnderTest pool(config());
  const gpupool_ptr_t live = pool.malloc(kBlock, other_);
  const gpupool_ptr_t freed = pool.malloc(kBlock, home_);
  work(other_, freed, kBlock);
  pool.free(freed, other_);
  EXPECT_TRUE(ok(gpupool_release_stream(pool, other_)));
  EXPECT_EQ(pool.active(), 2 * kBlock);
  EXPECT_EQ(pool.stats().driver.host_wait.count, 0u);
  finish(other_);
  EXPECT_EQ(pool.active(), kBlock);
  destroy_stream(other_);
  EXPECT_EQ(pool.info(live).address, live);
  pool.free(live, other_);
  EXPECT_EQ(pool.empty(), pool.stats().all.reserved_bytes.peak);
  EXPECT_EQ(pool.reserved(), 0u);
}

// ---- streams that are not busy, on a real GPU too

class IdleStreams : public Contract {};
INSTANTIATE_TEST_SUITE_P(On, IdleStreams, testing::ValuesIn(all_variants()), name_of);

TEST_P(IdleStreams, CanBeReleasedAndTheirBlocksFreed) {
  PoolUnderTest pool(config_with_limit(kBlock + 8 * kMiB));
  const gpupool_stream_t first = new_stream();
  const gpupool_stream_t second = new_stream();
  EXPECT_TRUE(ok(gpupool_release_stream(pool, first)));  // not seen: no error
  EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_release_stream(pool, kUnknownStream)));
  const gpupool_ptr_t small = pool.malloc(1000, first);
  pool.free(pool.malloc(kBlock, first), first);
  EXPECT_EQ(pool.stats().streams, 1u);
  EXPECT_TRUE(ok(gpupool_release_stream(pool, first)));
  EXPECT_EQ(pool.stats().streams, 0u);
  destroy_stream(first);

  // Its free memory serves another stream: the limit has no room for both.
  const gpupool_ptr_t block = pool.malloc(kBlock, second);
  EXPECT_EQ(pool.info(small).stream, GPUPOOL_STREAM_UNKNOWN) << "the number may be another stream's";
  pool.free(small, first);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, gpupool_free(pool, small, first)));
  pool.free(block, second);
  EXPECT_EQ(pool.stats().streams, 1u);
  // The number may be a new stream's by now, of which the pool has not been told.
  EXPECT_EQ(pool.active(), 1024u);
  pool.synchronize();
  EXPECT_EQ(pool.active(), 0u);
  pool.empty();
  EXPECT_EQ(pool.reserved(), 0u);
}

TEST_P(IdleStreams, MayGetTheNumberOfOneThatWasReleased) {
  PoolUnderTest pool(config());
  const gpupool_stream_t stream = new_stream();
  const gpupool_ptr_t old_small = pool.malloc(1000, stream);
  const gpupool_ptr_t old_large = pool.malloc(kBlock, stream);
  pool.free(pool.malloc(5000, stream), stream);
  EXPECT_TRUE(ok(gpupool_release_stream(pool, stream)));

  // As if the driver had given the number out again.
  const gpupool_ptr_t block = pool.malloc(kBlock, stream);
  EXPECT_EQ(pool.stats().streams, 1u);
  pool.free(old_small, stream);
  pool.free(old_large, stream);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, gpupool_free(pool, old_large, stream)));
  // Its work is done, so that the new one may have its memory.
  const uint64_t reserved = pool.reserved();
  pool.free(pool.malloc(1000, stream), stream);
  pool.free(pool.malloc(kBlock, stream), stream);
  EXPECT_EQ(pool.reserved(), reserved);
  pool.free(block, stream);
  pool.synchronize();
  EXPECT_EQ(pool.active(), 0u);
  pool.validate();
}

TEST_P(IdleStreams, GetEachOthersMemory) {
  PoolUnderTest pool(config());
  const gpupool_stream_t first = new_stream();
  const gpupool_stream_t second = new_stream();
  // Only a stream that knows of another leaves events behind.
  pool.free(pool.malloc(512, second), second);
  pool.free(pool.malloc(kBlock, first), first);
  EXPECT_TRUE(ok(gpupool_stream_synchronize(pool, first)));
  const uint64_t reserved = pool.reserved();
  for (int i = 0; i < 4; ++i) {
    const gpupool_stream_t stream = i % 2 == 0 ? second : first;
    const gpupool_ptr_t block = pool.malloc(kBlock, stream);
    EXPECT_EQ(pool.info(block).stream, stream);
    EXPECT_LE(pool.reserved(), reserved);
    pool.free(block, stream);
  }
  const gpupool_stats_t stats = pool.stats();
  EXPECT_GT(stats.stream_steals, 0u);
  EXPECT_GE(stats.steals, stats.stream_steals);
  EXPECT_EQ(stats.driver.stream_wait.count, 0u);
  EXPECT_EQ(stats.driver.host_wait.count, 0u);
}

}  // namespace
}  // namespace pool_test
