// SPDX-License-Identifier: Apache-2.0
// What guards find in production, where at most a two-thousandth of the time is theirs: in virtual time.
#include <gpupool/gpupool.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <random>

#include "pool/pool_under_test.hpp"

namespace {

using pool_test::kMiB;
using pool_test::ok;

constexpr uint64_t kHour = 3600ULL * 1'000'000'000;
constexpr uint64_t kStep = 50'000'000;
constexpr uint64_t kMallocs = 30;
constexpr uint64_t kBuggy = 200;  // one step of so many uses a block that it has freed

class Training {
 public:
  explicit Training(gpupool_t* pool) : pool_(pool) {}

  /// Returns whether the write after the free was found.
  bool step(bool is_buggy) {
    gpupool_ptr_t planted = 0;
    for (uint64_t i = 0; i < kMallocs; ++i) {
      live_.push_back(malloc((1 + i * 7 % 20) * kMiB));
      work();
      if (live_.size() > kMallocs / 2) free_oldest();
      if (i != kMallocs / 2) continue;
      planted = malloc(3 * kMiB);
      work();
    }
    free(planted);
    EXPECT_TRUE(ok(gpupool_sim_advance(0, kStep / 10)));
    free(malloc(kMiB));  // the pool sees that the stream has passed
    return is_buggy && gpupool_fill(pool_, planted, 0, 64, 0) != GPUPOOL_SUCCESS;
  }

  void end() {
    while (!live_.empty()) free_oldest();
  }

 private:
  /// As long as it takes, so that it is not the same malloc each time that comes when a guard may be.
  void work() {
    constexpr uint64_t kWork = kStep / kMallocs;
    EXPECT_TRUE(ok(gpupool_sim_advance(0, kWork / 2 + random_() % kWork)));
  }
  gpupool_ptr_t malloc(uint64_t size) {
    gpupool_ptr_t block = 0;
    EXPECT_TRUE(ok(gpupool_malloc(pool_, size, 0, &block)));
    return block;
  }
  void free(gpupool_ptr_t block) { EXPECT_TRUE(ok(gpupool_free(pool_, block, 0))); }
  void free_oldest() {
    free(live_.front());
    live_.pop_front();
  }

  gpupool_t* pool_;
  std::mt19937_64 random_{1};
  std::deque<gpupool_ptr_t> live_;
};

TEST(Guards, FindAUseAfterFreeInOneOf200StepsWithinAnHour) {
  gpupool_sim_config_t device{};
  device.struct_size = sizeof device;
  device.data = 2;  // addresses only
  ASSERT_TRUE(ok(gpupool_sim_configure(0, &device)));
  ASSERT_TRUE(ok(gpupool_set_debug("guard")));
  // Samples cost real time, of which the test has a thousandth of what it plays: they must not become rarer.
  ASSERT_TRUE(ok(gpupool_set_sampling(kMiB)));
  gpupool_config_t config = pool_test::empty_config();
  config.backend = GPUPOOL_BACKEND_SIM;
  gpupool_t* pool = nullptr;
  ASSERT_TRUE(ok(gpupool_create(&config, &pool)));
  ASSERT_TRUE(ok(gpupool_set_debug("")));

  Training program(pool);
  uint64_t step = 0;
  while (step < kHour / kStep && !program.step(step % kBuggy == kBuggy - 1)) ++step;
  RecordProperty("minutes", static_cast<int>(step * kStep / (kHour / 60)));
  EXPECT_LT(step, kHour / kStep) << "not found";
  program.end();
  EXPECT_TRUE(ok(gpupool_destroy(pool)));
}

}  // namespace
