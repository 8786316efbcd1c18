// SPDX-License-Identifier: Apache-2.0
// Pools of several processes on one simulated device, through the C functions. The test's own process is not
// one of them: it starts, stops and kills them, and inspects the region and the device from outside.
#pragma once

#include <array>
#include <atomic>
#include <filesystem>
#include <memory>
#include <string>

#include "device/sim/shared.hpp"
#include "gpupool/gpupool.h"
#include "share_fixture.hpp"

namespace gpupool::internal::share {

constexpr uint64_t kMillisecond = 1'000'000;
constexpr uint64_t kCapacity = 8 * kGiB;

/// What processes tell each other.
struct Board {
  std::array<std::atomic<uint64_t>, 16> figures;
  std::atomic<int> step;

  bool reaches(int wanted, int ms = 20'000) const {
    for (int i = 0; i < ms && step.load() < wanted; ++i) usleep(1000);
    return step.load() >= wanted;
  }
};

struct Terms {
  uint64_t guaranteed = 0;
  int32_t priority = 0;
  uint64_t wait_ns = 0;
  uint64_t limit = 0;
};

class PoolsTest : public ShareTest {
 protected:
  PoolsTest() {
    name_ = "test-" + std::to_string(getpid()) + "-" + std::to_string(now_ns() % 1'000'000'000);
    setenv("GPUPOOL_SIM_SHARED", name_.c_str(), 1);
    setenv("GPUPOOL_SIM", "capacity=8GiB,data=0", 1);
    setenv("GPUPOOL_SHARE_DIR", folder_.c_str(), 1);
    place_.device = sim_shared_name(0);
    place_.device_bytes = kCapacity;
  }
  ~PoolsTest() override {
    std::filesystem::remove(sim_shared_path(0));
    for (const char* each : {"GPUPOOL_SIM_SHARED", "GPUPOOL_SIM", "GPUPOOL_SHARE_DIR"}) unsetenv(each);
  }

  static gpupool_t* make_pool(const Terms& terms = {}) {
    gpupool_config_t config;
    gpupool_config_init(&config, sizeof config);
    config.backend = GPUPOOL_BACKEND_SIM;
    config.share = "team";
    config.guaranteed_bytes = terms.guaranteed;
    config.priority = terms.priority;
    // The default is meant for programs, not for processes that wait for a busy machine's processors.
    config.share_wait_ns = terms.wait_ns != 0 ? terms.wait_ns : 5000 * kMillisecond;
    config.limit_bytes = terms.limit;
    gpupool_t* pool = nullptr;
    if (gpupool_create(&config, &pool) != GPUPOOL_SUCCESS) return nullptr;
    return pool;
  }
  static gpupool_stats_t stats_of(gpupool_t* pool) {
    gpupool_stats_t stats{};
    stats.struct_size = sizeof stats;
    gpupool_stats(pool, &stats);
    return stats;
  }
  static gpupool_ptr_t take(gpupool_t* pool, uint64_t bytes) {
    gpupool_ptr_t block = 0;
    return gpupool_malloc(pool, bytes, 0, &block) == GPUPOOL_SUCCESS ? block : 0;
  }
  /// What all living processes hold of the device, as the device counts it.
  static uint64_t held_on_device() {
    std::unique_ptr<SimShared> device;
    EXPECT_EQ(SimShared::open(0, device), kSuccess);
    return device->used();
  }
  /// The sum over processes is not of one moment: one that is too high says nothing, ten in a row do.
  static bool is_within_capacity() {
    for (int i = 0; i < 10; ++i) {
      if (held_on_device() <= kCapacity) return true;
    }
    return false;
  }
  /// A process that fills the device with cached memory, or with live, and waits.
  pid_t start_hoarder(uint64_t bytes, bool is_live, const Terms& terms = {}) {
    return start([=, this] {
      gpupool_t* const pool = make_pool(terms);
      const gpupool_ptr_t block = take(pool, bytes);
      if (block == 0) return 1;
      if (!is_live) gpupool_free(pool, block, 0);
      ++board_->step;
      for (;;) {
        board_->figures[15] = stats_of(pool).share_given_bytes;
        usleep(1000);
      }
      return 0;
    });
  }
  void end(pid_t child) const {
    kill(child, SIGKILL);
    end_of(child);
  }

  std::string name_;
  Common<Board> board_;
};

}  // namespace gpupool::internal::share
