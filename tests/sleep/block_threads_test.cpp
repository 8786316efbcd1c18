// SPDX-License-Identifier: Apache-2.0
// Threads whose blocks sleep and wake in one pool, beside others that allocate, free and look.
#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "block_fixture.hpp"

namespace sleep_test {
namespace {

// Each thread's bytes stay as they were, whatever the others do; a block may be freed by another thread while
// it falls asleep or wakes.
TEST_F(Sleep, BlocksOfManyThreadsSleepAndWake) {
  PoolUnderTest pool(small_chunks());
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (gpupool_stream_t thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&, thread] {
      std::mt19937_64 random(thread);
      for (uint64_t i = 0; i < 20; ++i) {
        const gpupool_stream_t stream = 3 + thread;
        const uint64_t size = kMiB + random() % (4 * kMiB);
        const gpupool_ptr_t block = pool.malloc(size, stream);
        write_pattern(block, size, thread * 1000 + i);
        EXPECT_TRUE(ok(gpupool_sleep_block(pool, block, nullptr, nullptr)));
        if (random() % 3 == 0) {
          pool.free(block, stream);
          continue;
        }
        EXPECT_TRUE(ok(gpupool_wake_block(pool, block, nullptr, nullptr)));
        EXPECT_TRUE(has_pattern(block, size, thread * 1000 + i));
        if (random() % 3 != 0) {
          pool.free(block, stream);
          continue;
        }
        std::thread other([&] {
          const gpupool_status_t status = gpupool_sleep_block(pool, block, nullptr, nullptr);
          EXPECT_TRUE(status == GPUPOOL_SUCCESS || status == GPUPOOL_ERROR_UNKNOWN_POINTER) << last_message();
        });
        pool.free(block, stream);
        other.join();
      }
    });
  }
  threads.emplace_back([&] {
    while (!over.load()) {
      pool.validate();
      pool.stats();
      EXPECT_TRUE(ok(gpupool_trim(pool, 4 * kMiB, nullptr)));
      const gpupool_ptr_t block = pool.malloc(3 * kMiB, 9);
      EXPECT_TRUE(ok(gpupool_record_stream(pool, block, 3)));
      pool.free(block, 9);
      std::this_thread::sleep_for(
          std::chrono::milliseconds(1));  // or it would have the lock most of the time
    }
  });
  for (size_t i = 0; i < 3; ++i) threads[i].join();
  over = true;
  threads[3].join();
  EXPECT_TRUE(ok(gpupool_synchronize(pool)));
  EXPECT_EQ(pool.stats().asleep_bytes, 0u);
  EXPECT_EQ(pool.allocated(), 0u);
  pool.validate();
}

}  // namespace
}  // namespace sleep_test
