// SPDX-License-Identifier: Apache-2.0
// S30: processes that take turns on one device, of which only one at a time can be awake.
#include "pools_fixture.hpp"

namespace gpupool::internal::share {
namespace {

constexpr int kEngines = 8;
constexpr int kTurns = 125;

/// Alone: each asks the device only. In a group: they also share its budget.
class Rotation : public PoolsTest, public testing::WithParamInterface<bool> {
 protected:
  Rotation() {
    setenv("GPUPOOL_SIM", "capacity=128MiB,data=1", 1);
    place_.device_bytes = 128 * kMiB;
  }

  static gpupool_t* make_engine(bool in_group) {
    if (in_group) return make_pool();
    gpupool_config_t config;
    gpupool_config_init(&config, sizeof config);
    config.backend = GPUPOOL_BACKEND_SIM;
    gpupool_t* pool = nullptr;
    return gpupool_create(&config, &pool) == GPUPOOL_SUCCESS ? pool : nullptr;
  }

  /// Weights are saved, and changed in each turn; the cache is dropped. 0: each turn found its own bytes.
  int live(uint64_t number, bool in_group) {
    gpupool_t* const pool = make_engine(in_group);
    if (pool == nullptr || !board_->reaches(static_cast<int>(number))) return 1;
    const gpupool_ptr_t weights = take(pool, kWeights);
    const gpupool_ptr_t cache = take(pool, kCache);
    if (weights == 0 || cache == 0) return 2;
    if (gpupool_set_keep(pool, weights, 1) != GPUPOOL_SUCCESS) return 3;
    auto* const words = reinterpret_cast<uint64_t*>(weights);
    const auto word = [&](uint64_t turn, uint64_t i) { return number << 56 | turn << 40 | i; };
    const auto fill = [&](uint64_t turn) {
      for (uint64_t i = 0; i < kWeights / 8; ++i) words[i] = word(turn, i);
    };
    const auto is_right = [&](uint64_t turn) {
      for (uint64_t i = 0; i < kWeights / 8; ++i) {
        if (words[i] != word(turn, i)) return false;
      }
      return true;
    };
    gpupool_sleep_options_t how{};
    how.struct_size = sizeof how;
    how.mode = GPUPOOL_SLEEP_MODE_DROP;
    how.timeout_ns = 250'000 * kMillisecond;
    how.flags = GPUPOOL_SLEEP_FLAG_RETAIN_BACKUP;
    fill(0);
    if (gpupool_sleep(pool, &how, nullptr) != GPUPOOL_SUCCESS) return 4;
    ++board_->step;
    if (!board_->reaches(kEngines)) return 5;
    for (uint64_t turn = 1; turn <= kTurns; ++turn) {
      if (gpupool_wake(pool, &how, nullptr) != GPUPOOL_SUCCESS) return 6;
      if (board_->figures[0].fetch_add(1) != 0) return 7;  // two are awake
      if (!is_right(turn - 1)) return 8;
      fill(turn);
      *reinterpret_cast<uint64_t*>(cache + turn * 4096) = turn;
      gpupool_free(pool, take(pool, kMiB), 0);
      --board_->figures[0];
      ++board_->figures[1];
      if (gpupool_sleep(pool, &how, nullptr) != GPUPOOL_SUCCESS) return 9;
    }
    gpupool_destroy(pool);
    return 0;
  }

  static constexpr uint64_t kWeights = 256 * kKiB;
  static constexpr uint64_t kCache = 80 * kMiB;
};

TEST_P(Rotation, S30_EightProcessesRotateOnOneCardAThousandTimes) {
  std::array<pid_t, kEngines> engines{};
  for (uint64_t i = 0; i < kEngines; ++i) engines[i] = start([&] { return live(i, GetParam()); });
  for (const pid_t engine : engines) EXPECT_EQ(end_of(engine), 0);
  EXPECT_EQ(board_->figures[1], static_cast<uint64_t>(kEngines * kTurns));
  EXPECT_EQ(held_on_device(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Engines, Rotation, testing::Bool(),
                         [](const auto& each) { return each.param ? "in_a_group" : "alone"; });

}  // namespace
}  // namespace gpupool::internal::share
