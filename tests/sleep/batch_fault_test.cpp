// SPDX-License-Identifier: Apache-2.0
// Every driver call fails, once, at each of its occurrences, while several batches of copies are under way:
// in sleeps and wakes of tags, of single blocks, and in wakes block by block. No byte is lost, and the next
// try succeeds.
#include <array>

#include "block_fixture.hpp"

namespace sleep_test {
namespace {

constexpr uint64_t kThreeBatches = 6 * kMiB;

class SleepBatches : public Sleep {
 protected:
  /// Runs act(script), which tells whether anything failed, for the nth occurrence of each call, until n is
  /// beyond what it calls. Returns how often it failed.
  template <typename Act>
  static int fail_each(Act act) {
    int failures = 0;
    for (const char* call : kCalls) {
      // A failure may be no harm: memory that cannot be released stays with its chunk.
      for (int n = 1, harmless = 0; harmless < 2 && !HasFailure(); ++n) {
        SCOPED_TRACE(std::string(call) + ":" + std::to_string(n));
        const bool failed = act(std::string(call) + ":" + std::to_string(n));
        failures += failed ? 1 : 0;
        harmless = failed ? 0 : harmless + 1;
      }
    }
    return failures;
  }

  const Batches batches_{2 * kMiB};
};

/// Two pools of one tag.
class TagScene {
 public:
  TagScene() {
    for (size_t i = 0; i < pools_.size(); ++i) {
      EXPECT_TRUE(ok(gpupool_set_name(pools_[i], "batches")));
      blocks_[i] = pools_[i].malloc(kThreeBatches);
      write_pattern(blocks_[i], kThreeBatches, i);
    }
  }
  ~TagScene() {
    for (size_t i = 0; i < pools_.size(); ++i) pools_[i].free(blocks_[i]);
  }
  TagScene(const TagScene&) = delete;
  TagScene& operator=(const TagScene&) = delete;

  /// All of the tag, whatever happened, and whole.
  void expect(gpupool_sleep_state_t state) {
    for (size_t i = 0; i < pools_.size(); ++i) {
      EXPECT_EQ(state_of(pools_[i]), state) << i;
      pools_[i].validate();
      if (state == GPUPOOL_SLEEP_STATE_AWAKE) {
        EXPECT_TRUE(has_pattern(blocks_[i], kThreeBatches, i)) << i;
      }
    }
  }

 private:
  std::array<PoolUnderTest, 2> pools_{PoolUnderTest(small_chunks()), PoolUnderTest(small_chunks())};
  std::array<gpupool_ptr_t, 2> blocks_{};
};

TEST_F(SleepBatches, ATagsSleepSurvivesEveryFailure) {
  const int failures = fail_each([](const std::string& failing) {
    TagScene scene;
    script(failing);
    const gpupool_status_t status = gpupool_sleep_tag("batches", nullptr, nullptr);
    script("");
    scene.expect(status == GPUPOOL_SUCCESS ? GPUPOOL_SLEEP_STATE_ASLEEP : GPUPOOL_SLEEP_STATE_AWAKE);
    EXPECT_TRUE(ok(gpupool_sleep_tag("batches", nullptr, nullptr)));
    EXPECT_TRUE(ok(gpupool_wake_tag("batches", nullptr, nullptr)));
    scene.expect(GPUPOOL_SLEEP_STATE_AWAKE);
    return status != GPUPOOL_SUCCESS;
  });
  EXPECT_GE(failures, 6 + 6 + 6);  // copies, events behind them, waits for these
}

TEST_F(SleepBatches, ATagsWakeSurvivesEveryFailure) {
  const int failures = fail_each([](const std::string& failing) {
    TagScene scene;
    EXPECT_TRUE(ok(gpupool_sleep_tag("batches", nullptr, nullptr)));
    script(failing);
    const gpupool_status_t status = gpupool_wake_tag("batches", nullptr, nullptr);
    script("");
    scene.expect(status == GPUPOOL_SUCCESS ? GPUPOOL_SLEEP_STATE_AWAKE : GPUPOOL_SLEEP_STATE_ASLEEP);
    EXPECT_TRUE(ok(gpupool_wake_tag("batches", nullptr, nullptr)));
    scene.expect(GPUPOOL_SLEEP_STATE_AWAKE);
    return status != GPUPOOL_SUCCESS;
  });
  EXPECT_GE(failures, 6 * 6);  // and creates, mappings, access
}

// What was written to a block that is back stays, whatever happens to the others.
TEST_F(SleepBatches, AProgressiveWakeSurvivesEveryFailure) {
  const int failures = fail_each([](const std::string& failing) {
    PoolUnderTest pool(small_chunks());
    std::array<gpupool_ptr_t, 2> blocks{};
    for (uint64_t i = 0; i < blocks.size(); ++i) {
      blocks[i] = pool.malloc(kThreeBatches);
      write_pattern(blocks[i], kThreeBatches, i);
    }
    fall_asleep(pool);
    bool failed = false;
    script(failing);
    while (gpupool_wake_block(pool, blocks[1], nullptr, nullptr) != GPUPOOL_SUCCESS) {
      EXPECT_EQ(pool.info(blocks[1]).state, GPUPOOL_BLOCK_ASLEEP);
      failed = true;
    }
    EXPECT_TRUE(has_pattern(blocks[1], kThreeBatches, 1));
    write_pattern(blocks[1], kThreeBatches, 10);
    const gpupool_status_t status = try_wake(pool);
    script("");
    EXPECT_EQ(state_of(pool),
              status == GPUPOOL_SUCCESS ? GPUPOOL_SLEEP_STATE_AWAKE : GPUPOOL_SLEEP_STATE_ASLEEP);
    wake(pool);
    for (uint64_t i = 0; i < blocks.size(); ++i) {
      EXPECT_TRUE(has_pattern(blocks[i], kThreeBatches, 10 * i)) << i;
      pool.free(blocks[i]);
    }
    return failed || status != GPUPOOL_SUCCESS;
  });
  EXPECT_GE(failures, 6 * 6);
}

TEST_F(SleepBatches, ABlocksSleepAndWakeSurviveEveryFailure) {
  const int failures = fail_each([](const std::string& failing) {
    PoolUnderTest pool(small_chunks());
    const gpupool_ptr_t block = pool.malloc(kThreeBatches);
    write_pattern(block, kThreeBatches, 1);
    script(failing);
    const gpupool_status_t slept = gpupool_sleep_block(pool, block, nullptr, nullptr);
    if (slept != GPUPOOL_SUCCESS) {
      EXPECT_TRUE(has_pattern(block, kThreeBatches, 1));
    }
    const gpupool_status_t woken = gpupool_wake_block(pool, block, nullptr, nullptr);
    script("");
    wake(pool);
    EXPECT_TRUE(has_pattern(block, kThreeBatches, 1));
    EXPECT_EQ(pool.stats().backup_bytes, 0u);
    pool.free(block);
    return slept != GPUPOOL_SUCCESS || woken != GPUPOOL_SUCCESS;
  });
  EXPECT_GE(failures, 3 * 6);
}

}  // namespace
}  // namespace sleep_test
