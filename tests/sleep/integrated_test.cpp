// SPDX-License-Identifier: Apache-2.0
// Devices without memory of their own: saved contents would stay in the memory that a sleep gives back.
#include "sleep_fixture.hpp"

namespace sleep_test {
namespace {

class Integrated : public Sleep {
 protected:
  void SetUp() override {
    setenv("GPUPOOL_SIM", "integrated=1", 1);
    Sleep::SetUp();
    unsetenv("GPUPOOL_SIM");
  }
  void TearDown() override {
    Sleep::TearDown();
    restart();
  }

  static testing::AssertionResult saving_refused(gpupool_status_t status) {
    const testing::AssertionResult result = refused(GPUPOOL_ERROR_UNSUPPORTED, status);
    if (!result || last_message().find("uses the host's memory") != std::string::npos) return result;
    return testing::AssertionFailure() << last_message();
  }
};

TEST_F(Integrated, SavesNothingAndStaysAwake) {
  PoolUnderTest pool(sim_config());
  const gpupool_ptr_t block = pool.malloc(8 * kMiB);
  write_pattern(block, 8 * kMiB, 1);
  ASSERT_TRUE(ok(gpupool_set_name(pool, "integrated")));
  EXPECT_TRUE(saving_refused(try_sleep(pool)));
  EXPECT_TRUE(saving_refused(gpupool_sleep(pool, nullptr, nullptr)));
  EXPECT_TRUE(saving_refused(gpupool_sleep_tag("integrated", nullptr, nullptr)));
  EXPECT_TRUE(saving_refused(gpupool_sleep_block(pool, block, nullptr, nullptr)));
  EXPECT_TRUE(saving_refused(gpupool_allow_sleep(pool, nullptr)));
  gpupool_sleep_options_t target = options();
  target.target_bytes = 2 * kMiB;
  EXPECT_TRUE(saving_refused(gpupool_sleep(pool, &target, nullptr)));
  EXPECT_TRUE(saving_refused(gpupool_sleep_tag("integrated", &target, nullptr)));
  EXPECT_EQ(state_of(pool), GPUPOOL_SLEEP_STATE_AWAKE);
  EXPECT_TRUE(has_pattern(block, 8 * kMiB, 1));
  pool.free(block);
}

TEST_F(Integrated, DropsAllButWhatIsKept) {
  PoolUnderTest pool(sim_config());
  const gpupool_ptr_t kept = pool.malloc(4 * kMiB);
  const gpupool_ptr_t block = pool.malloc(64 * kMiB);
  write_pattern(kept, 4 * kMiB, 2);
  ASSERT_TRUE(ok(gpupool_set_keep(pool, kept, 1)));
  const uint64_t free = device_free();
  const gpupool_sleep_result_t slept = fall_asleep(pool, GPUPOOL_SLEEP_MODE_DROP);
  EXPECT_EQ(slept.saved_bytes, 4 * kMiB);
  EXPECT_EQ(device_free(), free + slept.released_bytes - pool.stats().backup_bytes) << "there is one memory";
  wake(pool);
  EXPECT_TRUE(has_pattern(kept, 4 * kMiB, 2));
  pool.free(kept);
  pool.free(block);
}

TEST_F(Integrated, PinnedMemoryIsTheDevices) {
  gpupool_config_t config = sim_config();
  config.mode = GPUPOOL_MODE_AUTO;
  config.kind = GPUPOOL_KIND_PINNED;
  PoolUnderTest pool(config);
  const uint64_t free = device_free();
  const gpupool_ptr_t block = pool.malloc(32 * kMiB);
  EXPECT_EQ(device_free(), free - pool.reserved());
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OUT_OF_MEMORY, pool.try_malloc(kCapacity)));
  EXPECT_NE(last_message().find("the host is out of memory"), std::string::npos) << last_message();
  pool.free(block);
}

}  // namespace
}  // namespace sleep_test
