// SPDX-License-Identifier: Apache-2.0
// S31, S33, S44: mallocs, frees, statistics and sleeps that race; fork.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <random>
#include <thread>

#include "sleep_fixture.hpp"

namespace sleep_test {
namespace {

constexpr int kRounds = 400;

TEST_F(Sleep, S33_S44_EverythingRacesWithSleepAndWake) {
  PoolUnderTest pool(sim_config());
  ASSERT_TRUE(ok(gpupool_set_name(pool, "raced")));
  std::atomic<bool> over{false};
  std::atomic<uint64_t> refusals{0};
  std::atomic<uint64_t> served{0};
  std::vector<std::thread> threads;
  for (gpupool_stream_t stream = 1; stream <= 3; ++stream) {
    threads.emplace_back([&, stream] {
      std::vector<gpupool_ptr_t> blocks;
      for (uint64_t i = 0; !over.load(); ++i) {
        const uint64_t size = i % 7 == 0 ? 3 * kMiB : 600 + i % 5 * 4096;
        gpupool_ptr_t block = 0;
        const gpupool_status_t status = gpupool_malloc(pool, size, stream * 2 + 1, &block);
        if (status == GPUPOOL_SUCCESS) {
          blocks.push_back(block);
          ++served;
        } else {
          EXPECT_EQ(status, GPUPOOL_ERROR_ASLEEP) << last_message();
          ++refusals;
        }
        if (blocks.size() > 8 || (status != GPUPOOL_SUCCESS && !blocks.empty())) {
          EXPECT_TRUE(ok(gpupool_free(pool, blocks.front(), i % 3 == 0 ? 9 : stream * 2 + 1)));
          blocks.erase(blocks.begin());
        }
        if (!blocks.empty() && i % 11 == 0) {
          EXPECT_TRUE(ok(gpupool_record_stream(pool, blocks.back(), 9)));
        }
      }
      for (const gpupool_ptr_t block : blocks) EXPECT_TRUE(ok(gpupool_free(pool, block, kUnknownStream)));
    });
  }
  threads.emplace_back([&] {
    while (!over.load()) {
      size_t segments = 0;
      size_t blocks = 0;
      EXPECT_TRUE(ok(gpupool_snapshot(pool, nullptr, sizeof(gpupool_segment_t), 0, &segments, nullptr,
                                      sizeof(gpupool_block_t), 0, &blocks)));
      pool.stats();
      std::array<char, 4096> text{};
      size_t length = 0;
      EXPECT_TRUE(ok(gpupool_report(pool, text.data(), text.size(), &length)));
      pool.validate();
      EXPECT_TRUE(ok(gpupool_trim(pool, 4 * kMiB, nullptr)));
      EXPECT_TRUE(ok(gpupool_prepare_backup(pool, 2 * kMiB)));
      std::this_thread::yield();
    }
  });
  std::thread second([&] {
    for (int i = 0; i < kRounds; ++i) {
      if (i % 2 == 0) {
        EXPECT_TRUE(ok(gpupool_sleep_tag("raced", nullptr, nullptr)));
      } else {
        EXPECT_TRUE(ok(gpupool_wake_tag("raced", nullptr, nullptr)));
      }
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    EXPECT_TRUE(ok(try_sleep(pool, i % 2 == 0 ? GPUPOOL_SLEEP_MODE_SAVE : GPUPOOL_SLEEP_MODE_DROP)));
    EXPECT_TRUE(ok(try_wake(pool)));
    if (i % 8 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  second.join();
  EXPECT_TRUE(ok(try_wake(pool)));
  while (served.load() == 0) std::this_thread::yield();
  over = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(refusals.load(), 0u);
  EXPECT_EQ(pool.allocated(), 0u);
}

/// A malloc that misses gives the lock up while it releases what is surplus, drains caches or waits. The pool
/// may be asleep, or about to be, when it goes on.
/// Threads that allocate and free beside sleeps.
void allocate_beside_sleeps(PoolUnderTest& pool) {
  constexpr uint64_t kMinute = 60'000'000'000;
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (uint64_t number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      std::mt19937_64 random(number);
      gpupool_stream_t stream = 0;
      EXPECT_TRUE(ok(gpupool_stream_create(pool, &stream)));
      std::vector<gpupool_ptr_t> blocks;
      while (!over.load()) {
        const uint64_t size = 1 + random() % (random() % 3 == 0 ? 5 * kMiB : 200'000);
        gpupool_ptr_t block = 0;
        const gpupool_status_t status = gpupool_malloc(pool, size, stream, &block);
        if (status == GPUPOOL_SUCCESS) {
          blocks.push_back(block);
        } else {
          EXPECT_EQ(status, GPUPOOL_ERROR_ASLEEP) << last_message();
        }
        while (blocks.size() > 8 || (!blocks.empty() && random() % 20 == 0)) {
          EXPECT_TRUE(ok(gpupool_free(pool, blocks.back(), random() % 8 == 0 ? kUnknownStream : stream)));
          blocks.pop_back();
        }
      }
      for (const gpupool_ptr_t block : blocks) EXPECT_TRUE(ok(gpupool_free(pool, block, kUnknownStream)));
      EXPECT_TRUE(ok(gpupool_stream_destroy(pool, stream)));
    });
  }
  for (int i = 0; i < kRounds / 10 && !testing::Test::HasFailure(); ++i) {
    EXPECT_TRUE(ok(gpupool_sim_advance(0, kMinute)));
    EXPECT_TRUE(ok(gpupool_reset_peaks(pool)));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_TRUE(ok(try_sleep(pool, GPUPOOL_SLEEP_MODE_SAVE)));
    EXPECT_TRUE(ok(try_wake(pool)));
    pool.validate();
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool.allocated(), 0u);
}

TEST_F(Sleep, S33_MallocsGoOnlyWhereThePoolIsStillAwake) {
  PoolUnderTest pool(sim_config());
  allocate_beside_sleeps(pool);
}

/// Fills and looks are work on the GPU too, which a sleep that has waited for all work does not see.
TEST_F(Sleep, S33_DebugModesLeaveAloneWhatFallsAsleep) {
  for (const char* modes : {"canary", "poison,canary,quarantine=16MiB"}) {
    SCOPED_TRACE(modes);
    ASSERT_TRUE(ok(gpupool_set_debug(modes)));
    PoolUnderTest pool(sim_config());
    ASSERT_TRUE(ok(gpupool_set_debug("")));
    allocate_beside_sleeps(pool);
    uint64_t count = 0;
    char text[4096] = {};
    ASSERT_TRUE(ok(gpupool_check(pool, &count, text, sizeof text)));
    EXPECT_EQ(count, 0u) << text;
    std::string fault;
    EXPECT_EQ(fault_count(&fault), 0u) << fault;
  }
}

TEST_F(Sleep, S33_MallocsWaitWhereTheSleepSaysSo) {
  PoolUnderTest pool(sim_config());
  const gpupool_ptr_t block = pool.malloc(4 * kMiB);
  const gpupool_ptr_t cached = pool.malloc(2000);
  pool.free(cached);
  fall_asleep(pool, GPUPOOL_SLEEP_MODE_SAVE, GPUPOOL_SLEEP_FLAG_HOLD_MALLOCS);
  std::atomic<int> done{0};
  std::vector<std::thread> threads;
  for (const uint64_t size : {uint64_t{2000}, 3 * kMiB}) {
    threads.emplace_back([&, size] {
      const gpupool_ptr_t own = pool.malloc(size);
      ++done;
      pool.free(own);
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_EQ(done.load(), 0);
  wake(pool);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done.load(), 2);
  pool.free(block);
}

// What a thread's cache holds must not be handed out, nor what is freed into it meanwhile.
TEST_F(Sleep, S33_NoCachedBlockIsHandedOutAsleep) {
  PoolUnderTest pool(sim_config());
  const gpupool_ptr_t cached = pool.malloc(4096);
  const gpupool_ptr_t live = pool.malloc(4096);
  pool.free(cached);
  fall_asleep(pool);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_ASLEEP, pool.try_malloc(4096)));
  pool.free(live);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_ASLEEP, pool.try_malloc(4096)));
  wake(pool);
  pool.free(pool.malloc(4096));
}

TEST_F(Sleep, S31_AChildOfForkIsRefusedAndTheParentWakes) {
  PoolUnderTest pool(sim_config());
  const gpupool_ptr_t block = pool.malloc(4 * kMiB);
  write_pattern(block, 4 * kMiB, 3);
  fall_asleep(pool);
  const pid_t child = fork();
  if (child == 0) {
    gpupool_stats_t stats{};
    stats.struct_size = sizeof stats;
    const bool good = gpupool_wake(pool, nullptr, nullptr) == GPUPOOL_ERROR_FORKED &&
                      gpupool_sleep(pool, nullptr, nullptr) == GPUPOOL_ERROR_FORKED &&
                      gpupool_stats(pool, &stats) == GPUPOOL_SUCCESS && stats.asleep_bytes >= 4 * kMiB;
    _exit(good ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  wake(pool);
  EXPECT_TRUE(has_pattern(block, 4 * kMiB, 3));
  pool.free(block);
}

// A fork in the middle of sleeps and wakes finds whole records.
TEST_F(Sleep, S31_ForksRaceWithSleepAndWake) {
  PoolUnderTest pool(sim_config());
  const gpupool_ptr_t block = pool.malloc(40 * kMiB);
  std::atomic<bool> over{false};
  std::thread sleeper([&] {
    while (!over.load()) {
      EXPECT_TRUE(ok(try_sleep(pool)));
      EXPECT_TRUE(ok(try_wake(pool)));
    }
  });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      gpupool_stats_t stats{};
      stats.struct_size = sizeof stats;
      _exit(gpupool_stats(pool, &stats) == GPUPOOL_SUCCESS && stats.all.allocated_bytes.current == 40 * kMiB
                ? 0
                : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  over = true;
  sleeper.join();
  pool.free(block);
}

}  // namespace
}  // namespace sleep_test
