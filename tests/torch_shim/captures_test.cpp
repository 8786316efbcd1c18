// SPDX-License-Identifier: Apache-2.0
// Captures are announced to the device's pool from before they begin until they have ended, however they end.
#include "captures.hpp"

#include <stdexcept>
#include <utility>

#include "pytorch.hpp"

namespace {

class Announced : public PyTorch {
 protected:
  static gpupool_t* pool(int device = 0) {
    gpupool_t* pool = nullptr;
    EXPECT_EQ(gpupool_default_pool(device, &pool), GPUPOOL_SUCCESS);
    return pool;
  }
  /// How many captures are announced to a pool.
  static int count(gpupool_t* pool) {
    int count = 0;
    while (gpupool_announce_capture(pool, 0) == GPUPOOL_SUCCESS) ++count;
    for (int i = 0; i < count; ++i) EXPECT_EQ(gpupool_announce_capture(pool, 1), GPUPOOL_SUCCESS);
    return count;
  }
  /// How many events it leaves that another thread frees on two streams.
  uint64_t events_of_frees() {
    void* blocks[] = {torch->raw_alloc(200 * kMiB), torch->raw_alloc_with_stream(200 * kMiB, side)};
    const uint64_t before = fake_cuda().calls("cuEventRecord");
    std::thread([&] {
      for (void* block : blocks) torch->raw_delete(block);
    }).join();
    return fake_cuda().calls("cuEventRecord") - before;
  }
  /// What PyTorch does for a capture on a stream.
  void capture(Id id, bool fails) {
    torch->beginAllocateToPool(0, id, [](cudaStream_t) { return false; });
    EXPECT_EQ(count(pool()), 1);
    EXPECT_EQ(events_of_frees(), 0u);
    if (!fails) fake_cuda().begin_capture(number(main), 0);
    EXPECT_EQ(count(pool()), 1);
    if (!fails) {
      EXPECT_TRUE(fake_cuda().end_capture(number(main)));
    }
    torch->endAllocateToPool(0, id);
  }
};

TEST_F(Announced, FreesOfAnyThreadLeaveNoEvents) {
  (void)events_of_frees();  // the pool knows both streams
  EXPECT_GT(events_of_frees(), 0u);
  capture({1, 0}, false);
  EXPECT_EQ(count(pool()), 0);
  EXPECT_GT(events_of_frees(), 0u);
}

TEST_F(Announced, ACaptureThatFailsToBeginIsWithdrawn) {
  (void)events_of_frees();
  capture({1, 0}, true);
  EXPECT_EQ(count(pool()), 0);
  EXPECT_GT(events_of_frees(), 0u);
}

TEST_F(Announced, EachIsCountedOnItsDevice) {
  const auto all = [](cudaStream_t) { return true; };
  torch->beginAllocateToPool(1, {1, 0}, all);  // the first use of the device
  EXPECT_EQ(count(pool(1)), 1);
  EXPECT_EQ(count(pool(0)), 0);
  torch->beginAllocateToPool(1, {2, 0}, all);
  torch->beginAllocateToPool(0, {3, 0}, all);
  EXPECT_EQ(count(pool(1)), 2);
  EXPECT_EQ(count(pool(0)), 1);
  torch->endAllocateToPool(1, {1, 0});
  torch->endAllocateToPool(1, {1, 0});  // it has ended already
  torch->endAllocateToPool(0, {9, 9});  // and this has never begun
  EXPECT_EQ(count(pool(1)), 1);
  EXPECT_EQ(count(pool(0)), 1);
  torch->endAllocateToPool(1, {2, 0});
  torch->endAllocateToPool(0, {3, 0});
  EXPECT_EQ(count(pool(1)), 0);
  EXPECT_EQ(count(pool(0)), 0);
}

TEST_F(Announced, WhatPyTorchMarksIsToo) {
  (void)events_of_frees();
  torch->markCaptureBegin(0);
  EXPECT_EQ(count(pool()), 1);
  EXPECT_EQ(events_of_frees(), 0u);
  torch->markCaptureEnd(1);
  EXPECT_EQ(count(pool()), 1);
  torch->markCaptureEnd(0);
  torch->markCaptureEnd(0);
  EXPECT_EQ(count(pool()), 0);
}

TEST_F(Announced, AnExceptionWithdrawsIt) {
  using gpupool_torch::Announcement;
  try {
    Announcement first(pool());
    Announcement moved(std::move(first));
    Announcement assigned(pool());
    assigned = std::move(moved);
    EXPECT_EQ(count(pool()), 2);
    throw std::runtime_error("the host has no memory");
  } catch (const std::runtime_error&) {
    EXPECT_EQ(count(pool()), 0);
  }
  const Announcement none(nullptr);
}

}  // namespace
