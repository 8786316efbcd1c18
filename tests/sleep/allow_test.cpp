// SPDX-License-Identifier: Apache-2.0
// Pools that may be put to sleep, for other pools of the same process: who sleeps for whom, and what stays
// whole.
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "sleep_fixture.hpp"

namespace sleep_test {
namespace {

gpupool_status_t try_allow(gpupool_t* pool, gpupool_sleep_mode_t mode = GPUPOOL_SLEEP_MODE_SAVE,
                           uint32_t flags = 0) {
  const gpupool_sleep_options_t how = options(mode, flags);
  return gpupool_allow_sleep(pool, &how);
}

bool is_asleep(gpupool_t* pool) {
  return state_of(pool) == GPUPOOL_SLEEP_STATE_ASLEEP;
}

/// Pools that each have a block with a pattern of its own. The device has 64 MiB.
class AllowSleep : public Sleep {
 protected:
  static constexpr uint64_t kLive = 24 * kMiB;
  void SetUp() override { restart(1, 64 * kMiB); }

  struct Model {
    std::unique_ptr<PoolUnderTest> pool;
    gpupool_ptr_t block = 0;
    uint64_t bytes = 0;
    uint64_t seed = 0;

    bool is_whole() const { return has_pattern(block, bytes, seed); }
  };
  Model make(uint64_t bytes = kLive) {
    Model model{std::make_unique<PoolUnderTest>(sim_config()), 0, bytes, ++seed_};
    model.block = model.pool->malloc(bytes);
    write_pattern(model.block, bytes, model.seed);
    return model;
  }
  static void end(Model& model) {
    wake(*model.pool);
    EXPECT_TRUE(model.is_whole());
    model.pool->free(model.block);
    model.pool.reset();
  }

  uint64_t seed_ = 0;
};

TEST_F(AllowSleep, AMallocOfAnotherPoolHasItPutToSleep) {
  Model idle = make();
  PoolUnderTest busy(sim_config());
  gpupool_ptr_t block = 0;
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OUT_OF_MEMORY, busy.try_malloc(50 * kMiB, 0, block)));
  ASSERT_TRUE(ok(try_allow(*idle.pool)));
  EXPECT_FALSE(is_asleep(*idle.pool));
  block = busy.malloc(50 * kMiB);
  EXPECT_TRUE(is_asleep(*idle.pool));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OUT_OF_MEMORY, try_wake(*idle.pool)));
  busy.free(block);
  end(idle);
}

TEST_F(AllowSleep, ModelsRotateByWakesAlone) {
  std::vector<Model> models;
  for (int i = 0; i < 4; ++i) {
    models.push_back(make());
    ASSERT_TRUE(ok(try_allow(*models[i].pool)));
  }
  // Two fit. The one that was used longest ago goes.
  for (int turn = 0; turn < 12; ++turn) {
    Model& model = models[turn * 3 % 4];
    ASSERT_TRUE(ok(try_wake(*model.pool))) << turn;
    EXPECT_TRUE(model.is_whole());
    ASSERT_TRUE(ok(try_allow(*model.pool)));
  }
  EXPECT_FALSE(is_asleep(*models[11 * 3 % 4].pool));
  EXPECT_FALSE(is_asleep(*models[10 * 3 % 4].pool));
  for (Model& model : models) end(model);
}

TEST_F(AllowSleep, OnlyAsManySleepAsItTakesTheIdlestFirst) {
  std::array<Model, 3> models{make(12 * kMiB), make(12 * kMiB), make(12 * kMiB)};
  for (const int i : {1, 2, 0}) ASSERT_TRUE(ok(try_allow(*models[i].pool)));
  ASSERT_TRUE(ok(try_allow(*models[1].pool)));  // now it is the last
  PoolUnderTest busy(sim_config());
  const gpupool_ptr_t block = busy.malloc(36 * kMiB);
  EXPECT_TRUE(is_asleep(*models[2].pool));
  EXPECT_FALSE(is_asleep(*models[0].pool));
  EXPECT_FALSE(is_asleep(*models[1].pool));
  busy.free(block);
  for (Model& model : models) end(model);
}

TEST_F(AllowSleep, WithoutItOrAfterAWakeNobodySleeps) {
  Model idle = make();
  ASSERT_TRUE(ok(try_allow(*idle.pool)));
  ASSERT_TRUE(ok(try_wake(*idle.pool)));
  PoolUnderTest busy(sim_config());
  gpupool_ptr_t block = 0;
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OUT_OF_MEMORY, busy.try_malloc(50 * kMiB, 0, block)));
  EXPECT_EQ(idle.pool->stats().sleeps, 0u);
  end(idle);
}

TEST_F(AllowSleep, APoolDoesNotSleepForItself) {
  Model idle = make();
  ASSERT_TRUE(ok(try_allow(*idle.pool)));
  gpupool_ptr_t block = 0;
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OUT_OF_MEMORY, idle.pool->try_malloc(50 * kMiB, 0, block)));
  EXPECT_FALSE(is_asleep(*idle.pool));
  end(idle);
}

TEST_F(AllowSleep, WhatIsCachedComesFirst) {
  Model idle = make();
  Model other = make();
  other.pool->free(other.block);
  ASSERT_TRUE(ok(try_allow(*idle.pool)));
  PoolUnderTest busy(sim_config());
  const gpupool_ptr_t block = busy.malloc(36 * kMiB);
  EXPECT_FALSE(is_asleep(*idle.pool));
  busy.free(block);
  end(idle);
}

TEST_F(AllowSleep, UnderALimitOnlyThoseThatShareItSleep) {
  Model stranger = make(12 * kMiB);
  ASSERT_TRUE(ok(try_allow(*stranger.pool)));
  gpupool_config_t config = sim_config();
  config.limit_bytes = 26 * kMiB;
  PoolUnderTest parent(config);
  gpupool_t* children[2] = {};
  for (gpupool_t*& child : children) ASSERT_TRUE(ok(gpupool_create_child(parent, &child)));
  gpupool_ptr_t first = 0;
  ASSERT_TRUE(ok(gpupool_malloc(children[0], 16 * kMiB, 0, &first)));
  write_pattern(first, 16 * kMiB, 7);
  gpupool_ptr_t second = 0;
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, gpupool_malloc(children[1], 16 * kMiB, 0, &second)));
  EXPECT_FALSE(is_asleep(*stranger.pool));
  ASSERT_TRUE(ok(try_allow(children[0], GPUPOOL_SLEEP_MODE_SAVE)));
  ASSERT_TRUE(ok(gpupool_malloc(children[1], 16 * kMiB, 0, &second)));
  EXPECT_TRUE(is_asleep(children[0]));
  EXPECT_FALSE(is_asleep(*stranger.pool));
  // And the other way round, by a wake.
  ASSERT_TRUE(ok(try_allow(children[1], GPUPOOL_SLEEP_MODE_DROP)));
  ASSERT_TRUE(ok(try_wake(children[0])));
  EXPECT_TRUE(is_asleep(children[1]));
  EXPECT_TRUE(has_pattern(first, 16 * kMiB, 7));
  EXPECT_TRUE(ok(gpupool_free(children[0], first, 0)));
  EXPECT_TRUE(ok(gpupool_free(children[1], second, 0)));
  for (gpupool_t* child : children) EXPECT_TRUE(ok(gpupool_destroy(child)));
  end(stranger);
}

TEST_F(AllowSleep, AMallocWaitsForTheWakeWhereAllowedSo) {
  Model idle = make();
  ASSERT_TRUE(ok(try_allow(*idle.pool, GPUPOOL_SLEEP_MODE_SAVE, GPUPOOL_SLEEP_FLAG_HOLD_MALLOCS)));
  PoolUnderTest busy(sim_config());
  const gpupool_ptr_t block = busy.malloc(50 * kMiB);
  std::atomic<bool> has{false};
  std::thread held([&] {
    idle.pool->free(idle.pool->malloc(kMiB));
    has = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(has);
  busy.free(block);
  ASSERT_TRUE(ok(try_wake(*idle.pool)));
  held.join();
  end(idle);
}

struct Hooks {
  gpupool_t* asker = nullptr;
  int asked = 0;
  gpupool_status_t wake = GPUPOOL_SUCCESS;
  gpupool_status_t malloc = GPUPOOL_SUCCESS;
};

int32_t refuse(void* user, gpupool_t* /*pool*/, gpupool_ptr_t /*block*/) {
  auto& hooks = *static_cast<Hooks*>(user);
  ++hooks.asked;
  gpupool_ptr_t block = 0;
  hooks.malloc = gpupool_malloc(hooks.asker, 64 * kMiB, 0, &block);
  hooks.wake = try_wake(hooks.asker);
  return 0;
}

// A hook runs inside the malloc or the wake that is short. Whatever it asks for, nothing waits for itself.
TEST_F(AllowSleep, AHookThatRefusesMakesTheNextPoolSleep) {
  Model stubborn = make();
  Model idle = make();
  Model asker = make(8 * kMiB);
  Hooks hooks{*asker.pool};
  ASSERT_TRUE(ok(gpupool_set_sleep_hooks(*stubborn.pool, refuse, nullptr, &hooks)));
  ASSERT_TRUE(ok(try_allow(*stubborn.pool)));
  ASSERT_TRUE(ok(try_allow(*idle.pool)));
  fall_asleep(*asker.pool);
  PoolUnderTest busy(sim_config());
  const gpupool_ptr_t block = busy.malloc(14 * kMiB);
  ASSERT_TRUE(ok(try_wake(*asker.pool)));
  EXPECT_EQ(hooks.asked, 1);
  EXPECT_EQ(hooks.malloc, GPUPOOL_ERROR_ASLEEP);
  EXPECT_EQ(hooks.wake, GPUPOOL_ERROR_UNAVAILABLE);
  EXPECT_FALSE(is_asleep(*stubborn.pool));
  EXPECT_TRUE(is_asleep(*idle.pool));
  busy.free(block);
  ASSERT_TRUE(ok(gpupool_set_sleep_hooks(*stubborn.pool, nullptr, nullptr, nullptr)));
  for (Model* each : {&stubborn, &idle, &asker}) end(*each);
}

// Each driver call of the sleep fails, at each of its occurrences: the pool is awake or asleep and whole, and
// the malloc is served or refused as if the pool had never been allowed to.
TEST_F(AllowSleep, OfEachFailureAtEachIndexNothingIsLost) {
  gpupool_config_t config = sim_config();
  config.max_chunk_bytes = 4 * kMiB;
  for (const char* call :
       {"unmap", "release", "create", "map", "copy", "event_record", "stream", "host_wait"}) {
    for (int index = 1; index <= 6; ++index) {
      Model idle{std::make_unique<PoolUnderTest>(config), 0, 16 * kMiB, ++seed_};
      idle.block = idle.pool->malloc(idle.bytes);
      write_pattern(idle.block, idle.bytes, idle.seed);
      ASSERT_TRUE(ok(try_allow(*idle.pool)));
      PoolUnderTest busy(sim_config());
      script(std::string(call) + ":" + std::to_string(index));
      gpupool_ptr_t block = 0;
      const gpupool_status_t status = busy.try_malloc(56 * kMiB, 0, block);
      script("");
      const std::string where = std::string(call) + ":" + std::to_string(index);
      if (status == GPUPOOL_SUCCESS) {
        EXPECT_TRUE(is_asleep(*idle.pool)) << where;
        busy.free(block);
      } else {
        EXPECT_TRUE(status == GPUPOOL_ERROR_OUT_OF_MEMORY || status == GPUPOOL_ERROR_DRIVER) << where;
        EXPECT_EQ(block, 0u);
        EXPECT_TRUE(is_asleep(*idle.pool) || idle.is_whole()) << where;
      }
      EXPECT_TRUE(ok(gpupool_validate(*idle.pool)));
      EXPECT_TRUE(ok(gpupool_validate(busy)));
      EXPECT_TRUE(ok(gpupool_empty(busy, nullptr)));
      end(idle);
    }
  }
}

// Pools that wake, look and allow, while two others take what there is, all the time.
TEST_F(AllowSleep, WakesAndMallocsRace) {
  constexpr int kModels = 4;
  constexpr uint64_t kNs = 60'000'000'000;
  std::array<Model, kModels> models;
  for (Model& model : models) {
    model = make(8 * kMiB);
    ASSERT_TRUE(ok(try_allow(*model.pool)));
  }
  std::atomic<int> running{kModels};
  std::atomic<uint64_t> served{0};
  std::vector<std::thread> threads;
  for (Model& model : models) {
    threads.emplace_back([&] {
      for (int i = 0; i < 40 || served < 5; ++i) {
        ASSERT_TRUE(ok(try_wake(*model.pool, kNs)));
        ASSERT_TRUE(model.is_whole());
        ASSERT_TRUE(ok(try_allow(*model.pool)));
        std::this_thread::sleep_for(std::chrono::microseconds(i * 37 % 1000));
      }
      --running;
    });
  }
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      PoolUnderTest pool(sim_config());
      while (running != 0) {
        gpupool_ptr_t block = 0;
        if (pool.try_malloc(40 * kMiB, 0, block) != GPUPOOL_SUCCESS) continue;
        ++served;
        pool.free(block);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  uint64_t sleeps = 0;
  for (Model& model : models) {
    sleeps += model.pool->stats().sleeps;
    end(model);
  }
  EXPECT_GT(sleeps, 0u);
}

// Of two mallocs that are short at once, one puts the pool to sleep. The other must not fail while that is
// under way.
TEST_F(AllowSleep, WhoFindsItFallingAsleepWaitsForIt) {
  for (int round = 0; round < 10; ++round) {
    Model idle = make(40 * kMiB);
    ASSERT_TRUE(ok(try_allow(*idle.pool)));
    std::array<std::thread, 3> threads;
    std::barrier together{static_cast<ptrdiff_t>(threads.size())};
    for (std::thread& thread : threads) {
      thread = std::thread([&] {
        PoolUnderTest pool(sim_config());
        gpupool_ptr_t block = 0;
        together.arrive_and_wait();
        EXPECT_TRUE(ok(pool.try_malloc(20 * kMiB, 0, block)));
        together.arrive_and_wait();
        if (block != 0) pool.free(block);
      });
    }
    for (std::thread& thread : threads) thread.join();
    end(idle);
  }
}

}  // namespace
}  // namespace sleep_test
