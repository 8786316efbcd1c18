// SPDX-License-Identifier: Apache-2.0
// Graphs and their memory (finding D0) in a few lines each, with everything that once unmapped memory that a
// graph needs, and the bugs that captures.cpp and soak.cpp have found since.
#include "attack/lab.hpp"

namespace attack {
namespace {

constexpr int32_t kDevice = 2;

class CaptureThat : public testing::Test {
 protected:
  /// A capture in which memory is taken from itself, then `after`, then a launch that touches all of it.
  template <typename After>
  void run(uint32_t flags, After&& after) {
    configure_device(kDevice, kWithData, kGiB);
    gpupool_config_t config = sim_config(kDevice);
    config.flags = flags;
    PoolUnderTest pool(config);
    gpupool_stream_t stream = 0;
    ASSERT_TRUE(ok(gpupool_stream_create(pool, &stream)));
    ASSERT_TRUE(ok(gpupool_sim_capture(kDevice, stream, 1)));
    const gpupool_ptr_t first = pool.malloc(4 * kMiB, stream);
    const gpupool_ptr_t kept = pool.malloc(4 * kMiB, stream);
    pool.free(first, stream);
    const gpupool_ptr_t second = pool.malloc(8 * kMiB, stream);
    pool.free(second, stream);
    ASSERT_TRUE(ok(gpupool_sim_capture(kDevice, stream, 0)));
    after(pool, stream);
    EXPECT_TRUE(ok(gpupool_sim_work(kDevice, stream, first, 4 * kMiB, 10)));
    EXPECT_TRUE(ok(gpupool_sim_work(kDevice, stream, kept, 4 * kMiB, 10)));
    EXPECT_TRUE(ok(gpupool_sim_work(kDevice, stream, second, 8 * kMiB, 10)));
    EXPECT_TRUE(has_no_faults(kDevice));
    pool.free(kept, stream);
  }

  template <typename After>
  void run_both(After&& after) {
    run(GPUPOOL_FLAG_CAPTURE_AWARE, after);
    run(0, after);
  }
};

TEST_F(CaptureThat, IsFollowedBySynchronize) {
  run_both([](PoolUnderTest& pool, gpupool_stream_t) { pool.synchronize(); });
}
TEST_F(CaptureThat, IsFollowedByGrowth) {
  run_both([](PoolUnderTest& pool, gpupool_stream_t stream) {
    pool.free(pool.malloc(40 * kMiB, stream), stream);
  });
}
TEST_F(CaptureThat, IsFollowedByTrim) {
  run_both([](PoolUnderTest& pool, gpupool_stream_t) { pool.trim(~uint64_t{0}); });
}
TEST_F(CaptureThat, IsFollowedByEmpty) {
  run_both([](PoolUnderTest& pool, gpupool_stream_t) { pool.empty(); });
}
/// A pool that ends while a stream that it has seen captures for somebody else: what it cannot give back
/// then comes back later, when another pool looks for memory.
void end_in_capture(bool with_last_free, bool busy) {
  configure_device(kDevice, kAddressesOnly, kGiB);
  PoolUnderTest other(sim_config(kDevice));
  const uint64_t free_at_start = free_on_device(kDevice);
  {
    PoolUnderTest pool(sim_config(kDevice));
    const gpupool_ptr_t block = pool.malloc(40 * kMiB, 11);
    pool.free(pool.malloc(60 * kMiB, 11), 11);
    pool.free(pool.malloc(100, 11), 12);
    if (busy) {
      ASSERT_TRUE(ok(gpupool_sim_work(kDevice, 11, block, 40 * kMiB, 1'000'000)));
    }
    if (!with_last_free) pool.free(block, 11);
    if (!with_last_free) {
      ASSERT_TRUE(ok(gpupool_sim_capture(kDevice, 11, 1)));
    }
    gpupool_t* const handle = pool.give_up();
    ASSERT_TRUE(ok(gpupool_destroy(handle)));
    if (with_last_free) {
      ASSERT_TRUE(ok(gpupool_sim_capture(kDevice, 11, 1)));
      ASSERT_TRUE(ok(gpupool_free(handle, block, kUnknownStream)));
    }
  }
  ASSERT_TRUE(ok(gpupool_sim_capture(kDevice, 11, 0)));
  ASSERT_TRUE(ok(gpupool_sim_advance(kDevice, 2'000'000)));
  other.free(other.malloc(kGiB, 13), 13);
  other.empty();
  EXPECT_EQ(free_on_device(kDevice), free_at_start);
  EXPECT_TRUE(has_no_faults(kDevice));
}

TEST(PoolThatEndsInACapture, IsDestroyed) {
  end_in_capture(false, false);
}
TEST(PoolThatEndsInACapture, IsDestroyedBusy) {
  end_in_capture(false, true);
}
TEST(PoolThatEndsInACapture, LosesItsLastBlock) {
  end_in_capture(true, true);
}

// What is live when its capture is released is like any other block: its stream may go on using it.
TEST(ReleasedCapture, LeavesBlocksLikeAnyOthers) {
  configure_device(kDevice, kWithData, kGiB);
  gpupool_config_t config = sim_config(kDevice);
  config.flags = GPUPOOL_FLAG_CAPTURE_AWARE;
  PoolUnderTest pool(config);
  ASSERT_TRUE(ok(gpupool_sim_capture(kDevice, 11, 1)));
  uint64_t capture = 0;
  ASSERT_TRUE(ok(gpupool_capture_id(pool, 11, &capture)));
  const gpupool_ptr_t block = pool.malloc(4 * kMiB, 11);
  ASSERT_TRUE(ok(gpupool_sim_capture(kDevice, 11, 0)));
  ASSERT_TRUE(ok(gpupool_release_capture(pool, capture)));
  ASSERT_TRUE(ok(gpupool_sim_work(kDevice, 11, block, 4 * kMiB, 1'000'000)));
  pool.free(block, 12);
  const gpupool_ptr_t other = pool.malloc(4 * kMiB, 12);  // not what stream 11 is still using, or after it
  EXPECT_TRUE(ok(gpupool_sim_work(kDevice, 12, other, 4 * kMiB, 10)));
  pool.free(other, 12);
  pool.empty();
  EXPECT_EQ(pool.reserved(), 0u);
  EXPECT_TRUE(has_no_faults(kDevice));
}

TEST_F(CaptureThat, IsFollowedByAnotherPoolsShortage) {
  run_both([](PoolUnderTest&, gpupool_stream_t) {
    PoolUnderTest other(sim_config(kDevice));
    (void)other.try_malloc(2 * kGiB);
    other.free(other.malloc(900 * kMiB));
  });
}

}  // namespace
}  // namespace attack
