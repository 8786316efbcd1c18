// SPDX-License-Identifier: Apache-2.0
// S5, S30, S32: many pools that take turns on one device, failures that must not stick, processes that are
// killed.
#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <set>
#include <thread>

#include "sleep_fixture.hpp"

namespace sleep_test {
namespace {

TEST_F(Sleep, S5_OneFailureDoesNotPoisonLaterCalls) {
  PoolUnderTest pool(sim_config());
  const gpupool_ptr_t block = pool.malloc(20 * kMiB);
  write_pattern(block, 20 * kMiB, 1);
  for (const char* failing : {"create:1", "map:1", "set_access:1", "copy:1", "stream:1", "host_wait:1"}) {
    fall_asleep(pool);
    script(failing);
    const gpupool_status_t status = try_wake(pool);
    script("");
    // What it does not call cannot fail.
    if (status != GPUPOOL_SUCCESS) {
      EXPECT_EQ(state_of(pool), GPUPOOL_SLEEP_STATE_ASLEEP) << failing;
      wake(pool);
    }
    EXPECT_TRUE(has_pattern(block, 20 * kMiB, 1)) << failing;
    pool.free(pool.malloc(3 * kMiB));
  }
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

std::set<std::string> shared_files() {
  std::set<std::string> names;
  for (const char* folder : {"/dev/shm", "/tmp"}) {
    DIR* open = opendir(folder);
    if (open == nullptr) continue;
    for (const dirent* entry = readdir(open); entry != nullptr; entry = readdir(open)) {
      if (std::strstr(entry->d_name, "gpupool") != nullptr)
        names.insert(std::string(folder) + "/" + entry->d_name);
    }
    closedir(open);
  }
  return names;
}

// Whatever a process was doing when it was killed, nothing of it is left: what a sleep saves is in the
// process.
TEST_F(Sleep, S32_ProcessesThatAreKilledLeaveNothingBehind) {
  const std::set<std::string> before = shared_files();
  for (int i = 0; i < 30; ++i) {
    int began[2];
    ASSERT_EQ(pipe(began), 0);
    const pid_t child = fork();
    if (child == 0) {
      gpupool_t* pool = nullptr;
      const gpupool_config_t config = sim_config();
      gpupool_ptr_t block = 0;
      if (gpupool_create(&config, &pool) != GPUPOOL_SUCCESS) _exit(1);
      if (gpupool_malloc(pool, 100 * kMiB, 0, &block) != GPUPOOL_SUCCESS) _exit(1);
      if (write(began[1], "", 1) != 1) _exit(1);
      while (try_sleep(pool) == GPUPOOL_SUCCESS && try_wake(pool) == GPUPOOL_SUCCESS) continue;
      _exit(2);
    }
    char byte = 0;
    ASSERT_EQ(read(began[0], &byte, 1), 1);
    usleep(static_cast<useconds_t>(i * 1500));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status));
    close(began[0]);
    close(began[1]);
  }
  EXPECT_EQ(shared_files(), before);
}

}  // namespace
}  // namespace sleep_test
