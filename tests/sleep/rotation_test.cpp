// SPDX-License-Identifier: Apache-2.0
// S5, S30: many pools that take turns on one device, and failures that must not persist.
#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "sleep_fixture.hpp"

namespace sleep_test {
namespace {

TEST_F(Sleep, S5_OneFailureDoesNotPoisonLaterCalls) {
  PoolUnderTest pool(sim_config());
  const gpupool_ptr_t block = pool.malloc(20 * kMiB);
  write_pattern(block, 20 * kMiB, 1);
  int failures = 0;
  for (const char* failing : {"create:1", "map:1", "set_access:1", "copy:1", "stream:1", "host_wait:1"}) {
    fall_asleep(pool);
    script(failing);
    const gpupool_status_t status = try_wake(pool);
    script("");
    // What it does not call cannot fail.
    if (status != GPUPOOL_SUCCESS) {
      ++failures;
      EXPECT_EQ(state_of(pool), GPUPOOL_SLEEP_STATE_ASLEEP) << failing;
      wake(pool);
    }
    EXPECT_TRUE(has_pattern(block, 20 * kMiB, 1)) << failing;
    pool.free(pool.malloc(3 * kMiB));
  }
  EXPECT_GE(failures, 4);
  pool.free(block);
}

// Each engine has most of the device, so that only one can be awake; all want to be, all the time.
TEST_F(Sleep, S30_EightEnginesRotateOnOneCardAThousandTimes) {
  restart(2);
  constexpr int kEngines = 8;
  constexpr int kTurns = 125;
  std::array<std::unique_ptr<PoolUnderTest>, kEngines> pools;
  std::array<gpupool_ptr_t, kEngines> blocks{};
  for (int i = 0; i < kEngines; ++i) {
    pools[i] = std::make_unique<PoolUnderTest>(sim_config());
    blocks[i] = pools[i]->malloc(300 * kMiB);
    fall_asleep(*pools[i]);
  }
  std::atomic<int> awake{0};
  std::vector<std::thread> engines;
  for (int i = 0; i < kEngines; ++i) {
    engines.emplace_back([&, i] {
      for (int turn = 0; turn < kTurns; ++turn) {
        ASSERT_TRUE(ok(try_wake(*pools[i], 300'000'000'000)));
        EXPECT_EQ(awake.fetch_add(1), 0);
        pools[i]->free(pools[i]->malloc(4 * kMiB));
        --awake;
        ASSERT_TRUE(ok(try_sleep(*pools[i])));
      }
    });
  }
  for (std::thread& engine : engines) engine.join();
  for (int i = 0; i < kEngines; ++i) {
    EXPECT_EQ(pools[i]->stats().wakes, static_cast<uint64_t>(kTurns));
    wake(*pools[i]);
    pools[i]->free(blocks[i]);
    pools[i].reset();
  }
}

// Where another process takes the room that was seen, nothing may be mapped again before all of it is there:
// what was created is what keeps others from beginning, and two that map meanwhile fail by turns for ever.
TEST_F(Sleep, S30_AWakeThatCollidedCreatesAllBeforeItMaps) {
  PoolUnderTest pool(sim_config());
  const gpupool_ptr_t block = pool.malloc(64 * kMiB);
  write_pattern(block, 64 * kMiB, 1);
  fall_asleep(pool);
  const uint64_t before = pool.stats().driver.create.count;
  wake(pool);
  const uint64_t chunks = pool.stats().driver.create.count - before;
  ASSERT_GT(chunks, 4u);
  fall_asleep(pool);
  const uint64_t maps = pool.stats().driver.map.count;
  script("create:3=out_of_memory,create:" + std::to_string(3 + chunks) + "=out_of_memory");
  EXPECT_TRUE(ok(try_wake(pool, 60'000'000'000)));
  script("");
  EXPECT_EQ(pool.stats().driver.map.count, maps + 2 + chunks);
  EXPECT_TRUE(has_pattern(block, 64 * kMiB, 1));
  pool.free(block);
}

}  // namespace
}  // namespace sleep_test
