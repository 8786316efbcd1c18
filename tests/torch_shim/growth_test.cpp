// SPDX-License-Identifier: Apache-2.0
// How much memory a pool of graphs takes: what its captures need at a time, and not what each size needs
// once.
#include "pytorch.hpp"

namespace {

class Growth : public PyTorch {
 protected:
  static constexpr Id kId{1, 0};

  /// What a capture allocates, one block after the other, and frees.
  void capture(const std::vector<size_t>& sizes) {
    begin(kId);
    fake_cuda().begin_capture(number(main), 0);
    std::vector<void*> blocks;
    for (const size_t size : sizes) {
      blocks.push_back(torch->raw_alloc(size));
      used.emplace_back(blocks.back(), size);
    }
    for (void* block : blocks) torch->raw_delete(block);
    ASSERT_TRUE(fake_cuda().end_capture(number(main)));
    torch->endAllocateToPool(0, kId);
  }
  /// Each capture of a graph counts as a user.
  void release(Id id) {
    while (torch->getPoolUseCount(0, id) > 0) torch->releasePool(0, id);
  }
  int64_t peak() { return torch->getDeviceStats(0).allocated_bytes[0].peak; }
  static int64_t bytes(size_t mib) { return static_cast<int64_t>(mib * kMiB); }

  std::vector<std::pair<void*, size_t>> used;
};

/// As a compiled program does with inputs of growing size. With segments here and there, this took 642 MiB.
TEST_F(Growth, EachSizeTakesOnlyWhatTheOnesBeforeLack) {
  for (const size_t mib : {20, 26, 32, 38, 44, 50}) capture({mib * kMiB, mib * kMiB, mib * kMiB});
  EXPECT_EQ(reserved(), bytes(150));
  for (const auto& [ptr, size] : used) EXPECT_TRUE(is_usable(0, ptr, size, main));
  release(kId);
}

/// Idle memory of eager work is moved there, and counts once.
TEST_F(Growth, TakesWhatEagerWorkHasFreed) {
  gpupool_t* pool = nullptr;
  ASSERT_EQ(gpupool_default_pool(0, &pool), GPUPOOL_SUCCESS);
  torch->raw_delete(torch->raw_alloc_with_stream(100 * kMiB, side));
  ASSERT_EQ(gpupool_release_stream(pool, number(side)), GPUPOOL_SUCCESS);
  ASSERT_EQ(gpupool_synchronize(pool), GPUPOOL_SUCCESS);  // in captures, nobody asks how far streams are
  for (const size_t mib : {40, 60, 80, 100}) capture({mib * kMiB});
  EXPECT_EQ(reserved(), bytes(100));
  torch->raw_delete(torch->raw_alloc(100 * kMiB));
  EXPECT_EQ(reserved(), bytes(200)) << "what a graph may use serves nobody else";
  release(kId);
  torch->raw_delete(torch->raw_alloc(200 * kMiB));
  EXPECT_EQ(reserved(), bytes(200)) << "what it gave back does";
}

/// Two pools that grow in turn do not stand in each other's way; nor do small blocks, and streams.
TEST_F(Growth, PoolsGrowBesideEachOther) {
  for (const size_t mib : {20, 30, 40}) {
    for (const Id& id : {Id{1, 0}, Id{2, 0}}) {
      begin(id);
      for (cudaStream_t stream : {main, side}) {
        void* large = torch->raw_alloc_with_stream(mib * kMiB, stream);
        void* small = torch->raw_alloc_with_stream(mib << 10, stream);
        torch->raw_delete(large);
        torch->raw_delete(small);
      }
      torch->endAllocateToPool(0, id);
    }
  }
  EXPECT_EQ(reserved(), bytes(4 * (40 + 2)));
  for (const Id& id : {Id{1, 0}, Id{2, 0}}) release(id);
  torch->emptyCache();
  EXPECT_EQ(reserved(), 0);
}

/// Segments lie one behind the other, so that tools see one; each goes back by itself.
TEST_F(Growth, WhatNoTensorIsInGoesBackWithTheGraph) {
  begin(kId);
  void* first = torch->raw_alloc(20 * kMiB);
  void* second = torch->raw_alloc(30 * kMiB);
  void* third = torch->raw_alloc(40 * kMiB);
  EXPECT_EQ(torch->snapshot(kId).segments.size(), 1u);
  EXPECT_EQ(torch->snapshot(kId).segments.at(0).total_size, 90 * kMiB);
  EXPECT_EQ(torch->snapshot(kId).segments.at(0).blocks.size(), 3u);
  torch->endAllocateToPool(0, kId);
  torch->raw_delete(first);
  torch->raw_delete(third);
  release(kId);
  torch->emptyCache();
  EXPECT_EQ(reserved(), bytes(30));
  EXPECT_TRUE(is_usable(0, second, 30 * kMiB, main));
  EXPECT_FALSE(is_usable(0, first, 20 * kMiB, main));
  torch->raw_delete(second);
  torch->emptyCache();
  EXPECT_EQ(reserved(), 0);
  EXPECT_EQ(torch->snapshot().segments.size(), 0u);
}

/// NCCL registers each segment of a MemPool by itself, and a buffer that lies in two is in neither.
TEST_F(Growth, AMemPoolsSegmentsStayApart) {
  const Id id{0, 5};
  torch->createOrIncrefPool(0, id);
  begin(id);
  torch->raw_delete(torch->raw_alloc(20 * kMiB));
  void* block = torch->raw_alloc(30 * kMiB);
  EXPECT_EQ(torch->snapshot(id).segments.size(), 2u);
  torch->raw_delete(block);
  torch->endAllocateToPool(0, id);
  torch->releasePool(0, id);
  torch->releasePool(0, id);
}

TEST_F(Growth, ACheckpointMayLieAcrossSegments) {
  begin(kId);
  torch->raw_delete(torch->raw_alloc(20 * kMiB));
  void* across = torch->raw_alloc(50 * kMiB);
  const auto state = torch->getCheckpointState(0, kId);
  torch->raw_delete(across);
  void* other = torch->raw_alloc(70 * kMiB);
  EXPECT_EQ(other, across);
  torch->endAllocateToPool(0, kId);
  const auto delta = torch->setCheckpointPoolState(0, state);
  EXPECT_EQ(delta.ptrs_freed.size(), 1u);
  EXPECT_TRUE(torch->checkPoolLiveAllocations(0, kId, {across}));
  EXPECT_EQ(allocated(), bytes(50));
  EXPECT_EQ(reserved(), bytes(70));
  EXPECT_THROW(torch->shareIpcHandle(across), c10::Error) << "a part of it could be sent, and is not";
}

TEST_F(Growth, AShortageIsOneAndLeavesWhatThereWas) {
  capture({20 * kMiB});
  torch->setMemoryFraction(100.0 / 8192, 0);
  begin(kId);
  EXPECT_THROW(torch->raw_alloc(101 * kMiB), c10::OutOfMemoryError);
  EXPECT_EQ(reserved(), bytes(20));
  void* all = torch->raw_alloc(100 * kMiB);
  EXPECT_EQ(all, used.at(0).first);
  torch->raw_delete(all);
  torch->endAllocateToPool(0, kId);
  release(kId);
}

// ---- what statistics count

TEST_F(Growth, PeaksCountBlocksAndNotSegments) {
  void* outside = torch->raw_alloc(10 * kMiB);
  capture({60 * kMiB, 40 * kMiB});
  EXPECT_EQ(peak(), bytes(110));
  EXPECT_EQ(allocated(), bytes(10));
  torch->resetPeakStats(0);
  EXPECT_EQ(peak(), bytes(10));
  void* more = torch->raw_alloc(50 * kMiB);  // beside 100 MiB of a graph that are free
  EXPECT_EQ(peak(), bytes(60));
  torch->raw_delete(more);
  capture({30 * kMiB});
  EXPECT_EQ(peak(), bytes(60));
  EXPECT_EQ(torch->getDeviceStats(0).active_bytes[0].peak, bytes(60));
  EXPECT_EQ(torch->getDeviceStats(0).requested_bytes[0].peak, bytes(60));
  const auto stats = torch->getDeviceStats(0);
  EXPECT_EQ(stats.allocation[0].allocated, 5);
  EXPECT_EQ(stats.allocation[0].freed, 4);
  EXPECT_EQ(stats.allocation[0].current, 1);
  EXPECT_EQ(stats.allocated_bytes[0].allocated, bytes(10 + 60 + 40 + 50 + 30));
  release(kId);
  EXPECT_EQ(peak(), bytes(60)) << "what goes back was not live";
  EXPECT_EQ(allocated(), bytes(10));
  torch->raw_delete(outside);
  EXPECT_EQ(allocated(), 0);
  EXPECT_EQ(torch->getDeviceStats(0).allocation[0].freed, 5);
}

TEST_F(Growth, SmallBlocksCountAsSmall) {
  using c10::CachingAllocator::StatType;
  begin(kId);
  void* blocks[] = {torch->raw_alloc(1000), torch->raw_alloc(4 * kMiB)};
  const auto stats = torch->getDeviceStats(0);
  const auto small = static_cast<size_t>(StatType::SMALL_POOL);
  const auto large = static_cast<size_t>(StatType::LARGE_POOL);
  EXPECT_EQ(stats.allocated_bytes[small].current, 1024);
  EXPECT_EQ(stats.requested_bytes[small].current, 1000);
  EXPECT_EQ(stats.allocated_bytes[large].current, bytes(4));
  EXPECT_EQ(stats.reserved_bytes[small].current, bytes(2));
  EXPECT_EQ(stats.reserved_bytes[large].current, bytes(4));
  for (void* block : blocks) torch->raw_delete(block);
  torch->endAllocateToPool(0, kId);
  release(kId);
}

}  // namespace
