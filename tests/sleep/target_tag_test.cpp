// SPDX-License-Identifier: Apache-2.0
// Sleeps with a target, of several pools.
#include <cstdlib>

#include "block_fixture.hpp"
#include "support/own_folder.hpp"

namespace sleep_test {
namespace {

constexpr uint64_t kOneBlock = 8 * kMiB;

gpupool_status_t try_tag(uint64_t bytes, gpupool_sleep_result_t& result,
                         gpupool_sleep_mode_t mode = GPUPOOL_SLEEP_MODE_SAVE) {
  const gpupool_sleep_options_t how = target_options(bytes, mode);
  result = empty_result();
  return gpupool_sleep_tag("some", &how, &result);
}

uint64_t sleep_tag(uint64_t bytes) {
  gpupool_sleep_result_t result;
  EXPECT_TRUE(ok(try_tag(bytes, result)));
  EXPECT_EQ(result.pools, 0u);
  return result.released_bytes;
}

/// A pool of that tag, with blocks of 8 MiB.
class Member {
 public:
  explicit Member(const gpupool_config_t& config) : pool(config) {
    EXPECT_TRUE(ok(gpupool_set_name(pool, "some")));
  }
  ~Member() {
    wake(pool);
    for (size_t i = 0; i < blocks_.size(); ++i) {
      EXPECT_TRUE(has_pattern(blocks_[i], kOneBlock, i));
      pool.free(blocks_[i]);
    }
  }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  void add() {
    blocks_.push_back(pool.malloc(kOneBlock));
    write_pattern(blocks_.back(), kOneBlock, blocks_.size() - 1);
  }
  uint64_t asleep() { return pool.stats().asleep_bytes / kOneBlock; }

  PoolUnderTest pool;

 private:
  std::vector<gpupool_ptr_t> blocks_;
};

TEST_F(Sleep, ATargetOfATagTakesTheIdlestPoolFirst) {
  Member first(small_chunks());
  Member second(small_chunks());
  Member other(small_chunks());
  ASSERT_TRUE(ok(gpupool_set_name(other.pool, "other")));
  for (Member* each : {&other, &second, &first, &second}) each->add();  // the last is the busiest
  EXPECT_EQ(sleep_tag(kOneBlock), kOneBlock);
  EXPECT_EQ(first.asleep(), 1u);
  EXPECT_EQ(second.asleep(), 0u);
  EXPECT_EQ(sleep_tag(kOneBlock + 1), 2 * kOneBlock);
  EXPECT_EQ(second.asleep(), 2u);
  EXPECT_EQ(sleep_tag(kOneBlock), 0u);
  EXPECT_EQ(other.asleep(), 0u);
  EXPECT_TRUE(ok(gpupool_wake_tag("some", nullptr, nullptr)));
  EXPECT_EQ(first.asleep() + second.asleep(), 0u);
  EXPECT_EQ(sleep_tag(3 * kOneBlock), 3 * kOneBlock);
}

TEST_F(Sleep, ATargetOfATagTakesTheLeastImportantPoolFirst) {
  const OwnFolder folder;
  setenv("GPUPOOL_SHARE_DIR", folder.path().c_str(), 1);
  {
    gpupool_config_t config = small_chunks();
    config.share = "team";
    config.priority = 2;
    Member high(config);
    config.priority = -3;
    Member low(config);
    Member plain(small_chunks());
    for (Member* each : {&high, &plain, &low}) each->add();
    EXPECT_EQ(sleep_tag(1), kOneBlock);
    EXPECT_EQ(low.asleep(), 1u);
    EXPECT_EQ(sleep_tag(1), kOneBlock);
    EXPECT_EQ(plain.asleep(), 1u);
    EXPECT_EQ(high.asleep(), 0u);
    EXPECT_EQ(sleep_tag(1), kOneBlock);
    EXPECT_EQ(high.asleep(), 1u);
  }
  unsetenv("GPUPOOL_SHARE_DIR");
}

TEST_F(Sleep, WhatAllPoolsOfATagHaveCachedGoesBeforeBlocks) {
  Member first(small_chunks());
  Member second(small_chunks());
  first.add();
  second.pool.free(second.pool.malloc(kOneBlock));
  EXPECT_EQ(sleep_tag(kOneBlock), kOneBlock);
  EXPECT_EQ(first.asleep(), 0u);
  EXPECT_EQ(second.pool.reserved(), 0u);
}

TEST_F(Sleep, ATargetOfATagIsRefusedBeforeAnythingGoes) {
  Member first(small_chunks());
  Member second(small_chunks());
  first.add();
  second.add();
  gpupool_sleep_result_t result;
  ASSERT_TRUE(ok(gpupool_sim_capture(kDevice, 11, 1)));
  const gpupool_ptr_t captured = second.pool.malloc(512, 11);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNAVAILABLE, try_tag(2 * kOneBlock, result)));
  ASSERT_TRUE(ok(gpupool_sim_capture(kDevice, 11, 0)));
  second.pool.free(captured, 11);
  EXPECT_EQ(first.asleep() + second.asleep(), 0u);
  {
    gpupool_config_t config = small_chunks();
    config.mode = GPUPOOL_MODE_DRIVER;
    PoolUnderTest third(config);
    ASSERT_TRUE(ok(gpupool_set_name(third, "some")));
    EXPECT_TRUE(refused(GPUPOOL_ERROR_UNSUPPORTED, try_tag(2 * kOneBlock, result)));
  }
  EXPECT_EQ(result.released_bytes, 0u);
  EXPECT_EQ(first.asleep() + second.asleep(), 0u);
  const gpupool_sleep_options_t how = target_options(kOneBlock);
  EXPECT_TRUE(ok(gpupool_sleep_tag("nobody", &how, nullptr)));
}

TEST_F(Sleep, AFailureOfOnePoolOfATagLeavesWhatWent) {
  Member first(small_chunks());
  Member second(small_chunks());
  first.add();
  second.add();
  gpupool_sleep_result_t result;
  script("unmap:2");
  EXPECT_TRUE(refused(GPUPOOL_ERROR_DRIVER, try_tag(2 * kOneBlock, result)));
  script("");
  EXPECT_EQ(first.asleep(), 1u);
  EXPECT_EQ(second.asleep(), 0u);
}

}  // namespace
}  // namespace sleep_test
