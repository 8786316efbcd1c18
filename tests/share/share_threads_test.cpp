// SPDX-License-Identifier: Apache-2.0
// Threads of one member beside its listener: figures of a process that several threads write are exact.
#include <thread>
#include <vector>

#include "pools_fixture.hpp"

namespace gpupool::internal::share {
namespace {

/// HAMi-core: two threads of one process write one slot, and chunks are removed without a lock. Here threads
/// take and free, pools come and go, a neighbour asks all the time, and the process forks.
TEST_F(PoolsTest, P3_P9_F6_ThreadsBesideTheListener) {
  gpupool_t* const pool = make_pool({.wait_ns = kMillisecond});
  ASSERT_NE(pool, nullptr);
  File file;
  Layout* layout = nullptr;
  ASSERT_EQ(open_region(place_, false, file), kSuccess);
  ASSERT_EQ(map_region(file, layout), kSuccess);
  std::atomic<bool> ends{false};
  std::vector<std::jthread> threads;
  for (uint64_t i = 1; i <= 2; ++i) {
    threads.emplace_back([&, i] {
      for (uint64_t bytes = i * kMiB; !ends; bytes = bytes * 5 % (40 * kMiB) + i * kMiB) {
        const gpupool_ptr_t block = take(pool, bytes);
        if (block != 0) gpupool_free(pool, block, 0);
      }
    });
  }
  threads.emplace_back([&] {
    while (!ends) {
      gpupool_t* const other = make_pool({.guaranteed = 16 * kMiB, .wait_ns = kMillisecond});
      if (other != nullptr) gpupool_destroy(other);
    }
  });
  threads.emplace_back([&] {
    while (!ends) {
      Slot& slot = layout->slots[stats_of(pool).share_slot % kSlots];
      slot.asked_until.store(now_ns() + kMillisecond);
      slot.asked.store(16 * kMiB);
      ring(slot.bell);
      usleep(200);
    }
  });
  for (int i = 0; i < 10; ++i) {
    usleep(50'000);
#if !defined(__SANITIZE_THREAD__)  // which does not support threads in a child
    const pid_t child = fork();
    if (child == 0) _exit(0);
    EXPECT_EQ(end_of(child), 0);
#endif
  }
  ends = true;
  threads.clear();
  EXPECT_GT(stats_of(pool).share_given_bytes, 0U);
  EXPECT_TRUE(soon([&] { return used() == stats_of(pool).all.reserved_bytes.current; }));
  EXPECT_EQ(held_on_device(), used());
  EXPECT_EQ(gpupool_validate(pool), GPUPOOL_SUCCESS);
  EXPECT_EQ(gpupool_destroy(pool), GPUPOOL_SUCCESS);
  unmap_region(layout);
}

}  // namespace
}  // namespace gpupool::internal::share
