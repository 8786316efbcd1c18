// SPDX-License-Identifier: Apache-2.0
// Every driver call of a sleep with a target fails, once, at each of its occurrences. Each block is awake or
// asleep, no byte is lost, and the next try succeeds.
#include <array>

#include "block_fixture.hpp"

namespace sleep_test {
namespace {

/// Blocks on two streams, one of which slept before, cached memory, and work under way.
class TargetScene {
 public:
  explicit TargetScene(gpupool_sleep_mode_t mode) : mode_(mode), pool_(small_chunks()) {
    for (uint64_t i = 0; i < kCount; ++i) {
      blocks_[i] = pool_.malloc(kSize, i % 2 * 3);
      write_pattern(blocks_[i], kSize, i);
      EXPECT_TRUE(ok(gpupool_set_keep(pool_, blocks_[i], 1)));
    }
    dropped_ = pool_.malloc(kSize);
    sleep_block(pool_, blocks_[1]);
    const gpupool_ptr_t cached = pool_.malloc(4 * kMiB, 3);
    EXPECT_TRUE(ok(gpupool_sim_work(kDevice, 3, cached, 4 * kMiB, 1'000'000)));
    pool_.free(cached, 3);
  }
  ~TargetScene() {
    wake(pool_);
    for (uint64_t i = 0; i < kCount; ++i) {
      EXPECT_TRUE(has_pattern(blocks_[i], kSize, i)) << i;
      pool_.free(blocks_[i], i % 2 * 3);
    }
    pool_.free(dropped_);
  }
  TargetScene(const TargetScene&) = delete;
  TargetScene& operator=(const TargetScene&) = delete;

  gpupool_status_t sleep(uint64_t bytes) {
    const gpupool_sleep_options_t how = target_options(bytes, mode_);
    return gpupool_sleep(pool_, &how, nullptr);
  }

  /// What is awake has its bytes now; the rest must have them at the end.
  void expect_good() {
    pool_.validate();
    EXPECT_EQ(state_of(pool_), GPUPOOL_SLEEP_STATE_AWAKE);
    EXPECT_EQ(pool_.info(blocks_[1]).state, GPUPOOL_BLOCK_ASLEEP);
    for (uint64_t i = 0; i < kCount; ++i) {
      if (pool_.info(blocks_[i]).state == GPUPOOL_BLOCK_ASLEEP) continue;
      EXPECT_TRUE(has_pattern(blocks_[i], kSize, i)) << i;
    }
  }
  void use() { pool_.free(pool_.malloc(3 * kMiB, 3), 3); }
  void free_all() {
    for (uint64_t i = 0; i < kCount; ++i) {
      pool_.free(blocks_[i], i % 2 * 3);
      pool_.validate();
      blocks_[i] = pool_.malloc(kSize, i % 2 * 3);
      write_pattern(blocks_[i], kSize, i);
    }
  }

 private:
  static constexpr size_t kCount = 4;
  static constexpr uint64_t kSize = 5 * kMiB;

  gpupool_sleep_mode_t mode_;
  PoolUnderTest pool_;
  std::array<gpupool_ptr_t, kCount> blocks_{};
  gpupool_ptr_t dropped_ = 0;
};

template <typename Then>
void with_each_call_of_a_target_failing(Then then) {
  for (const gpupool_sleep_mode_t mode : {GPUPOOL_SLEEP_MODE_SAVE, GPUPOOL_SLEEP_MODE_DROP}) {
    for (const char* call : kCalls) {
      for (int n = 1;; ++n) {
        SCOPED_TRACE(std::string(call) + ":" + std::to_string(n) + ", mode " + std::to_string(mode));
        TargetScene scene(mode);
        script(std::string(call) + ":" + std::to_string(n));
        const gpupool_status_t status = scene.sleep(16 * kMiB);
        script("");
        scene.expect_good();
        then(scene);
        if (status == GPUPOOL_SUCCESS && n > 1) break;
        ASSERT_LT(n, 200);
      }
    }
  }
}

TEST_F(Sleep, ATargetSurvivesEveryFailure) {
  with_each_call_of_a_target_failing([](TargetScene& scene) {
    scene.use();
    EXPECT_TRUE(ok(scene.sleep(8 * kMiB)));
    scene.expect_good();
  });
}

TEST_F(Sleep, FreesAfterATargetThatFailedLoseNothing) {
  with_each_call_of_a_target_failing([](TargetScene& scene) { scene.free_all(); });
}

TEST_F(Sleep, ATargetSurvivesFailuresThatLast) {
  for (const char* call : kCalls) {
    SCOPED_TRACE(call);
    TargetScene scene(GPUPOOL_SLEEP_MODE_SAVE);
    script(std::string(call) + ":*");
    (void)scene.sleep(16 * kMiB);
    script("");
    scene.expect_good();
    EXPECT_TRUE(ok(scene.sleep(16 * kMiB)));
  }
}

}  // namespace
}  // namespace sleep_test
