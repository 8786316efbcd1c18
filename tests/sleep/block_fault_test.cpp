// SPDX-License-Identifier: Apache-2.0
// Every driver call of a block's sleep and wake fails, once, at each of its occurrences. The block is awake
// or asleep, no byte is lost, and the next try succeeds.
#include <array>

#include "block_fixture.hpp"

namespace sleep_test {
namespace {

class BlockScene {
 public:
  explicit BlockScene(gpupool_sleep_mode_t mode) : mode_(mode), pool_(small_chunks()) {
    for (uint64_t i = 0; i < kCount; ++i) {
      blocks_[i] = pool_.malloc(kSizes[i], 3 * i);
      write_pattern(blocks_[i], kSizes[i], i);
    }
    keep();
    sleep_block(pool_, blocks_[0]);  // sleeps on throughout
  }
  ~BlockScene() {
    wake_block(pool_, blocks_[0]);
    for (uint64_t i = 0; i < kCount; ++i) {
      EXPECT_TRUE(has_pattern(blocks_[i], kSizes[i], i)) << i;
      pool_.free(blocks_[i], 3 * i);
    }
  }
  BlockScene(const BlockScene&) = delete;
  BlockScene& operator=(const BlockScene&) = delete;

  gpupool_status_t sleep() {
    const gpupool_sleep_options_t how = options(mode_);
    return gpupool_sleep_block(pool_, blocks_[1], &how, nullptr);
  }
  gpupool_status_t wake() { return gpupool_wake_block(pool_, blocks_[1], nullptr, nullptr); }
  gpupool_status_t sleep_pool() { return try_sleep(pool_); }
  gpupool_status_t free() {
    const gpupool_status_t status = gpupool_free(pool_, blocks_[1], 3);
    if (status == GPUPOOL_SUCCESS) {
      expect_good();
      blocks_[1] = pool_.malloc(kSizes[1], 3);
      write_pattern(blocks_[1], kSizes[1], 1);
      keep();
    }
    return status;
  }
  void expect_good() {
    pool_.validate();
    EXPECT_EQ(state_of(pool_), GPUPOOL_SLEEP_STATE_AWAKE);
    EXPECT_EQ(pool_.info(blocks_[0]).state, GPUPOOL_BLOCK_ASLEEP);
    EXPECT_TRUE(has_pattern(blocks_[2], kSizes[2], 2));
  }
  uint64_t backup_bytes() { return pool_.stats().backup_bytes; }
  void sleep_first() { sleep_block(pool_, blocks_[0]); }
  gpupool_t* pool() { return pool_; }

 private:
  static constexpr size_t kCount = 3;
  /// Calls fail for the second, whose three chunks are a first, one in the middle and a last one.
  static constexpr std::array<uint64_t, kCount> kSizes{2 * kMiB, 4 * kMiB + 64 * kKiB, 2 * kMiB};

  void keep() {
    if (mode_ == GPUPOOL_SLEEP_MODE_DROP) {
      EXPECT_TRUE(ok(gpupool_set_keep(pool_, blocks_[1], 1)));
    }
  }

  gpupool_sleep_mode_t mode_;
  PoolUnderTest pool_;
  std::array<gpupool_ptr_t, kCount> blocks_{};
};

/// Runs act(scene) with the call's nth occurrence failing, for each n until it fails no more.
template <typename Prepare, typename Act>
void with_each_call_failing(Prepare prepare, Act act) {
  for (const gpupool_sleep_mode_t mode : {GPUPOOL_SLEEP_MODE_SAVE, GPUPOOL_SLEEP_MODE_DROP}) {
    for (const char* call : kCalls) {
      for (int n = 1;; ++n) {
        SCOPED_TRACE(std::string(call) + ":" + std::to_string(n) + ", mode " + std::to_string(mode));
        BlockScene scene(mode);
        prepare(scene);
        script(std::string(call) + ":" + std::to_string(n));
        const gpupool_status_t status = act(scene);
        script("");
        scene.expect_good();
        if (status == GPUPOOL_SUCCESS && n > 1) break;
        EXPECT_TRUE(ok(scene.sleep()));
        EXPECT_TRUE(ok(scene.wake()));
        ASSERT_LT(n, 100);
      }
    }
  }
}

TEST_F(Sleep, ABlocksSleepSurvivesEveryFailure) {
  with_each_call_failing([](BlockScene&) {},
                         [](BlockScene& scene) {
                           const uint64_t before = scene.backup_bytes();
                           const gpupool_status_t status = scene.sleep();
                           script("");
                           if (status != GPUPOOL_SUCCESS) {
                             EXPECT_EQ(scene.backup_bytes(), before);
                           }
                           EXPECT_TRUE(ok(scene.wake()));
                           return status;
                         });
}

TEST_F(Sleep, PageLockedMemoryGoesWithWhatNeededIt) {
  PoolUnderTest pool(small_chunks());
  const gpupool_ptr_t block = pool.malloc(8 * kMiB);
  for (const uint64_t prepared : {uint64_t{0}, 2 * kMiB}) {
    ASSERT_TRUE(ok(gpupool_prepare_backup(pool, prepared)));
    for (const char* failing : {"stream:*", "copy:2", "host_wait:1", "unmap:1"}) {
      script(failing);
      const gpupool_status_t status = gpupool_sleep_block(pool, block, nullptr, nullptr);
      script("");
      if (status == GPUPOOL_SUCCESS) {  // the streams are there already
        wake_block(pool, block);
      }
      EXPECT_EQ(pool.stats().backup_bytes, prepared) << failing;
    }
    // A free cannot wait for the driver: the next sleep or wake of the pool does.
    const gpupool_ptr_t passing = pool.malloc(8 * kMiB);
    sleep_block(pool, passing);
    pool.free(passing);
    EXPECT_TRUE(ok(try_wake(pool)));
    EXPECT_EQ(pool.stats().backup_bytes, prepared);
  }
  pool.free(block);
}

TEST_F(Sleep, ABlocksWakeSurvivesEveryFailure) {
  with_each_call_failing([](BlockScene& scene) { EXPECT_TRUE(ok(scene.sleep())); },
                         [](BlockScene& scene) {
                           const gpupool_status_t status = scene.wake();
                           script("");
                           EXPECT_TRUE(ok(scene.wake()));
                           return status;
                         });
}

TEST_F(Sleep, ASleepOfThePoolOverASleepingBlockSurvivesEveryFailure) {
  with_each_call_failing([](BlockScene&) {},
                         [](BlockScene& scene) {
                           const gpupool_status_t status = scene.sleep_pool();
                           script("");
                           if (status == GPUPOOL_SUCCESS) {
                             EXPECT_TRUE(ok(try_wake(scene.pool())));
                             scene.sleep_first();
                           }
                           return status;
                         });
}

TEST_F(Sleep, AFreeAfterAWakeThatFailedSurvivesEveryFailure) {
  with_each_call_failing([](BlockScene& scene) { EXPECT_TRUE(ok(scene.sleep())); },
                         [](BlockScene& scene) {
                           const gpupool_status_t status = scene.wake();
                           script("");
                           EXPECT_TRUE(ok(scene.free()));
                           return status;
                         });
}

}  // namespace
}  // namespace sleep_test
