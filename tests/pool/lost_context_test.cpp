// SPDX-License-Identifier: Apache-2.0
// What becomes of pools when their context is reset or destroyed, on the stand-in driver.
#include <array>

#include "fake_cuda/fake_cuda.hpp"
#include "pool/pool_under_test.hpp"

namespace pool_test {
namespace {

class LostContext : public testing::TestWithParam<gpupool_mode_t> {
 protected:
  void SetUp() override { setenv("GPUPOOL_LIBCUDA", FAKE_CUDA_LIBRARY, 1); }
  void TearDown() override {
    fake_cuda().reset();
    const FakeCudaLive live = fake_cuda().live();
    EXPECT_EQ(live.chunks, 0u);
    EXPECT_EQ(live.mappings, 0u);
    EXPECT_EQ(live.allocations, 0u);
    EXPECT_EQ(fake_cuda().faults(), 0u);
    EXPECT_EQ(fake_cuda().context_depth(), 0);
  }

  static gpupool_t* create() {
    gpupool_config_t config = empty_config();
    config.backend = GPUPOOL_BACKEND_CUDA;
    config.mode = GetParam();
    gpupool_t* pool = nullptr;
    EXPECT_TRUE(ok(gpupool_create(&config, &pool)));
    return pool;
  }
  static testing::AssertionResult is_told(gpupool_status_t status) {
    const testing::AssertionResult result = refused(GPUPOOL_ERROR_DRIVER, status);
    if (!result) return result;
    if (last_driver_code() != 709) return testing::AssertionFailure() << last_driver_code();
    const bool is_named = last_message().find("reset or destroyed") != std::string::npos;
    return is_named ? testing::AssertionSuccess() : testing::AssertionFailure() << last_message();
  }
};
INSTANTIATE_TEST_SUITE_P(In, LostContext, testing::Values(GPUPOOL_MODE_VMM, GPUPOOL_MODE_DRIVER));

TEST_P(LostContext, AnotherContextsEndLeavesThePoolWhole) {
  gpupool_t* const pool = create();
  void* const other = fake_cuda().create_context(0);
  const uintptr_t stream = fake_cuda().create_blocking_stream(other);
  const uintptr_t unreleased = fake_cuda().create_blocking_stream(other);
  std::array<gpupool_ptr_t, 3> blocks{};
  for (gpupool_ptr_t& block : blocks) ASSERT_TRUE(ok(gpupool_malloc(pool, 5 * kMiB, stream, &block)));
  ASSERT_TRUE(ok(gpupool_record_stream(pool, blocks[1], unreleased)));
  fake_cuda().hold(stream);
  fake_cuda().hold(unreleased);
  for (const gpupool_ptr_t block : blocks) ASSERT_TRUE(ok(gpupool_free(pool, block, stream)));
  ASSERT_TRUE(ok(gpupool_release_stream(pool, stream)));
  fake_cuda().end_context(other);
  EXPECT_TRUE(ok(gpupool_synchronize(pool)));
  gpupool_ptr_t block = 0;
  EXPECT_TRUE(ok(gpupool_malloc(pool, 6 * kMiB, 0, &block)));
  EXPECT_TRUE(ok(gpupool_free(pool, block, 0)));
  EXPECT_TRUE(ok(gpupool_empty(pool, nullptr)));
  gpupool_stats_t stats{};
  stats.struct_size = sizeof stats;
  ASSERT_TRUE(ok(gpupool_stats(pool, &stats)));
  EXPECT_EQ(stats.all.reserved_bytes.current, 0u);
  EXPECT_TRUE(ok(gpupool_validate(pool)));
  EXPECT_TRUE(ok(gpupool_destroy(pool)));
}

TEST_P(LostContext, MallocsFailByNameAndFreesSucceed) {
  gpupool_t* const pool = create();
  gpupool_stream_t stream = 0;
  ASSERT_TRUE(ok(gpupool_stream_create(pool, &stream)));
  std::array<gpupool_ptr_t, 4> blocks{};
  for (gpupool_ptr_t& block : blocks) ASSERT_TRUE(ok(gpupool_malloc(pool, 5 * kMiB, stream, &block)));
  gpupool_ptr_t cached = 0;
  ASSERT_TRUE(ok(gpupool_malloc(pool, kMiB, stream, &cached)));
  ASSERT_TRUE(ok(gpupool_free(pool, cached, stream)));
  ASSERT_TRUE(ok(gpupool_record_stream(pool, blocks[0], 0)));
  ASSERT_TRUE(ok(gpupool_free(pool, blocks[0], stream)));
  fake_cuda().end_context(nullptr);
  gpupool_ptr_t block = 1;
  EXPECT_TRUE(is_told(gpupool_malloc(pool, 900 * kMiB, stream, &block)));
  EXPECT_EQ(block, 0u);
  // From here on, a malloc that a cache could serve fails too.
  EXPECT_TRUE(is_told(gpupool_malloc(pool, kMiB, stream, &block)));
  EXPECT_TRUE(is_told(gpupool_synchronize(pool)));
  gpupool_stats_t stats{};
  stats.struct_size = sizeof stats;
  EXPECT_TRUE(ok(gpupool_stats(pool, &stats)));
  EXPECT_TRUE(ok(gpupool_free(pool, blocks[1], stream)));
  EXPECT_TRUE(ok(gpupool_free(pool, blocks[2], GPUPOOL_STREAM_UNKNOWN)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, gpupool_free(pool, blocks[2], stream)));
  EXPECT_TRUE(ok(gpupool_destroy(pool)));
  EXPECT_TRUE(ok(gpupool_free(pool, blocks[3], stream)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_free(pool, blocks[3], stream)));

  PoolUnderTest anew(create());
  anew.free(anew.malloc(40 * kMiB));
}

TEST_P(LostContext, IsNoticedByAllPoolsThoughSomebodyHasMadeItAnew) {
  gpupool_t* const first = create();
  gpupool_t* const second = create();
  gpupool_ptr_t block = 0;
  ASSERT_TRUE(ok(gpupool_malloc(second, kMiB, 0, &block)));
  ASSERT_TRUE(ok(gpupool_free(second, block, 0)));
  fake_cuda().end_context(nullptr);
  PoolUnderTest anew(create());
  EXPECT_TRUE(is_told(gpupool_malloc(first, 900 * kMiB, 0, &block)));
  EXPECT_TRUE(is_told(gpupool_malloc(second, kMiB, 0, &block)));
  anew.free(anew.malloc(kMiB));
  for (gpupool_t* const pool : {first, second}) EXPECT_TRUE(ok(gpupool_destroy(pool)));
}

TEST_P(LostContext, TheDefaultPoolIsMadeAnew) {
  setenv("GPUPOOL_BACKEND", "cuda", 1);
  gpupool_t* pool = nullptr;
  ASSERT_TRUE(ok(gpupool_default_pool(0, &pool)));
  gpupool_ptr_t live = 0;
  gpupool_ptr_t block = 0;
  ASSERT_TRUE(ok(gpupool_malloc(pool, 5 * kMiB, 0, &live)));
  fake_cuda().end_context(nullptr);
  EXPECT_TRUE(is_told(gpupool_malloc(pool, 900 * kMiB, 0, &block)));
  gpupool_t* anew = nullptr;
  ASSERT_TRUE(ok(gpupool_default_pool(0, &anew)));
  EXPECT_NE(anew, pool);
  ASSERT_TRUE(ok(gpupool_malloc(anew, 5 * kMiB, 0, &block)));
  EXPECT_TRUE(ok(gpupool_free(pool, live, 0)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_malloc(pool, kMiB, 0, &live)));
  EXPECT_TRUE(ok(gpupool_free(anew, block, 0)));
  EXPECT_TRUE(ok(gpupool_empty(anew, nullptr)));
  gpupool_t* same = nullptr;
  ASSERT_TRUE(ok(gpupool_default_pool(0, &same)));
  EXPECT_EQ(same, anew);
  // Once more, so that this one's addresses go too.
  fake_cuda().end_context(nullptr);
  EXPECT_TRUE(is_told(gpupool_malloc(anew, 900 * kMiB, 0, &block)));
  ASSERT_TRUE(ok(gpupool_default_pool(0, &anew)));
  EXPECT_NE(anew, same);
  EXPECT_EQ(fake_cuda().live().reservations, 0u);
  unsetenv("GPUPOOL_BACKEND");
}

}  // namespace
}  // namespace pool_test
