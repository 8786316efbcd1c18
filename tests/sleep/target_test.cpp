// SPDX-License-Identifier: Apache-2.0
// Sleeps with a target: which blocks go, how many, and what stays.
#include <algorithm>
#include <memory>

#include "block_fixture.hpp"

namespace sleep_test {
namespace {

/// Blocks of 8 MiB, the first of which was handed out first, each with its own pattern.
class Target : public Sleep {
 protected:
  static constexpr uint64_t kSize = 8 * kMiB;

  void SetUp() override {
    Sleep::SetUp();
    pool_ = std::make_unique<PoolUnderTest>(small_chunks());
    for (uint64_t i = 0; i < 5; ++i) add();
  }
  void TearDown() override {
    wake(*pool_);
    for (uint64_t i = 0; i < blocks_.size(); ++i) {
      EXPECT_TRUE(is_lost_[i] || has_pattern(blocks_[i], kSize, i)) << i;
      pool_->free(blocks_[i]);
    }
    pool_.reset();
    Sleep::TearDown();
  }

  PoolUnderTest& pool() { return *pool_; }
  void add() {
    blocks_.push_back(pool_->malloc(kSize));
    is_lost_.push_back(false);
    write_pattern(blocks_.back(), kSize, blocks_.size() - 1);
  }
  /// The numbers of those that are away.
  std::string asleep() {
    std::string numbers;
    for (size_t i = 0; i < blocks_.size(); ++i) {
      if (pool_->info(blocks_[i]).state == GPUPOOL_BLOCK_ASLEEP) numbers += std::to_string(i);
    }
    return numbers;
  }
  gpupool_status_t try_target(uint64_t bytes, gpupool_sleep_mode_t mode = GPUPOOL_SLEEP_MODE_SAVE) {
    const gpupool_sleep_options_t how = target_options(bytes, mode);
    return gpupool_sleep(*pool_, &how, nullptr);
  }

  std::unique_ptr<PoolUnderTest> pool_;
  std::vector<gpupool_ptr_t> blocks_;
  std::vector<bool> is_lost_;
};

TEST_F(Target, TheIdlestGoFirstAndThePoolGoesOn) {
  const uint64_t reserved = pool().reserved();
  const gpupool_sleep_result_t slept = sleep_bytes(pool(), 2 * kSize);
  EXPECT_EQ(asleep(), "01");
  EXPECT_EQ(slept.released_bytes, 2 * kSize);
  EXPECT_EQ(slept.saved_bytes, 2 * kSize);
  EXPECT_EQ(slept.dropped_bytes, 0u);
  EXPECT_EQ(slept.retained_bytes, 0u);
  EXPECT_EQ(pool().reserved(), reserved - 2 * kSize);
  EXPECT_EQ(pool().stats().asleep_bytes, 2 * kSize);
  EXPECT_EQ(pool().stats().backup_bytes, 2 * kSize);
  EXPECT_EQ(pool().stats().sleeps, 0u);
  add();
  EXPECT_EQ(sleep_bytes(pool(), kSize).released_bytes, kSize);  // that much more
  EXPECT_EQ(asleep(), "012");
  EXPECT_EQ(wake(pool()).created_bytes, 3 * kSize);
  EXPECT_EQ(asleep(), "");
  EXPECT_EQ(pool().stats().backup_bytes, 0u);
}

TEST_F(Target, ABlockGoesWhole) {
  EXPECT_EQ(sleep_bytes(pool(), 1).released_bytes, kSize);
  EXPECT_EQ(asleep(), "0");
  EXPECT_EQ(sleep_bytes(pool(), kSize + 1).released_bytes, 2 * kSize);
  EXPECT_EQ(asleep(), "012");
}

TEST_F(Target, MoreThanThereIsIsNoFailure) {
  for (const uint64_t bytes : {6 * kSize, ~uint64_t{0}}) {
    EXPECT_EQ(sleep_bytes(pool(), bytes).released_bytes, 5 * kSize);
    EXPECT_EQ(asleep(), "01234");
    EXPECT_EQ(sleep_bytes(pool(), bytes).released_bytes, 0u);
    wake(pool());
  }
  PoolUnderTest empty(small_chunks());
  EXPECT_EQ(sleep_bytes(empty, kSize).released_bytes, 0u);
}

TEST_F(Target, CachedMemoryGoesBeforeBlocks) {
  for (int i = 0; i < 2; ++i) {
    pool().free(blocks_.back());
    blocks_.pop_back();
  }
  const gpupool_sleep_result_t slept = sleep_bytes(pool(), kSize);
  EXPECT_EQ(slept.released_bytes, kSize);  // not all that is cached
  EXPECT_EQ(slept.saved_bytes, 0u);
  EXPECT_EQ(pool().stats().backup_bytes, 0u);
  EXPECT_EQ(asleep(), "");
  const gpupool_sleep_result_t more = sleep_bytes(pool(), 3 * kSize);
  EXPECT_EQ(more.released_bytes, 3 * kSize);
  EXPECT_EQ(more.saved_bytes, 2 * kSize);
  EXPECT_EQ(asleep(), "01");
}

TEST_F(Target, CachedMemoryThatWorkStillUsesIsWaitedFor) {
  ASSERT_TRUE(ok(gpupool_sim_work(kDevice, 0, blocks_.back(), kSize, 1'000'000)));
  pool().free(blocks_.back());
  blocks_.pop_back();
  is_lost_.pop_back();
  EXPECT_EQ(sleep_bytes(pool(), kSize).released_bytes, kSize);
  EXPECT_EQ(asleep(), "");
}

TEST_F(Target, KeptBlocksGoLastAndAreSaved) {
  ASSERT_TRUE(ok(gpupool_set_keep(pool(), blocks_[0], 1)));
  ASSERT_TRUE(ok(gpupool_set_keep(pool(), blocks_[1], 1)));
  const gpupool_sleep_result_t dropped = sleep_bytes(pool(), 2 * kSize, GPUPOOL_SLEEP_MODE_DROP);
  EXPECT_EQ(asleep(), "23");
  EXPECT_EQ(dropped.dropped_bytes, 2 * kSize);
  EXPECT_EQ(dropped.saved_bytes, 0u);
  EXPECT_EQ(pool().stats().backup_bytes, 0u);
  const gpupool_sleep_result_t more = sleep_bytes(pool(), 2 * kSize, GPUPOOL_SLEEP_MODE_DROP);
  EXPECT_EQ(asleep(), "0234");
  EXPECT_EQ(more.dropped_bytes, kSize);
  EXPECT_EQ(more.saved_bytes, kSize);
  for (const size_t i : {2, 3, 4}) is_lost_[i] = true;
  wake(pool());
  sleep_bytes(pool(), kSize);  // what is saved anyway makes no difference
  EXPECT_EQ(asleep(), "0");
}

TEST_F(Target, ABlockThatWasAskedForBackGoesLast) {
  sleep_bytes(pool(), 3 * kSize);
  wake_block(pool(), blocks_[1]);
  wake(pool());
  sleep_bytes(pool(), 4 * kSize);
  EXPECT_EQ(asleep(), "0234");
}

TEST_F(Target, WhatMustStayIsPassedOver) {
  std::array<char, GPUPOOL_EXPORT_BYTES> handle{};
  const bool exports = gpupool_export(pool(), blocks_[0], handle.data(), handle.size()) == GPUPOOL_SUCCESS;
  ASSERT_TRUE(ok(gpupool_protect(pool(), blocks_[1], GPUPOOL_ACCESS_READ)));
  std::vector<gpupool_ptr_t> small;
  for (int i = 0; i < 5; ++i) small.push_back(pool().malloc(700 * kKiB));
  EXPECT_EQ(sleep_bytes(pool(), 100 * kSize).released_bytes, (exports ? 3 : 4) * kSize);
  EXPECT_EQ(asleep(), exports ? "234" : "0234");
  for (const gpupool_ptr_t block : small) {
    EXPECT_EQ(pool().info(block).state, GPUPOOL_BLOCK_LIVE);
    pool().free(block);
  }
  ASSERT_TRUE(ok(gpupool_protect(pool(), blocks_[1], GPUPOOL_ACCESS_WRITE)));
}

TEST_F(Target, ACaptureChangesNothing) {
  pool().free(blocks_.back());  // not even what is cached
  blocks_.pop_back();
  ASSERT_TRUE(ok(gpupool_sim_capture(kDevice, 11, 1)));
  const gpupool_ptr_t captured = pool().malloc(512, 11);
  const uint64_t reserved = pool().reserved();
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNAVAILABLE, try_target(kSize)));
  EXPECT_EQ(pool().reserved(), reserved);
  EXPECT_EQ(asleep(), "");
  ASSERT_TRUE(ok(gpupool_sim_capture(kDevice, 11, 0)));
  EXPECT_TRUE(ok(try_target(kSize)));
  pool().free(captured, 11);
}

TEST_F(Target, AHostThatIsShortKeepsAllAwake) {
  pool_->free(blocks_.back());
  blocks_.pop_back();
  wake(pool());
  for (const gpupool_ptr_t block : blocks_) pool().free(block);
  blocks_.clear();
  pool_.reset();
  restart(1, kCapacity, 24 * kMiB);
  pool_ = std::make_unique<PoolUnderTest>(small_chunks());
  for (uint64_t i = 0; i < 4; ++i) add();
  EXPECT_TRUE(refused(GPUPOOL_ERROR_HOST_OUT_OF_MEMORY, try_target(4 * kSize)));
  EXPECT_EQ(asleep(), "");
  EXPECT_EQ(pool().stats().backup_bytes, 0u);
  EXPECT_TRUE(ok(try_target(2 * kSize)));
  EXPECT_EQ(asleep(), "01");
}

TEST_F(Target, WorkIsWaitedForOnce) {
  const auto waits_of = [&](uint64_t bytes) {
    EXPECT_TRUE(ok(gpupool_sim_work(kDevice, 0, blocks_[0], kSize, 1'000'000)));
    const uint64_t before = pool().stats().driver.host_wait.count;
    gpupool_sleep_options_t how = target_options(bytes, GPUPOOL_SLEEP_MODE_DROP);
    how.flags =
        GPUPOOL_SLEEP_FLAG_SYNC_CONTEXT;  // each wait is seen, though there is nothing left to wait for
    EXPECT_TRUE(ok(gpupool_sleep(pool(), &how, nullptr)));
    const uint64_t waits = pool().stats().driver.host_wait.count - before;
    wake(pool());
    return waits;
  };
  EXPECT_EQ(waits_of(5 * kSize), waits_of(kSize));
  is_lost_.assign(blocks_.size(), true);
}

TEST_F(Target, OnlySleepsOfPoolsHaveOne) {
  const gpupool_sleep_options_t how = target_options(kSize);
  gpupool_sleep_result_t result = empty_result();
  result.released_bytes = 1;
  for (const gpupool_status_t status :
       {gpupool_wake(pool(), &how, &result), gpupool_wake_block(pool(), blocks_[0], &how, &result),
        gpupool_sleep_block(pool(), blocks_[0], &how, &result), gpupool_wake_tag("any", &how, &result)}) {
    EXPECT_EQ(status, GPUPOOL_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(last_message().find("target_bytes is 8388608"), std::string::npos) << last_message();
    EXPECT_EQ(result.released_bytes, 0u);
  }
  EXPECT_EQ(asleep(), "");
  gpupool_config_t config = small_chunks();
  config.mode = GPUPOOL_MODE_DRIVER;
  PoolUnderTest other(config);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNSUPPORTED, gpupool_sleep(other, &how, nullptr)));
}

TEST_F(Target, APoolThatSleepsHasNothingToGive) {
  sleep_bytes(pool(), kSize);
  fall_asleep(pool());
  const gpupool_sleep_options_t how = target_options(kSize);
  gpupool_sleep_result_t result = empty_result();
  EXPECT_TRUE(ok(gpupool_sleep(pool(), &how, &result)));
  EXPECT_EQ(result.released_bytes, 0u);
  EXPECT_EQ(state_of(pool()), GPUPOOL_SLEEP_STATE_ASLEEP);
  wake_block(pool(), blocks_[2]);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNAVAILABLE, try_target(kSize)));
}

TEST_F(Target, AChildKeepsWhatItHasCached) {
  PoolUnderTest child(PoolUnderTest::child_of(pool()));
  const gpupool_ptr_t live = child.malloc(kSize);
  child.free(child.malloc(kSize));
  EXPECT_EQ(sleep_bytes(child, kSize).released_bytes, kSize);
  EXPECT_EQ(child.info(live).state, GPUPOOL_BLOCK_ASLEEP);
  EXPECT_EQ(child.reserved(), kSize);
  child.free(live);
}

// ---- hooks

struct Hooks {
  std::string calls;
  std::vector<gpupool_ptr_t> blocks;
  std::string refuses;
  std::function<void(gpupool_t*, gpupool_ptr_t)> on_before;

  std::string name_of(gpupool_ptr_t ptr) const {
    const auto found = std::find(blocks.begin(), blocks.end(), ptr);
    return found == blocks.end() ? "?" : std::to_string(found - blocks.begin());
  }
  static int32_t before(void* user, gpupool_t* pool, gpupool_ptr_t ptr) {
    auto& self = *static_cast<Hooks*>(user);
    self.calls += " -" + self.name_of(ptr);
    if (self.on_before) self.on_before(pool, ptr);
    return self.refuses.find(self.name_of(ptr)) == std::string::npos ? 1 : 0;
  }
  static int32_t after(void* user, gpupool_t*, gpupool_ptr_t ptr) {
    auto& self = *static_cast<Hooks*>(user);
    self.calls += " +" + self.name_of(ptr);
    return 1;
  }
  std::string take() { return std::exchange(calls, {}); }
};

class TargetHooks : public Target {
 protected:
  void SetUp() override {
    Target::SetUp();
    hooks_.blocks = blocks_;
    ASSERT_TRUE(ok(gpupool_set_sleep_hooks(pool(), Hooks::before, Hooks::after, &hooks_)));
  }
  void TearDown() override {
    ASSERT_TRUE(ok(gpupool_set_sleep_hooks(pool(), nullptr, nullptr, nullptr)));
    Target::TearDown();
  }
  Hooks hooks_;
};

TEST_F(TargetHooks, AreCalledForEachBlockThatGoes) {
  sleep_bytes(pool(), 2 * kSize);
  EXPECT_EQ(hooks_.take(), " -0 -1");
  wake(pool());
  EXPECT_EQ(hooks_.calls.size(), 6u);  // +0 and +1, by address
  hooks_.take();
  pool().free(pool().malloc(kSize));
  sleep_bytes(pool(), kSize);  // what is cached is enough
  EXPECT_EQ(hooks_.take(), "");
}

TEST_F(TargetHooks, WhatTheyRefuseIsPassedOver) {
  hooks_.refuses = "02";
  EXPECT_EQ(sleep_bytes(pool(), 2 * kSize).released_bytes, 2 * kSize);
  EXPECT_EQ(asleep(), "13");
  EXPECT_EQ(hooks_.take(), " -0 -1 -2 -3");
  hooks_.refuses = "024";
  EXPECT_EQ(sleep_bytes(pool(), kSize).released_bytes, 0u);
  wake(pool());
  EXPECT_EQ(asleep(), "");
}

TEST_F(TargetHooks, WhatTheyFreeIsNoFailure) {
  hooks_.on_before = [&](gpupool_t* handle, gpupool_ptr_t ptr) {
    if (ptr != blocks_[0]) return;
    EXPECT_TRUE(ok(gpupool_free(handle, ptr, 0)));
    // At the same address, most likely. It is no candidate, nor is any other new block.
    EXPECT_TRUE(ok(gpupool_malloc(handle, kSize, 0, &blocks_[0])));
    write_pattern(blocks_[0], kSize, 0);
    EXPECT_TRUE(refused(GPUPOOL_ERROR_UNAVAILABLE, try_target(kSize)));
  };
  EXPECT_EQ(sleep_bytes(pool(), 100 * kSize).released_bytes, 4 * kSize);
  EXPECT_EQ(asleep(), "1234");
  EXPECT_EQ(hooks_.take(), " -0 -1 -2 -3 -4");
  hooks_.on_before = nullptr;
  wake(pool());
  EXPECT_EQ(hooks_.take().find("+0"), std::string::npos);
}

TEST_F(TargetHooks, WhatGoesBetweenTheChoiceAndTheSleepIsMadeUpFor) {
  hooks_.on_before = [&](gpupool_t* handle, gpupool_ptr_t ptr) {
    if (ptr != blocks_[1]) return;
    EXPECT_TRUE(ok(gpupool_free(handle, blocks_[0], 0)));
    EXPECT_TRUE(ok(gpupool_malloc(handle, kSize, 0, &blocks_[0])));
    write_pattern(blocks_[0], kSize, 0);
  };
  EXPECT_EQ(sleep_bytes(pool(), 2 * kSize).released_bytes, 2 * kSize);
  EXPECT_EQ(asleep(), "12");
  EXPECT_EQ(hooks_.take(), " -0 -1 -2");
}

TEST_F(TargetHooks, WorkThatTheyQueueIsWaitedFor) {
  hooks_.on_before = [&](gpupool_t* handle, gpupool_ptr_t ptr) {
    EXPECT_TRUE(ok(gpupool_fill(handle, ptr, 0x5a, kSize, 0)));
    EXPECT_TRUE(ok(gpupool_sim_work(kDevice, 0, ptr, kSize, 1'000'000)));
  };
  sleep_bytes(pool(), 2 * kSize);
  wake(pool());
  for (const size_t i : {0, 1}) {
    EXPECT_TRUE(is_filled(blocks_[i], kSize, 0x5a));
    is_lost_[i] = true;
  }
}

TEST_F(TargetHooks, AreToldOfWhatAFailureKeepsAwake) {
  script("unmap:2");
  EXPECT_TRUE(refused(GPUPOOL_ERROR_DRIVER, try_target(3 * kSize)));
  script("");
  EXPECT_EQ(asleep(), "0");
  EXPECT_EQ(hooks_.take(), " -0 -1 -2 +1 +2");
  wake(pool());
  EXPECT_EQ(hooks_.take(), " +0");
}

}  // namespace
}  // namespace sleep_test
