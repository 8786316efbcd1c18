// SPDX-License-Identifier: Apache-2.0
// The contract of watching: snapshots and statistics tell the same story.
#include <algorithm>

#include "pool/contract.hpp"

namespace pool_test {
namespace {

class Watching : public Contract {
 protected:
  /// Everything at once: live, cached and free memory, small and large, on two streams.
  void SetUp() override {
    Contract::SetUp();
    if (IsSkipped()) return;
    streams_[0] = new_stream();
    streams_[1] = new_stream();
  }

  std::vector<gpupool_ptr_t> fill(PoolUnderTest& pool) {
    std::vector<gpupool_ptr_t> live;
    for (uint64_t i = 0; i < 60; ++i) {
      const gpupool_stream_t stream = streams_[i % 2];
      const gpupool_ptr_t block = pool.malloc(i % 3 == 0 ? 5 * kMiB + i * 1000 : 700 * i + 1, stream);
      if (i % 4 == 1) {
        pool.free(block, stream);
      } else {
        live.push_back(block);
      }
    }
    return live;
  }

  gpupool_stream_t streams_[2] = {};
};
INSTANTIATE_TEST_SUITE_P(On, Watching, testing::ValuesIn(all_variants()), name_of);

template <typename Entry>
void expect_sorted(const std::vector<Entry>& entries) {
  EXPECT_TRUE(std::is_sorted(entries.begin(), entries.end(),
                             [](const Entry& a, const Entry& b) { return a.address < b.address; }));
}

TEST_P(Watching, SnapshotAddsUpToTheStatistics) {
  PoolUnderTest pool(config());
  const std::vector<gpupool_ptr_t> live = fill(pool);
  const gpupool_stats_t stats = pool.stats();
  const Snapshot snapshot = pool.snapshot();
  expect_sorted(snapshot.segments);
  expect_sorted(snapshot.blocks);

  uint64_t reserved = 0;
  uint64_t small_reserved = 0;
  for (const gpupool_segment_t& segment : snapshot.segments) {
    reserved += segment.size_bytes;
    if (segment.is_small != 0) small_reserved += segment.size_bytes;
    EXPECT_TRUE(segment.stream == streams_[0] || segment.stream == streams_[1]);
  }
  EXPECT_EQ(reserved, stats.all.reserved_bytes.current);
  EXPECT_EQ(small_reserved, stats.small.reserved_bytes.current);
  EXPECT_EQ(snapshot.segments.size(), stats.all.chunks.current);

  uint64_t requested = 0;
  uint64_t allocated = 0;
  uint64_t cached = 0;
  std::vector<gpupool_ptr_t> found;
  for (const gpupool_block_t& block : snapshot.blocks) {
    EXPECT_EQ(block.device, kDevice);
    if (block.state == GPUPOOL_BLOCK_LIVE) {
      requested += block.requested_bytes;
      allocated += block.allocated_bytes;
      found.push_back(block.address);
      const gpupool_block_t info = pool.info(block.address);
      EXPECT_EQ(std::memcmp(&info, &block, sizeof info), 0);
    } else {
      EXPECT_EQ(block.state, GPUPOOL_BLOCK_CACHED);
      cached += block.allocated_bytes;
    }
  }
  EXPECT_EQ(requested, stats.all.requested_bytes.current);
  EXPECT_EQ(allocated, stats.all.allocated_bytes.current);
  EXPECT_EQ(cached, stats.cached_bytes);
  EXPECT_EQ(allocated + cached + stats.slack_bytes, reserved);
  std::vector<gpupool_ptr_t> expected = live;
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(found, expected);
  for (const gpupool_ptr_t block : live) pool.free(block, pool.info(block).stream);
}

TEST_P(Watching, SnapshotCountsTheBlocksThatTouchASegment) {
  PoolUnderTest pool(config());
  const std::vector<gpupool_ptr_t> live = fill(pool);
  pool.trim(pool.reserved());  // what threads keep is in the heaps now, so that only live blocks touch
  const Snapshot snapshot = pool.snapshot();
  for (const gpupool_segment_t& segment : snapshot.segments) {
    const auto touches = [&](const gpupool_block_t& block) {
      return block.state == GPUPOOL_BLOCK_LIVE && block.address < segment.address + segment.size_bytes &&
             block.address + block.allocated_bytes > segment.address;
    };
    EXPECT_EQ(segment.blocks, std::count_if(snapshot.blocks.begin(), snapshot.blocks.end(), touches));
  }
  uint64_t untouched = 0;
  for (const auto& segment : snapshot.segments) untouched += segment.blocks == 0 ? segment.size_bytes : 0;
  EXPECT_EQ(pool.stats().releasable_bytes, untouched);
  EXPECT_EQ(pool.empty(), untouched);
  for (const gpupool_ptr_t block : live) pool.free(block, pool.info(block).stream);
}

TEST_P(Watching, SnapshotWritesNoMoreThanThereIsRoomFor) {
  PoolUnderTest pool(config());
  const std::vector<gpupool_ptr_t> live = fill(pool);
  const Snapshot whole = pool.snapshot();
  gpupool_segment_t segments[2] = {};
  gpupool_block_t blocks[4] = {};
  segments[1].address = 77;
  blocks[3].address = 77;
  size_t segment_count = 0;
  size_t block_count = 0;
  EXPECT_TRUE(ok(gpupool_snapshot(pool, segments, sizeof segments[0], 1, &segment_count, blocks,
                                  sizeof blocks[0], 3, &block_count)));
  EXPECT_EQ(segment_count, whole.segments.size());
  EXPECT_EQ(block_count, whole.blocks.size());
  EXPECT_EQ(segments[0].address, whole.segments[0].address);
  EXPECT_EQ(blocks[2].address, whole.blocks[2].address);
  EXPECT_EQ(segments[1].address, 77u);
  EXPECT_EQ(blocks[3].address, 77u);
  for (const gpupool_ptr_t block : live) pool.free(block, pool.info(block).stream);
}

TEST_P(Watching, PeaksOfReservedBytesAndChunksAreReset) {
  PoolUnderTest pool(config());
  pool.free(pool.malloc(64 * kMiB));
  const uint64_t peak = pool.reserved();
  pool.empty();
  EXPECT_EQ(pool.stats().all.reserved_bytes.peak, peak);
  EXPECT_GT(pool.stats().all.chunks.peak, 0u);
  EXPECT_TRUE(ok(gpupool_reset_peaks(pool)));
  EXPECT_EQ(pool.stats().all.reserved_bytes.peak, 0u);
  EXPECT_EQ(pool.stats().all.chunks.peak, 0u);
  EXPECT_EQ(pool.stats().all.allocated_bytes.peak, 0u);
  EXPECT_EQ(pool.stats().large.active_bytes.peak, 0u);
  EXPECT_EQ(pool.stats().all.allocated_bytes.total_allocated, 64 * kMiB);
}

TEST_P(Watching, DriverCallsAreThoseOfTheMode) {
  PoolUnderTest pool(config());
  pool.free(pool.malloc(8 * kMiB));
  pool.empty();
  const gpupool_driver_stats_t calls = pool.stats().driver;
  if (variant().is_vmm()) {
    EXPECT_GT(calls.create.count, 0u);
    EXPECT_EQ(calls.create.count, calls.map.count);
    EXPECT_EQ(calls.create.count, calls.release.count);
    EXPECT_GT(calls.set_access.count, 0u);
    EXPECT_GT(calls.unmap.count, 0u);
    EXPECT_EQ(calls.malloc.count + calls.free.count, 0u);
    if (variant().machine == Machine::sim) {
      EXPECT_GT(calls.create.nanoseconds, 0u);
    }
  } else {
    EXPECT_EQ(calls.malloc.count, 1u);
    EXPECT_EQ(calls.free.count, 1u);
    EXPECT_EQ(calls.create.count + calls.map.count + calls.set_access.count + calls.unmap.count, 0u);
  }
}

}  // namespace
}  // namespace pool_test
