// SPDX-License-Identifier: Apache-2.0
// Sleep through the CUDA backend, on the stand-in driver.
#include <algorithm>
#include <atomic>
#include <thread>

#include "fake_cuda/fake_cuda.hpp"
#include "pool/variants.hpp"
#include "sleep_fixture.hpp"

namespace sleep_test {
namespace {

class SleepOnCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_not(Machine::stand_in); !why.empty()) GTEST_SKIP() << why;
  }

  static gpupool_config_t cuda_config() {
    gpupool_config_t config = empty_config();
    config.backend = GPUPOOL_BACKEND_CUDA;
    config.mode = GPUPOOL_MODE_VMM;
    return config;
  }

  /// Whether size bytes at a block are all `value`.
  static bool holds(PoolUnderTest& pool, gpupool_ptr_t block, uint64_t size, unsigned char value) {
    std::vector<unsigned char> bytes(size);
    EXPECT_TRUE(ok(gpupool_copy(pool, reinterpret_cast<uintptr_t>(bytes.data()), block, size, 0)));
    EXPECT_TRUE(ok(gpupool_stream_synchronize(pool, 0)));
    return std::all_of(bytes.begin(), bytes.end(), [&](unsigned char byte) { return byte == value; });
  }
};

TEST_F(SleepOnCuda, WhatWasSavedIsThereAgain) {
  const FakeCudaLive before = fake_cuda().live();
  {
    PoolUnderTest pool(cuda_config());
    const gpupool_ptr_t large = pool.malloc(9 * kMiB);
    const gpupool_ptr_t small = pool.malloc(3000);
    EXPECT_TRUE(ok(gpupool_fill(pool, large, 5, 9 * kMiB, 0)));
    EXPECT_TRUE(ok(gpupool_fill(pool, small, 6, 3000, 0)));
    for (int cycle = 0; cycle < 3; ++cycle) {
      fall_asleep(pool, GPUPOOL_SLEEP_MODE_SAVE, GPUPOOL_SLEEP_FLAG_SYNC_CONTEXT);
      EXPECT_EQ(fake_cuda().live().chunks, before.chunks);
      EXPECT_EQ(fake_cuda().live().mappings, before.mappings);
      wake(pool, cycle == 1 ? GPUPOOL_SLEEP_FLAG_RETAIN_BACKUP : 0);
      EXPECT_TRUE(holds(pool, large, 9 * kMiB, 5));
      EXPECT_TRUE(holds(pool, small, 3000, 6));
    }
    EXPECT_GT(pool.stats().backup_bytes, 0u);
    pool.free(large);
    pool.free(small);
  }
  EXPECT_EQ(fake_cuda().live().streams, before.streams);
  EXPECT_EQ(fake_cuda().live().allocations, before.allocations);
  EXPECT_EQ(fake_cuda().faults(), 0u);
}

// S9: work that is queued, on a stream that the pool has never seen, is waited for.
TEST_F(SleepOnCuda, S9_TheContextIsWaitedFor) {
  PoolUnderTest pool(cuda_config());
  const gpupool_ptr_t block = pool.malloc(4 * kMiB);
  gpupool_stream_t unknown = 0;
  ASSERT_TRUE(ok(gpupool_stream_create(pool, &unknown)));
  for (const uint32_t flags : {uint32_t{0}, uint32_t{GPUPOOL_SLEEP_FLAG_SYNC_CONTEXT}}) {
    const auto byte = static_cast<uint8_t>(8 + flags);
    fake_cuda().hold(unknown);
    ASSERT_TRUE(ok(gpupool_fill(pool, block, byte, 4 * kMiB, unknown)));
    std::atomic<bool> released{false};
    std::thread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      released = true;
      fake_cuda().release(unknown);
    });
    fall_asleep(pool, GPUPOOL_SLEEP_MODE_SAVE, flags);
    EXPECT_TRUE(released.load());
    later.join();
    wake(pool);
    EXPECT_TRUE(holds(pool, block, 4 * kMiB, byte));
  }
  EXPECT_EQ(fake_cuda().faults(), 0u);
  pool.free(block);
  EXPECT_TRUE(ok(gpupool_stream_destroy(pool, unknown)));
}

TEST_F(SleepOnCuda, FailuresOfTheDriverChangeNothing) {
  for (const char* function :
       {"cuMemHostAlloc", "cuMemcpyAsync", "cuMemUnmap", "cuStreamCreate", "cuEventRecord"}) {
    SCOPED_TRACE(function);
    PoolUnderTest pool(cuda_config());
    const gpupool_ptr_t block = pool.malloc(6 * kMiB);
    ASSERT_TRUE(ok(gpupool_fill(pool, block, 3, 6 * kMiB, 0)));
    fake_cuda().fail(function, 1, 999);
    EXPECT_NE(try_sleep(pool), GPUPOOL_SUCCESS);
    fake_cuda().reset();
    EXPECT_EQ(state_of(pool), GPUPOOL_SLEEP_STATE_AWAKE);
    EXPECT_TRUE(holds(pool, block, 6 * kMiB, 3));
    for (const char* later :
         {"cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemcpyAsync", "cuEventSynchronize"}) {
      fall_asleep(pool);
      fake_cuda().fail(later, 1, 999);
      EXPECT_NE(try_wake(pool), GPUPOOL_SUCCESS) << later;
      fake_cuda().reset();
      EXPECT_EQ(state_of(pool), GPUPOOL_SLEEP_STATE_ASLEEP);
      wake(pool);
      EXPECT_TRUE(holds(pool, block, 6 * kMiB, 3));
    }
    pool.free(block);
  }
}

// S24: a driver that gives memory back only with its addresses, which a sleeping pool keeps, has given
// nothing back, and the result says so. Nothing is lost.
TEST_F(SleepOnCuda, S24_MemoryThatComesFreeWithItsAddressesOnlyIsReported) {
  gpupool_device_info_t info{};
  info.struct_size = sizeof info;
  const auto free_bytes = [&] {
    EXPECT_TRUE(ok(gpupool_device_info(GPUPOOL_BACKEND_CUDA, 0, &info)));
    return info.free_bytes;
  };
  const uint64_t before = free_bytes();
  {
    PoolUnderTest pool(cuda_config());
    const gpupool_ptr_t block = pool.malloc(6 * kMiB);
    EXPECT_TRUE(ok(gpupool_fill(pool, block, 7, 6 * kMiB, 0)));
    EXPECT_EQ(fall_asleep(pool).retained_bytes, 0u);
    wake(pool);
    fake_cuda().keep_for_addresses(0, 1);
    const uint64_t awake = free_bytes();
    const gpupool_sleep_result_t result = fall_asleep(pool);
    EXPECT_GE(result.released_bytes, 6 * kMiB);
    EXPECT_EQ(result.retained_bytes, result.released_bytes);
    EXPECT_EQ(free_bytes(), awake);
    wake(pool);
    EXPECT_TRUE(holds(pool, block, 6 * kMiB, 7));
    pool.free(block);
  }
  EXPECT_EQ(free_bytes(), before);
  fake_cuda().reset();
}

// What the driver refuses to page-lock is the host's shortage, and named so.
TEST_F(SleepOnCuda, S39_AHostThatIsShortIsNamed) {
  PoolUnderTest pool(cuda_config());
  const gpupool_ptr_t block = pool.malloc(6 * kMiB);
  fake_cuda().fail("cuMemHostAlloc", 1, 2);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_HOST_OUT_OF_MEMORY, try_sleep(pool)));
  fake_cuda().reset();
  EXPECT_EQ(state_of(pool), GPUPOOL_SLEEP_STATE_AWAKE);
  pool.free(block);
}

}  // namespace
}  // namespace sleep_test
