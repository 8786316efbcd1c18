// SPDX-License-Identifier: Apache-2.0
// gpupool.hpp: pools, limits and watching.
#include <gtest/gtest.h>

#include <gpupool/gpupool.hpp>

#include "cpp/fixture.hpp"

namespace {

using gpupool::Block;
using gpupool::Pool;

TEST(Pool, OwnsItsHandle) {
  static_assert(!std::is_copy_constructible_v<Pool> && !std::is_copy_assignable_v<Pool>);
  static_assert(std::is_nothrow_move_constructible_v<Pool> && std::is_nothrow_move_assignable_v<Pool>);
  gpupool_t* handle = nullptr;
  {
    Pool pool(kSim);
    handle = pool.handle();
    Pool moved(std::move(pool));
    EXPECT_EQ(moved.handle(), handle);
    EXPECT_EQ(pool.handle(), nullptr);  // NOLINT(bugprone-use-after-move): that is the promise
    EXPECT_EQ(gpupool_synchronize(handle), GPUPOOL_SUCCESS);
  }
  EXPECT_EQ(gpupool_synchronize(handle), GPUPOOL_ERROR_INVALID_ARGUMENT);
}

TEST(Pool, ChildrenOutliveTheirParent) {
  Pool pool(kSim);
  Pool child = pool.create_child();
  EXPECT_EQ(gpupool_set_limit(child.handle(), 1 << 26), GPUPOOL_ERROR_INVALID_ARGUMENT);
  pool = Pool(kSim);
  EXPECT_EQ(gpupool_synchronize(child.handle()), GPUPOOL_SUCCESS);
}

TEST(Pool, AssignmentDestroysTheOldOne) {
  Pool pool(kSim);
  gpupool_t* const old = pool.handle();
  pool = Pool(kSim);
  EXPECT_EQ(gpupool_synchronize(old), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpupool_synchronize(pool.handle()), GPUPOOL_SUCCESS);
  Pool& same = pool;
  pool = std::move(same);
  EXPECT_EQ(gpupool_synchronize(pool.handle()), GPUPOOL_SUCCESS);
}

TEST(Pool, DefaultPoolIsSharedAndStays) {
  gpupool_t* handle = nullptr;
  {
    Pool first = Pool::shared_default();
    const Pool second = Pool::shared_default(0);
    EXPECT_EQ(first.handle(), second.handle());
    handle = first.handle();
    // An owner that is assigned from a borrower lets its own pool go, and borrows.
    Pool owner(kSim);
    owner = std::move(first);
    EXPECT_EQ(owner.handle(), handle);
  }
  EXPECT_EQ(gpupool_synchronize(handle), GPUPOOL_SUCCESS);
}

TEST(Pool, ConfigReachesTheLibrary) {
  EXPECT_EQ(Pool({.backend = gpupool::Backend::sim, .limit_bytes = 64 << 20}).stats().limit_bytes, 64u << 20);
  const Pool other({.device = 3, .backend = gpupool::Backend::sim, .fraction = 0.5});
  EXPECT_EQ(other.stats().device, 3);
  EXPECT_EQ(other.stats().limit_bytes, gpupool::device_info(3, gpupool::Backend::sim).total_bytes / 2);

  Pool segments({.backend = gpupool::Backend::sim, .mode = gpupool::Mode::driver});
  const Block block(segments, 1000);
  EXPECT_EQ(segments.stats().driver.malloc.count, 1u);
  EXPECT_EQ(segments.stats().driver.create.count, 0u);

  Pool asking({.backend = gpupool::Backend::sim, .capture_aware = true});
  const Block asked(asking, 1000);
  EXPECT_GT(asking.stats().driver.query.count, 0u);
}

int32_t no_memory(void* user, uint64_t, gpupool_stream_t, gpupool_ptr_t*) {
  ++*static_cast<int*>(user);
  return 1;
}
void never(void*, gpupool_ptr_t, uint64_t, gpupool_stream_t) {}

TEST(Pool, UpstreamIsAsked) {
  int asked = 0;
  Pool pool({.backend = gpupool::Backend::sim,
             .mode = gpupool::Mode::upstream,
             .upstream_malloc = no_memory,
             .upstream_free = never,
             .upstream_user = &asked});
  EXPECT_THROW((void)pool.allocate(1000), gpupool::OutOfMemory);
  EXPECT_GT(asked, 0);
}

TEST(Pool, BadConfigIsRefused) {
  expect_error(GPUPOOL_ERROR_INVALID_ARGUMENT,
               [] { Pool({.backend = gpupool::Backend::sim, .fraction = 1.5}); });
  expect_error(GPUPOOL_ERROR_INVALID_ARGUMENT,
               [] { Pool({.device = 1000, .backend = gpupool::Backend::sim}); });
  const int32_t missing[] = {1000};
  expect_error(GPUPOOL_ERROR_INVALID_ARGUMENT,
               [&] { Pool({.backend = gpupool::Backend::sim, .peers = missing}); });
}

TEST(Pool, MemoryIsKeptAndGivenBack) {
  Pool pool(kSim);
  pool.reserve(32 << 20);
  EXPECT_GE(pool.stats().all.reserved_bytes.current, 32u << 20);
  const uint64_t reserved = pool.stats().all.reserved_bytes.current;
  const uint64_t trimmed = pool.trim(16 << 20);
  EXPECT_EQ(pool.stats().all.reserved_bytes.current, reserved - trimmed);
  EXPECT_EQ(pool.empty(), reserved - trimmed);
  EXPECT_EQ(pool.stats().all.reserved_bytes.current, 0u);
  pool.reset_peaks();
  EXPECT_EQ(pool.stats().all.reserved_bytes.peak, 0u);
}

TEST(Pool, LimitThrowsOutOfMemory) {
  Pool pool(kSim);
  pool.set_limit(8 << 20);
  try {
    (void)pool.allocate(64 << 20);
    FAIL() << "no exception";
  } catch (const gpupool::OutOfMemory& error) {
    EXPECT_EQ(error.status(), GPUPOOL_ERROR_OVER_LIMIT);
    EXPECT_EQ(std::string(error.what()).find("GPUPOOL_ERROR_OVER_LIMIT: malloc of 67108864 bytes"), 0u);
  }
  pool.set_fraction(1);
  pool.deallocate(pool.allocate(64 << 20));
  pool.set_limit(0);
  EXPECT_EQ(pool.stats().limit_bytes, 0u);
}

TEST(Pool, HandlerIsAskedAndCleared) {
  Pool pool({.backend = gpupool::Backend::sim, .limit_bytes = 8 << 20});
  Block spare(pool, 8 << 20);
  uint64_t wanted = 0;
  auto handler = [&](uint64_t bytes, uint32_t attempt) {
    wanted = bytes;
    spare.reset();
    return attempt == 1;
  };
  pool.set_oom_handler(handler);
  const Block block(pool, 4 << 20);
  EXPECT_EQ(wanted, 4u << 20);
  EXPECT_EQ(pool.stats().oom_handler_calls, 1u);

  const auto never_again = [](uint64_t, uint32_t) { return false; };
  pool.set_oom_handler(never_again);
  EXPECT_THROW(Block(pool, 8 << 20), gpupool::OutOfMemory);
  EXPECT_EQ(pool.stats().oom_handler_calls, 2u);
  pool.clear_oom_handler();
  EXPECT_THROW(Block(pool, 8 << 20), gpupool::OutOfMemory);
  EXPECT_EQ(pool.stats().oom_handler_calls, 2u);
}

TEST(Pool, SnapshotAndReportAreWhole) {
  Pool pool(kSim);
  EXPECT_TRUE(pool.snapshot().segments.empty());
  const Block small(pool, 1000);
  const Block large(pool, 3 << 20);
  const gpupool::Snapshot snapshot = pool.snapshot();
  uint64_t live = 0;
  for (const gpupool_block_t& block : snapshot.blocks) {
    if (block.state == GPUPOOL_BLOCK_LIVE) live += block.requested_bytes;
  }
  EXPECT_EQ(live, small.size() + large.size());
  uint64_t mapped = 0;
  for (const gpupool_segment_t& segment : snapshot.segments) mapped += segment.size_bytes;
  EXPECT_EQ(mapped, pool.stats().all.reserved_bytes.current);

  const std::string report = pool.report();
  EXPECT_NE(report.find("2 live blocks"), std::string::npos);
  EXPECT_EQ(report.find('\0'), std::string::npos);
  pool.validate();
}

TEST(Errors, KeepTheDriversNumber) {
  const SimScript script("create:*=error");
  Pool pool(kSim);
  try {
    (void)pool.allocate(1000);
    FAIL() << "no exception";
  } catch (const gpupool::OutOfMemory&) {
    FAIL() << "an error of the driver is no shortage";
  } catch (const gpupool::Error& error) {
    EXPECT_EQ(error.status(), GPUPOOL_ERROR_DRIVER);
    EXPECT_NE(error.driver_code(), 0);
  }
}

TEST(Errors, CheckPassesSuccess) {
  EXPECT_NO_THROW(gpupool::check(GPUPOOL_SUCCESS));
  expect_error(GPUPOOL_ERROR_INVALID_ARGUMENT, [] { gpupool::check(gpupool_synchronize(nullptr)); });
}

TEST(Devices, AreCountedAndDescribed) {
  EXPECT_EQ(gpupool::device_count(gpupool::Backend::sim), 8);
  EXPECT_EQ(gpupool::device_info(1, gpupool::Backend::sim).device, 1);
  expect_error(GPUPOOL_ERROR_INVALID_ARGUMENT,
               [] { (void)gpupool::device_info(1000, gpupool::Backend::sim); });
}

}  // namespace
