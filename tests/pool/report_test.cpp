// SPDX-License-Identifier: Apache-2.0
// What the report, and the message of a failed malloc, say of free memory: as statistics count it, and as the
// next malloc finds it.
#include "pool/pool_under_test.hpp"

namespace pool_test {
namespace {

class Reports : public testing::Test {
 protected:
  void SetUp() override { configure_device(0, 2); }

  static gpupool_config_t config(uint32_t flags, uint64_t limit = 0) {
    gpupool_config_t config = empty_config();
    config.backend = GPUPOOL_BACKEND_SIM;
    config.flags = flags;
    config.limit_bytes = limit;
    return config;
  }
  static testing::AssertionResult says(const std::string& text, const char* words) {
    if (text.find(words) != std::string::npos) return testing::AssertionSuccess();
    return testing::AssertionFailure() << '"' << words << "\" is not in: " << text;
  }
  /// A block of a capture of its own, freed again.
  static void capture(PoolUnderTest& pool, gpupool_stream_t stream, uint64_t size) {
    ASSERT_TRUE(ok(gpupool_sim_capture(0, stream, 1)));
    pool.free(pool.malloc(size, stream), stream);
    ASSERT_TRUE(ok(gpupool_sim_capture(0, stream, 0)));
  }
};

TEST_F(Reports, NameWhatCapturedGraphsKeep) {
  PoolUnderTest pool(config(GPUPOOL_FLAG_CAPTURE_AWARE, 256 * kMiB));
  gpupool_stream_t stream = 0;
  ASSERT_TRUE(ok(gpupool_stream_create(pool, &stream)));
  EXPECT_FALSE(says(pool.report(), "raph"));
  for (int i = 0; i < 3; ++i) capture(pool, stream, 50 * kMiB);
  EXPECT_EQ(pool.stats().cached_bytes, 0u);
  ASSERT_EQ(pool.stats().slack_bytes, 150 * kMiB);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, pool.try_malloc(200 * kMiB, stream)));
  for (const std::string& text : {last_message(), pool.report()}) {
    EXPECT_TRUE(says(text, "  0 B cached, of which 0 B is in chunks that no block touches"));
    EXPECT_TRUE(says(text, "the largest free range is 0 B"));
    EXPECT_TRUE(says(text, "Captured graphs keep 150.00 MiB: gpupool_release_capture frees it"));
  }
  ASSERT_TRUE(ok(gpupool_release_stream(pool, stream)));
  ASSERT_TRUE(ok(gpupool_stream_destroy(pool, stream)));
}

TEST_F(Reports, SayThatAGraphMayUseAllOfAPool) {
  PoolUnderTest pool(config(0));
  EXPECT_FALSE(says(pool.report(), "raph"));
  gpupool_stream_t stream = 0;
  ASSERT_TRUE(ok(gpupool_stream_create(pool, &stream)));
  capture(pool, stream, 50 * kMiB);
  EXPECT_TRUE(says(pool.report(), "A graph was captured with this pool's memory, so none of it goes back"));
  ASSERT_TRUE(ok(gpupool_release_stream(pool, stream)));
  ASSERT_TRUE(ok(gpupool_stream_destroy(pool, stream)));
}

TEST_F(Reports, CountWhatThreadsKeepAsFree) {
  PoolUnderTest pool(config(0));
  const gpupool_ptr_t first = pool.malloc(32 * kMiB);
  const gpupool_ptr_t second = pool.malloc(8 * kMiB);
  const gpupool_ptr_t third = pool.malloc(4 * kMiB);
  EXPECT_TRUE(says(pool.report(), "the largest free range is 0 B"));
  pool.free(first);
  EXPECT_TRUE(says(pool.report(), "the largest free range is 32.00 MiB"));
  pool.free(third);
  EXPECT_TRUE(says(pool.report(), "the largest free range is 32.00 MiB"));
  pool.free(second);
  EXPECT_TRUE(says(pool.report(), "the largest free range is 44.00 MiB"));
  const uint64_t hits = pool.stats().hits;
  const gpupool_ptr_t again = pool.malloc(32 * kMiB);
  EXPECT_EQ(pool.stats().hits, hits + 1);
  EXPECT_TRUE(says(pool.report(), "the largest free range is 12.00 MiB"));
  pool.free(again);
  // One malloc gets all of it.
  const uint64_t reserved = pool.reserved();
  pool.free(pool.malloc(44 * kMiB));
  EXPECT_EQ(pool.reserved(), reserved);
}

}  // namespace
}  // namespace pool_test
