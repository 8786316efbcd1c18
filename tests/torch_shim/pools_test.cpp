// SPDX-License-Identifier: Apache-2.0
// Pools of graphs and torch.cuda.MemPool: what they keep, when they give it back, and where it comes from.
#include "pytorch.hpp"

namespace {

TEST_F(PyTorch, AGraphsMemoryStaysMappedWhileTheGraphLives) {
  const Id id{1, 0};
  fake_cuda().begin_capture(number(main), 0);
  begin(id);
  void* one = torch->raw_alloc(4 * kMiB);
  torch->raw_delete(one);
  void* two = torch->raw_alloc(8 * kMiB);
  torch->raw_delete(two);
  ASSERT_TRUE(fake_cuda().end_capture(number(main)));
  torch->endAllocateToPool(0, id);
  torch->emptyCache();
  void* other = torch->raw_alloc(40 * kMiB);
  torch->setMemoryFraction(0.5, 0);
  EXPECT_THROW(torch->raw_alloc(size_t{7} << 30), c10::OutOfMemoryError);
  EXPECT_TRUE(is_usable(0, one, 4 * kMiB, main));
  EXPECT_TRUE(is_usable(0, two, 8 * kMiB, main));
  const int64_t kept = reserved();
  const int waits = stand_in::device_waits();
  torch->releasePool(0, id);
  EXPECT_EQ(stand_in::device_waits(), waits + 1);  // the graph may still run
  torch->emptyCache();
  EXPECT_LT(reserved(), kept);
  EXPECT_FALSE(is_usable(0, one, 4 * kMiB, main));
  torch->raw_delete(other);
}

TEST_F(PyTorch, AGraphThatIsDeletedWhileAnotherIsCapturedIsGivenBackLater) {
  begin({1, 0});
  torch->raw_delete(torch->raw_alloc(4 * kMiB));
  torch->endAllocateToPool(0, {1, 0});
  fake_cuda().begin_capture(number(main), 0);
  begin({2, 0});
  const int waits = stand_in::device_waits();
  torch->releasePool(0, {1, 0});
  void* inside = torch->raw_alloc(4 * kMiB);
  EXPECT_EQ(stand_in::device_waits(), waits);
  EXPECT_EQ(torch->snapshot({1, 0}).segments.size(), 1u);
  EXPECT_TRUE(fake_cuda().end_capture(number(main)));  // nothing has disturbed it
  torch->endAllocateToPool(0, {2, 0});
  EXPECT_EQ(torch->snapshot({1, 0}).segments.size(), 0u);
  EXPECT_EQ(torch->snapshot({2, 0}).segments.size(), 1u);
  torch->raw_delete(inside);
}

TEST_F(PyTorch, WhereTheDeviceCannotBeWaitedForAGraphsMemoryStays) {
  begin({1, 0});
  void* one = torch->raw_alloc(4 * kMiB);
  torch->raw_delete(one);
  torch->endAllocateToPool(0, {1, 0});
  fake_cuda().fail("cuStreamSynchronize", 0, 4);  // the driver is going
  torch->releasePool(0, {1, 0});
  EXPECT_TRUE(is_usable(0, one, 4 * kMiB, main));
  fake_cuda().reset();
  torch->emptyCache();
  EXPECT_FALSE(is_usable(0, one, 4 * kMiB, main));
}

TEST_F(PyTorch, AMemPoolCountsItsUsersAndIsEmptyAfterThem) {
  const Id id{0, 5};
  torch->createOrIncrefPool(0, id);
  EXPECT_EQ(torch->getPoolUseCount(0, id), 1);
  begin(id, side);
  EXPECT_EQ(torch->getPoolUseCount(0, id), 2);
  EXPECT_EQ(torch->snapshot(id).segments.size(), 0u);
  void* outside = torch->raw_alloc(kMiB);
  void* inside = torch->raw_alloc_with_stream(kMiB, side);
  torch->endAllocateToPool(0, id);
  torch->releasePool(0, id);
  EXPECT_EQ(torch->getPoolUseCount(0, id), 1);
  torch->emptyCache(id);
  EXPECT_EQ(torch->snapshot(id).segments.size(), 1u);
  torch->raw_delete(inside);
  torch->releasePool(0, id);
  EXPECT_EQ(torch->getPoolUseCount(0, id), 0);
  EXPECT_EQ(torch->snapshot(id).segments.size(), 0u);
  torch->raw_delete(outside);
  torch->emptyCache();
  EXPECT_EQ(torch->snapshot().segments.size(), 0u);
}

TEST_F(PyTorch, TheLiveBlocksOfAGraphsPoolAreExactlyTheseOrNot) {
  const Id id{0, 8};
  void* outside = torch->raw_alloc(16);
  fake_cuda().begin_capture(number(side), 0);
  begin(id, side);
  void* inside = torch->raw_alloc_with_stream(16, side);
  torch->raw_delete(torch->raw_alloc_with_stream(kMiB, side));
  EXPECT_TRUE(fake_cuda().end_capture(number(side)));
  torch->endAllocateToPool(0, id);
  EXPECT_TRUE(torch->checkPoolLiveAllocations(0, id, {inside}));
  EXPECT_FALSE(torch->checkPoolLiveAllocations(0, id, {inside, nullptr}));
  EXPECT_FALSE(torch->checkPoolLiveAllocations(0, id, {outside}));
  EXPECT_FALSE(torch->checkPoolLiveAllocations(0, id, {}));
  torch->raw_delete(inside);
  EXPECT_TRUE(torch->checkPoolLiveAllocations(0, id, {}));
  EXPECT_THROW(torch->checkPoolLiveAllocations(0, {0, 9}, {}), c10::Error);
  torch->releasePool(0, id);
  EXPECT_THROW(torch->checkPoolLiveAllocations(0, id, {}), c10::Error);
  torch->raw_delete(outside);
}

TEST_F(PyTorch, AMemPoolMayHaveAnAllocatorOfItsOwn) {
  const Id id{0, 6};
  auto own = std::make_shared<stand_in::OtherAllocator>();
  torch->createOrIncrefPool(0, id, own);
  begin(id);
  void* blocks[] = {torch->raw_alloc(kMiB), torch->raw_alloc(kMiB), torch->raw_alloc(kMiB),
                    torch->raw_alloc(30 * kMiB)};
  torch->endAllocateToPool(0, id);
  torch->releasePool(0, id);
  EXPECT_EQ(stand_in::driver_bytes(), 34 * kMiB);  // two of the small ones share a segment
  EXPECT_EQ(torch->snapshot(id).segments.size(), 3u);
  EXPECT_EQ(reserved(), static_cast<int64_t>(34 * kMiB));
  EXPECT_EQ(allocated(), static_cast<int64_t>(33 * kMiB));
  EXPECT_EQ(own.use_count() > 1, true);
  torch->releasePool(0, id);  // the MemPool is gone, its tensors live on
  for (void* block : blocks) torch->raw_delete(block);
  torch->emptyCache();
  EXPECT_EQ(stand_in::driver_bytes(), 0u);
  EXPECT_EQ(reserved(), 0);
  EXPECT_EQ(own.use_count(), 1);
}

TEST_F(PyTorch, AMemPoolMayLendInAShortage) {
  const Id id{0, 7};
  torch->createOrIncrefPool(0, id);
  begin(id);
  void* inside = torch->raw_alloc(512 * kMiB);
  torch->endAllocateToPool(0, id);
  torch->releasePool(0, id);
  torch->raw_delete(inside);
  torch->setMemoryFraction(600.0 / 8192, 0);
  EXPECT_THROW(torch->raw_alloc(400 * kMiB), c10::OutOfMemoryError);
  torch->setUseOnOOM(0, id, true);
  void* lent = torch->raw_alloc(400 * kMiB);
  EXPECT_EQ(lent, inside);
  torch->raw_delete(lent);
  torch->setUseOnOOM(0, id, false);
  EXPECT_THROW(torch->raw_alloc(400 * kMiB), c10::OutOfMemoryError);
}

}  // namespace
