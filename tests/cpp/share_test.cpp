// SPDX-License-Identifier: Apache-2.0
// gpupool/share.hpp.
#include <gtest/gtest.h>

#include <cstdlib>
#include <gpupool/share.hpp>

#include "cpp/fixture.hpp"
#include "support/own_folder.hpp"

namespace {

using gpupool::Pool;
using gpupool::ShareFigure;
using gpupool::ShareGroup;

constexpr uint64_t kGiB = uint64_t{1} << 30;

class Share : public testing::Test {
 protected:
  Share() { setenv("GPUPOOL_SHARE_DIR", folder_.path().c_str(), 1); }
  ~Share() override { unsetenv("GPUPOOL_SHARE_DIR"); }

  const ShareGroup team_{.name = "team", .backend = gpupool::Backend::sim};
  const OwnFolder folder_;
};

TEST_F(Share, AMemberIsSeenFromOutside) {
  expect_error(GPUPOOL_ERROR_UNAVAILABLE, [&] { (void)gpupool::share_info(team_); });
  Pool pool({.backend = gpupool::Backend::sim, .share = "team", .guaranteed_bytes = kGiB, .priority = 2});
  EXPECT_EQ(pool.stats().share_state, GPUPOOL_SHARE_STATE_SHARED);
  const gpupool_ptr_t block = pool.allocate(2 * kMiB);
  const gpupool::ShareInfo info = gpupool::share_info(team_);
  EXPECT_EQ(info.share.used_bytes, kGiB);
  ASSERT_EQ(info.members.size(), 1U);
  EXPECT_EQ(info.members[0].guaranteed_bytes, kGiB);
  EXPECT_EQ(info.members[0].priority, 2);
  EXPECT_GE(info.members[0].reserved_bytes, 2 * kMiB);
  pool.deallocate(block);
}

TEST_F(Share, LimitsAreSetFromOutside) {
  Pool pool({.backend = gpupool::Backend::sim, .share = "team"});
  gpupool::share_set(team_, ShareFigure::limit, static_cast<int64_t>(64 * kMiB));
  EXPECT_EQ(gpupool::share_info(team_).share.limit_bytes, 64 * kMiB);
  EXPECT_THROW((void)pool.allocate(128 * kMiB), gpupool::OutOfMemory);
  expect_error(GPUPOOL_ERROR_OVER_LIMIT, [&] { gpupool::share_request(pool, 128 * kMiB, 1); });
  gpupool::share_request(pool, 32 * kMiB, 1);
  expect_error(GPUPOOL_ERROR_INVALID_ARGUMENT,
               [&] { gpupool::share_set(team_, ShareFigure::member_priority, 1, 99); });
  EXPECT_EQ(gpupool::share_repair(team_), 0);
}

TEST_F(Share, APoolMayBePutToSleep) {
  Pool pool({.backend = gpupool::Backend::sim, .share = "team"});
  pool.allow_sleep({.mode = gpupool::SleepMode::drop});
  EXPECT_EQ(pool.wake().pools, 0U);
  Pool alone({.backend = gpupool::Backend::sim, .share = ""});
  alone.allow_sleep();  // for other pools of the process
}

TEST_F(Share, APoolThatSharesWithNobodyHasNobodyToAsk) {
  Pool pool({.backend = gpupool::Backend::sim, .share = ""});
  EXPECT_EQ(pool.stats().share_state, GPUPOOL_SHARE_STATE_OFF);
  expect_error(GPUPOOL_ERROR_UNAVAILABLE, [&] { gpupool::share_request(pool, kMiB, 1); });
}

TEST_F(Share, ABlockIsExportedAndImported) {
  Pool pool({.backend = gpupool::Backend::sim});
  Pool other({.backend = gpupool::Backend::sim});
  gpupool::Block block(pool, 3 * kMiB);
  const std::string handle = gpupool::export_block(pool, block.ptr());
  gpupool::Import import(other, handle);
  EXPECT_EQ(import.size(), 3 * kMiB);
  pool.fill(block.ptr(), 7, 3 * kMiB);
  EXPECT_EQ(*reinterpret_cast<const unsigned char*>(import.ptr() + 3 * kMiB - 1), 7);
  block.reset();
  EXPECT_EQ(pool.stats().all.active_bytes.current, 3 * kMiB);
  gpupool::Import moved(std::move(import));
  EXPECT_FALSE(import);  // NOLINT(bugprone-use-after-move)
  moved.close();
  EXPECT_FALSE(moved);
  EXPECT_EQ(pool.stats().all.active_bytes.current, 0U);
  expect_error(GPUPOOL_ERROR_UNAVAILABLE, [&] { (void)gpupool::Import(other, handle); });
}

}  // namespace
