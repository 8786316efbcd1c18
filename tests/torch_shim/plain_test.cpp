// SPDX-License-Identifier: Apache-2.0
// The functions for PyTorch's pluggable allocator, on two devices.
#include <gpupool/torch.h>

#include "pytorch.hpp"

namespace {

class Plain : public PyTorch {
 protected:
  void SetUp() override {
    main = new_stream(0);
    theirs = new_stream(1);
    stand_in::set_current_stream(main);
  }
  void* alloc(size_t size, int device) {
    return gpupool_torch_alloc(size, device, device == 0 ? main : theirs);
  }

  cudaStream_t theirs = nullptr;
};

const gpupool_torch_mempool_t kPool{3, 0};

TEST_F(Plain, OneDeviceAloneIsOpenToNobody) {
  EXPECT_FALSE(is_usable(1, alloc(3 * kMiB, 0), 3 * kMiB, theirs));
}

TEST_F(Plain, DevicesThatAreUsedMayUseEachOthersMemory) {
  void* before = alloc(3 * kMiB, 0);
  gpupool_torch_begin_allocate_to_pool(0, kPool, nullptr);
  void* graph = alloc(3 * kMiB, 0);
  gpupool_torch_end_allocate_to_pool(0, kPool);
  void* other = alloc(3 * kMiB, 1);
  EXPECT_TRUE(is_usable(1, before, 3 * kMiB, theirs));
  EXPECT_TRUE(is_usable(1, graph, 3 * kMiB, theirs));
  EXPECT_TRUE(is_usable(1, alloc(300 * kMiB, 0), 300 * kMiB, theirs));
  EXPECT_TRUE(is_usable(0, other, 3 * kMiB, main));
  gpupool_torch_begin_allocate_to_pool(1, kPool, nullptr);
  EXPECT_TRUE(is_usable(0, alloc(3 * kMiB, 1), 3 * kMiB, main));
  gpupool_torch_end_allocate_to_pool(1, kPool);
}

TEST_F(Plain, ACaptureIsAnnouncedToTheDevicesPool) {
  gpupool_torch_begin_allocate_to_pool(0, kPool, nullptr);
  gpupool_t* pool = nullptr;
  ASSERT_EQ(gpupool_default_pool(0, &pool), GPUPOOL_SUCCESS);
  EXPECT_EQ(gpupool_announce_capture(pool, 0), GPUPOOL_SUCCESS) << "one was open";
  EXPECT_EQ(gpupool_announce_capture(pool, 1), GPUPOOL_SUCCESS);
  gpupool_torch_end_allocate_to_pool(0, kPool);
  EXPECT_EQ(gpupool_announce_capture(pool, 0), GPUPOOL_ERROR_INVALID_ARGUMENT);
}

TEST_F(Plain, DevicesThatCannotReachEachOtherAreServedAsWell) {
  fake_cuda().set_peer_access(0, 1, 0);
  fake_cuda().set_peer_access(1, 0, 0);
  EXPECT_NE(alloc(3 * kMiB, 0), nullptr);
  EXPECT_NE(alloc(3 * kMiB, 1), nullptr);
}

TEST_F(Plain, APoolEndsAfterTheCaptureThatIsUnderWay) {
  gpupool_torch_begin_allocate_to_pool(0, kPool, nullptr);
  void* one = alloc(3 * kMiB, 0);
  gpupool_torch_free(one, 0, 0, main);
  gpupool_torch_end_allocate_to_pool(0, kPool);
  gpupool_torch_begin_allocate_to_pool(0, {4, 0}, nullptr);
  fake_cuda().begin_capture(number(main), 0);
  gpupool_torch_release_pool(0, kPool);
  EXPECT_EQ(gpupool_torch_pool_use_count(0, kPool), 0);
  EXPECT_EQ(gpupool_torch_pools(0, nullptr, nullptr, 0), 3u);
  EXPECT_TRUE(is_usable(0, one, 3 * kMiB, new_stream(0)));
  const uint64_t chunks = fake_cuda().live().chunks;
  ASSERT_TRUE(fake_cuda().end_capture(number(main)));
  gpupool_torch_end_allocate_to_pool(0, {4, 0});
  EXPECT_EQ(gpupool_torch_pools(0, nullptr, nullptr, 0), 2u);
  EXPECT_LT(fake_cuda().live().chunks, chunks);
}

TEST_F(Plain, AGraphThatStillRunsKeepsItsPool) {
  gpupool_torch_begin_allocate_to_pool(0, kPool, nullptr);
  void* one = alloc(3 * kMiB, 0);
  gpupool_torch_free(one, 0, 0, main);
  gpupool_torch_end_allocate_to_pool(0, kPool);
  // The graph runs on a stream that its own pool does not know.
  cudaStream_t other = new_stream(0);
  gpupool_torch_free(gpupool_torch_alloc(100, 0, other), 0, 0, other);
  fake_cuda().hold(number(other));
  ASSERT_TRUE(is_usable(0, one, 3 * kMiB, other));
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    fake_cuda().release(number(other));
  });
  gpupool_torch_release_pool(0, kPool);
  later.join();
  EXPECT_EQ(fake_cuda().faults(), 0u);
}

}  // namespace
