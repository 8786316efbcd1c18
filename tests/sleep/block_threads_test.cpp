// SPDX-License-Identifier: Apache-2.0
// Threads whose blocks sleep and wake in one pool, beside others that allocate, free and look.
#include <atomic>
#include <chrono>
#include <random>
#include <shared_mutex>
#include <thread>

#include "block_fixture.hpp"

namespace sleep_test {
namespace {

// Each thread's bytes stay as they were, whatever the others do; a block may be freed by another thread while
// it falls asleep or wakes.
TEST_F(Sleep, BlocksOfManyThreadsSleepAndWake) {
  PoolUnderTest pool(small_chunks());
  std::atomic<bool> over{false};
  // Held alone while an address may be put to sleep after its free: nobody may have a new block there by
  // then.
  std::shared_mutex mallocs;
  std::vector<std::thread> threads;
  for (gpupool_stream_t thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&, thread] {
      std::mt19937_64 random(thread);
      for (uint64_t i = 0; i < 20; ++i) {
        const gpupool_stream_t stream = 3 + thread;
        const uint64_t size = kMiB + random() % (4 * kMiB);
        gpupool_ptr_t block = 0;
        {
          const std::shared_lock lock(mallocs);
          block = pool.malloc(size, stream);
        }
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
        const std::lock_guard lock(mallocs);
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
      {
        const std::shared_lock lock(mallocs);
        const gpupool_ptr_t block = pool.malloc(3 * kMiB, 9);
        EXPECT_TRUE(ok(gpupool_record_stream(pool, block, 3)));
        pool.free(block, 9);
      }
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

// A thread asks for bytes again and again, while others allocate and free. They do not know which of their
// blocks are away, so they write into none.
TEST_F(Sleep, BytesAreGivenBackBesideThreadsThatAllocate) {
  PoolUnderTest pool(small_chunks());
  std::vector<gpupool_ptr_t> idle;
  for (uint64_t i = 0; i < 4; ++i) {
    idle.push_back(pool.malloc(4 * kMiB, 3));
    write_pattern(idle[i], 4 * kMiB, i);
  }
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&, thread] {
      std::mt19937_64 random(thread);
      std::vector<gpupool_ptr_t> own;
      while (!over.load()) {
        if (own.size() < 8 && random() % 2 == 0) {
          own.push_back(pool.malloc(kMiB + random() % (4 * kMiB), 3 + thread));
        } else if (!own.empty()) {
          pool.free(own.back(), 3 + thread);
          own.pop_back();
        }
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
      }
      for (const gpupool_ptr_t block : own) pool.free(block, 3 + thread);
    });
  }
  for (uint64_t cycle = 0; cycle < 40; ++cycle) {
    const gpupool_sleep_mode_t mode = cycle % 3 == 0 ? GPUPOOL_SLEEP_MODE_DROP : GPUPOOL_SLEEP_MODE_SAVE;
    for (const gpupool_ptr_t block : idle) EXPECT_TRUE(ok(gpupool_set_keep(pool, block, 1)));
    const gpupool_sleep_options_t how = target_options((1 + cycle % 7) * 8 * kMiB, mode);
    EXPECT_TRUE(ok(gpupool_sleep(pool, &how, nullptr)));
    pool.validate();
    EXPECT_TRUE(ok(gpupool_wake(pool, nullptr, nullptr)));
    for (uint64_t i = 0; i < 4; ++i) EXPECT_TRUE(has_pattern(idle[i], 4 * kMiB, i)) << cycle;
  }
  over = true;
  for (std::thread& each : threads) each.join();
  for (const gpupool_ptr_t block : idle) pool.free(block, 3);
  EXPECT_TRUE(ok(gpupool_synchronize(pool)));
  EXPECT_EQ(pool.stats().asleep_bytes, 0u);
  EXPECT_EQ(pool.allocated(), 0u);
}

}  // namespace
}  // namespace sleep_test
