// SPDX-License-Identifier: Apache-2.0
// Pools that neighbours may have put to sleep: who gets their memory and when, and what a wake finds.
#include <string.h>

#include <thread>
#include <vector>

#include "pools_fixture.hpp"

namespace gpupool::internal::share {
namespace {

class AllowSleepTest : public PoolsTest {
 protected:
  static constexpr uint64_t kLimit = 64 * kMiB;
  static constexpr uint64_t kLive = 48 * kMiB;

  AllowSleepTest() {
    setenv("GPUPOOL_SIM", "capacity=8GiB", 1);  // with data
    setenv("GPUPOOL_SHARE_LIMIT", "64MiB", 1);
  }
  ~AllowSleepTest() override { unsetenv("GPUPOOL_SHARE_LIMIT"); }

  static bool allow(gpupool_t* pool, uint32_t flags = 0) {
    gpupool_sleep_options_t options{};
    options.struct_size = sizeof options;
    options.flags = flags;
    return gpupool_allow_sleep(pool, &options) == GPUPOOL_SUCCESS;
  }
  /// Waits for memory that others have.
  static bool wake(gpupool_t* pool) {
    gpupool_sleep_options_t options{};
    options.struct_size = sizeof options;
    options.timeout_ns = 20'000 * kMillisecond;
    return gpupool_wake(pool, &options, nullptr) == GPUPOOL_SUCCESS;
  }
  static gpupool_sleep_state_t state_of(gpupool_t* pool) {
    gpupool_sleep_state_t state{};
    EXPECT_EQ(gpupool_sleep_state(pool, &state), GPUPOOL_SUCCESS);
    return state;
  }
  static int32_t last_status() {
    gpupool_error_t error{};
    error.struct_size = sizeof error;
    gpupool_last_error(&error);
    return error.status;
  }
  static void write(gpupool_ptr_t block, uint64_t bytes, uint8_t value) {
    memset(reinterpret_cast<void*>(block), value, bytes);
  }
  static bool holds(gpupool_ptr_t block, uint64_t bytes, uint8_t value) {
    const auto* const at = reinterpret_cast<const uint8_t*>(block);
    return at[0] == value && memcmp(at, at + 1, bytes - 1) == 0;
  }

  /// A process with a full pool that may be put to sleep. At `step` it wakes it, and ends with whether all is
  /// as it was.
  pid_t start_sleeper(int step, uint64_t bytes = kLive, const Terms& terms = {}) {
    return start([=, this] {
      gpupool_t* const pool = make_pool(terms);
      const gpupool_ptr_t block = take(pool, bytes);
      if (block == 0) return 1;
      write(block, bytes, 0x5a);
      if (!allow(pool)) return 2;
      ++board_->step;
      if (!board_->reaches(step)) return 3;
      board_->figures[14] = stats_of(pool).sleeps;
      if (!wake(pool) || !holds(block, bytes, 0x5a)) return 4;
      return gpupool_validate(pool) == GPUPOOL_SUCCESS ? 0 : 5;
    });
  }
  /// Takes and frees once; the time that it took is figure 0.
  int take_once(uint64_t bytes, const Terms& terms = {}) {
    return end_of(start([&] {
      gpupool_t* const pool = make_pool(terms);
      const uint64_t begin = now_ns();
      const gpupool_ptr_t block = take(pool, bytes);
      board_->figures[0] = now_ns() - begin;
      return block != 0 && gpupool_validate(pool) == GPUPOOL_SUCCESS ? 0 : 1;
    }));
  }
};

TEST_F(AllowSleepTest, ANeighbourGetsTheMemoryAndTheContentsComeBack) {
  const pid_t sleeper = start_sleeper(2);
  ASSERT_TRUE(board_->reaches(1));
  EXPECT_EQ(take_once(60 * kMiB), 0);
  EXPECT_LT(board_->figures[0], 5000 * kMillisecond);
  ++board_->step;
  EXPECT_EQ(end_of(sleeper), 0);
  EXPECT_EQ(board_->figures[14], 1U);
  EXPECT_EQ(used_after_repair(), 0U);
}

TEST_F(AllowSleepTest, CachedMemoryComesFirst) {
  const pid_t sleeper = start_sleeper(3, 24 * kMiB, {.priority = -8});
  ASSERT_TRUE(board_->reaches(1));
  const pid_t hoarder = start_hoarder(32 * kMiB, false, {.priority = 8});
  ASSERT_TRUE(board_->reaches(2));
  EXPECT_EQ(take_once(32 * kMiB), 0);
  board_->step = 3;
  EXPECT_EQ(end_of(sleeper), 0);
  EXPECT_EQ(board_->figures[14], 0U) << "it was put to sleep although others had cached memory";
  end(hoarder);
}

TEST_F(AllowSleepTest, TheLowerPrioritySleepsFirst) {
  const pid_t high = start_sleeper(4, 24 * kMiB, {.priority = 4});
  ASSERT_TRUE(board_->reaches(1));
  const pid_t low = start([&] {
    gpupool_t* const pool = make_pool({.priority = -4});
    if (take(pool, 24 * kMiB) == 0 || !allow(pool)) return 1;
    ++board_->step;
    if (!board_->reaches(3)) return 2;
    return state_of(pool) == GPUPOOL_SLEEP_STATE_ASLEEP ? 0 : 3;
  });
  ASSERT_TRUE(board_->reaches(2));
  EXPECT_EQ(take_once(32 * kMiB), 0);
  ++board_->step;
  EXPECT_EQ(end_of(low), 0);
  ++board_->step;
  EXPECT_EQ(end_of(high), 0);
  EXPECT_EQ(board_->figures[14], 0U);
}

TEST_F(AllowSleepTest, WithoutItOrAfterAWakeNobodySleeps) {
  const pid_t awake = start([&] {
    gpupool_t* const pool = make_pool();
    if (take(pool, kLive) == 0 || !allow(pool) || !allow(pool)) return 1;
    if (gpupool_wake(pool, nullptr, nullptr) != GPUPOOL_SUCCESS) return 2;
    ++board_->step;
    if (!board_->reaches(2)) return 3;
    return stats_of(pool).sleeps == 0 ? 0 : 4;
  });
  ASSERT_TRUE(board_->reaches(1));
  EXPECT_EQ(take_once(60 * kMiB, {.wait_ns = 100 * kMillisecond}), 1);
  EXPECT_LT(board_->figures[0], 3000 * kMillisecond);
  ++board_->step;
  EXPECT_EQ(end_of(awake), 0);
}

TEST_F(AllowSleepTest, WhatCannotSleepIsRefused) {
  const int result = end_of(start([&] {
    gpupool_config_t config;
    gpupool_config_init(&config, sizeof config);
    config.backend = GPUPOOL_BACKEND_SIM;
    gpupool_t* pool = nullptr;
    if (gpupool_create(&config, &pool) != GPUPOOL_SUCCESS) return 1;
    if (!allow(pool)) return 2;  // for the other pools of this process
    config.share = "team";
    config.mode = GPUPOOL_MODE_DRIVER;
    if (gpupool_create(&config, &pool) != GPUPOOL_SUCCESS) return 3;
    if (allow(pool) || last_status() != GPUPOOL_ERROR_UNSUPPORTED) return 4;
    if (allow(make_pool(), 1U << 31) || last_status() != GPUPOOL_ERROR_INVALID_ARGUMENT) return 5;
    setenv("GPUPOOL_SHARE_DIR", "/nonexistent", 1);
    return allow(make_pool()) ? 0 : 6;
  }));
  EXPECT_EQ(result, 0);
}

TEST_F(AllowSleepTest, MallocsAndFreesGoOnUntilItSleeps) {
  const pid_t sleeper = start([&] {
    gpupool_t* const pool = make_pool();
    const gpupool_ptr_t kept = take(pool, kLive);
    write(kept, kLive, 1);
    if (!allow(pool)) return 1;
    const gpupool_ptr_t other = take(pool, 2 * kMiB);
    if (other == 0 || gpupool_free(pool, other, 0) != GPUPOOL_SUCCESS) return 2;
    ++board_->step;
    if (!board_->reaches(2)) return 3;
    if (take(pool, 512) != 0 || last_status() != GPUPOOL_ERROR_ASLEEP) return 4;
    // Once awake, it is nobody's again.
    if (!wake(pool) || !holds(kept, kLive, 1)) return 5;
    return stats_of(pool).sleeps == 1 ? 0 : 6;
  });
  ASSERT_TRUE(board_->reaches(1));
  EXPECT_EQ(take_once(60 * kMiB), 0);
  ++board_->step;
  EXPECT_EQ(end_of(sleeper), 0);
}

// Of two pools that may sleep, the one in the asker's own process goes, whatever is cached elsewhere before
// it.
TEST_F(AllowSleepTest, APoolOfTheAskersOwnProcessSleepsFirst) {
  const pid_t sleeper = start_sleeper(2, 16 * kMiB, {.priority = -4});
  ASSERT_TRUE(board_->reaches(1));
  const int result = end_of(start([&] {
    gpupool_t* const idle = make_pool();
    const gpupool_ptr_t block = take(idle, 40 * kMiB);
    write(block, 40 * kMiB, 0x7e);
    gpupool_t* const busy = make_pool();
    if (block == 0 || !allow(idle) || !allow(busy)) return 1;
    const uint64_t begin = now_ns();
    const gpupool_ptr_t taken = take(busy, 40 * kMiB);
    board_->figures[0] = now_ns() - begin;
    if (taken == 0) return 2;
    if (state_of(idle) != GPUPOOL_SLEEP_STATE_ASLEEP || state_of(busy) != GPUPOOL_SLEEP_STATE_AWAKE) return 3;
    if (!wake(busy) || !allow(busy)) return 4;
    // And back, by a wake.
    if (!wake(idle) || !holds(block, 40 * kMiB, 0x7e)) return 5;
    if (state_of(busy) != GPUPOOL_SLEEP_STATE_ASLEEP) return 6;
    return gpupool_validate(idle) == GPUPOOL_SUCCESS ? 0 : 7;
  }));
  EXPECT_EQ(result, 0);
  EXPECT_LT(board_->figures[0], 5000 * kMillisecond);
  ++board_->step;
  EXPECT_EQ(end_of(sleeper), 0);
  EXPECT_EQ(board_->figures[14], 0U);
}

/// Many threads allow and wake, each with a pool of its own, while neighbours are short all the time.
TEST_F(AllowSleepTest, WakesRaceWithSleeps) {
  const pid_t sleeper = start([&] {
    std::atomic<int> failed{0};
    std::atomic<uint64_t> sleeps{0};
    std::vector<std::thread> threads;
    for (int number = 0; number < 4; ++number) {
      threads.emplace_back([&, number] {
        const auto value = static_cast<uint8_t>(number + 1);
        gpupool_t* const pool = make_pool();
        gpupool_ptr_t block = 0;
        while (block == 0) block = take(pool, 8 * kMiB);  // whoever has more than its share does not wait
        for (int i = 0; i < 150 && failed == 0; ++i) {
          write(block, 8 * kMiB, static_cast<uint8_t>(value + i));
          if (!allow(pool)) failed = 2;
          usleep(static_cast<useconds_t>(i * 37 % 2000));
          if (!wake(pool)) failed = 3;
          if (failed == 0 && !holds(block, 8 * kMiB, static_cast<uint8_t>(value + i))) failed = 4;
        }
        sleeps += stats_of(pool).sleeps;
        if (gpupool_validate(pool) != GPUPOOL_SUCCESS) failed = 5;
      });
    }
    for (std::thread& each : threads) each.join();
    board_->figures[1] = sleeps.load();
    return failed.load();
  });
  std::vector<pid_t> others;
  for (int i = 0; i < 2; ++i) {
    others.push_back(start([&] {
      gpupool_t* const pool = make_pool({.wait_ns = 20 * kMillisecond});
      for (;;) {
        const gpupool_ptr_t block = take(pool, 40 * kMiB);
        if (block != 0) gpupool_free(pool, block, 0);
        usleep(500);
      }
      return 0;
    }));
  }
  EXPECT_EQ(end_of(sleeper), 0);
  EXPECT_GT(board_->figures[1], 0U) << "no pool was ever put to sleep";
  for (const pid_t each : others) end(each);
  EXPECT_EQ(used_after_repair(), 0U);
}

TEST_F(AllowSleepTest, KilledAtRandomNothingIsLost) {
  for (int round = 0; round < 20; ++round) {
    board_->step = 0;
    const pid_t sleeper = start_sleeper(1000);
    ASSERT_TRUE(board_->reaches(1));
    const pid_t needy = start([&] {
      gpupool_t* const pool = make_pool();
      ++board_->step;
      return take(pool, 60 * kMiB) != 0 ? 0 : 1;
    });
    ASSERT_TRUE(board_->reaches(2));
    usleep(static_cast<useconds_t>(round * 400));
    end(sleeper);
    EXPECT_EQ(end_of(needy), 0) << round;
    EXPECT_EQ(used_after_repair(), 0U) << round;
  }
}

/// The driver fails at each call of the sleep in turn: the pool stays whole, and the neighbour learns in time
/// that it gets nothing, or gets it.
TEST_F(AllowSleepTest, TheDriverFailsOnTheWay) {
  for (const char* call : {"unmap", "release", "copy", "event_record", "stream", "host_wait"}) {
    for (const char* which : {"1", "2", "3", "*"}) {
      board_->step = 0;
      const std::string script = std::string(call) + ":" + which;
      const pid_t sleeper = start([&] {
        gpupool_t* const pool = make_pool();
        const gpupool_ptr_t block = take(pool, kLive);
        if (block == 0) return 1;
        write(block, kLive, 0x33);
        if (!allow(pool) || gpupool_sim_script(0, script.c_str()) != GPUPOOL_SUCCESS) return 2;
        ++board_->step;
        if (!board_->reaches(2)) return 3;
        if (gpupool_sim_script(0, "") != GPUPOOL_SUCCESS) return 4;
        if (!wake(pool)) return 5;
        if (!holds(block, kLive, 0x33)) return 6;
        return gpupool_validate(pool) == GPUPOOL_SUCCESS ? 0 : 7;
      });
      ASSERT_TRUE(board_->reaches(1)) << script;
      (void)take_once(60 * kMiB, {.wait_ns = 200 * kMillisecond});
      EXPECT_LT(board_->figures[0], 5000 * kMillisecond) << script;
      ++board_->step;
      EXPECT_EQ(end_of(sleeper), 0) << script;
      EXPECT_EQ(used_after_repair(), 0U) << script;
    }
  }
}

TEST_F(AllowSleepTest, APoolMayBeDestroyedMeanwhile) {
  const pid_t other = start([&] {
    gpupool_t* const pool = make_pool({.wait_ns = 10 * kMillisecond});
    for (;;) {
      const gpupool_ptr_t block = take(pool, 40 * kMiB);
      if (block != 0) gpupool_free(pool, block, 0);
      (void)gpupool_empty(pool, nullptr);
      board_->step.fetch_add(1);
    }
    return 0;
  });
  const pid_t sleeper = start([&] {
    for (int i = 0; i < 200; ++i) {
      gpupool_t* const pool = make_pool();
      gpupool_ptr_t block = 0;
      // Refused at once where all is live at that moment.
      for (int tries = 0; block == 0 && tries < 100; ++tries) block = take(pool, 32 * kMiB);
      if (block == 0) return 1;
      if (!allow(pool)) return 2;
      usleep(static_cast<useconds_t>(i * 61 % 3000));
      if (gpupool_free(pool, block, 0) != GPUPOOL_SUCCESS) return 3;
      if (gpupool_destroy(pool) != GPUPOOL_SUCCESS) return 4;
    }
    return 0;
  });
  EXPECT_EQ(end_of(sleeper), 0);
  end(other);
  EXPECT_EQ(used_after_repair(), 0U);
}

}  // namespace
}  // namespace gpupool::internal::share
