// SPDX-License-Identifier: Apache-2.0
// Debug modes while a capture is announced: a free queues nothing and leaves no event, wherever it comes
// from.
#include <string>

#include "pool/pool_under_test.hpp"

namespace {

using pool_test::kMiB;
using pool_test::ok;
using pool_test::PoolUnderTest;

class DebugBesideAnnouncedCaptures : public testing::Test {
 protected:
  void SetUp() override {
    pool_test::configure_device(0, 1);
    ASSERT_TRUE(ok(gpupool_set_debug("poison,canary,quarantine=1MiB")));
  }
  void TearDown() override { EXPECT_TRUE(ok(gpupool_set_debug(""))); }

  static gpupool_config_t config() {
    gpupool_config_t config = pool_test::empty_config();
    config.backend = GPUPOOL_BACKEND_SIM;
    return config;
  }
  static uint32_t word(gpupool_ptr_t address) { return *reinterpret_cast<uint32_t*>(address); }
  static bool has_left_out(gpupool_t* pool) {
    std::string text(8192, '\0');
    uint64_t count = 0;
    EXPECT_TRUE(ok(gpupool_check(pool, &count, text.data(), text.size())));
    EXPECT_EQ(count, 0U) << text;
    return text.find("were left out") != std::string::npos;
  }
};

TEST_F(DebugBesideAnnouncedCaptures, OnlyAMallocTouchesItsStream) {
  PoolUnderTest pool(config());
  EXPECT_TRUE(ok(gpupool_announce_capture(pool, 1)));
  const gpupool_ptr_t block = pool.malloc(4 * kMiB);
  EXPECT_EQ(word(block), 0x7fff7fffU);
  const gpupool_stats_t before = pool.stats();
  pool.free(block);
  EXPECT_EQ(word(block), 0x7fff7fffU);
  EXPECT_EQ(pool.stats().driver.event_record.count, before.driver.event_record.count);
  EXPECT_EQ(pool.stats().copy.count, before.copy.count);
  EXPECT_TRUE(has_left_out(pool));
  EXPECT_TRUE(ok(gpupool_announce_capture(pool, 0)));
  const gpupool_ptr_t later = pool.malloc(4 * kMiB);
  pool.free(later);
  EXPECT_EQ(word(later), 0xfffefffeU);
  EXPECT_GT(pool.stats().driver.event_record.count, before.driver.event_record.count);
}

}  // namespace
