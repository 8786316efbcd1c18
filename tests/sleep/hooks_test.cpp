// SPDX-License-Identifier: Apache-2.0
// What a program is asked before memory goes, and told when it is there again.
#include "block_fixture.hpp"

namespace sleep_test {
namespace {

/// Writes down each call: 'b' or 'a', and the block's number; what each answers can be set.
struct Diary {
  std::vector<std::string> calls;
  std::vector<gpupool_ptr_t> blocks;
  std::function<void(gpupool_t*, gpupool_ptr_t)> on_before;
  std::function<void(gpupool_t*, gpupool_ptr_t)> on_after;
  int32_t before = 1;
  int32_t after = 1;

  std::string name_of(gpupool_ptr_t ptr) const {
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (blocks[i] == ptr) return std::to_string(i);
    }
    return ptr == 0 ? "all" : "unknown";
  }
  std::vector<std::string> take() { return std::exchange(calls, {}); }

  static int32_t before_release(void* user, gpupool_t* pool, gpupool_ptr_t ptr) {
    auto& self = *static_cast<Diary*>(user);
    self.calls.push_back("before " + self.name_of(ptr));
    if (self.on_before) self.on_before(pool, ptr);
    return self.before;
  }
  static int32_t after_map(void* user, gpupool_t* pool, gpupool_ptr_t ptr) {
    auto& self = *static_cast<Diary*>(user);
    self.calls.push_back("after " + self.name_of(ptr));
    if (self.on_after) self.on_after(pool, ptr);
    return self.after;
  }
};

using Calls = std::vector<std::string>;

class SleepHooks : public Sleep {
 protected:
  void SetUp() override {
    Sleep::SetUp();
    const gpupool_config_t config = small_chunks();
    ASSERT_TRUE(ok(gpupool_create(&config, &pool_)));
    for (uint64_t i = 0; i < 3; ++i) {
      gpupool_ptr_t block = 0;
      ASSERT_TRUE(ok(gpupool_malloc(pool_, 8 * kMiB, 0, &block)));
      write_pattern(block, 8 * kMiB, i);
      diary_.blocks.push_back(block);
    }
    ASSERT_TRUE(ok(gpupool_set_sleep_hooks(pool_, Diary::before_release, Diary::after_map, &diary_)));
  }
  void TearDown() override {
    for (uint64_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(has_pattern(diary_.blocks[i], 8 * kMiB, i));
      EXPECT_TRUE(ok(gpupool_free(pool_, diary_.blocks[i], 0)));
    }
    EXPECT_TRUE(ok(gpupool_destroy(pool_)));
    Sleep::TearDown();
  }
  gpupool_status_t try_block(size_t at) {
    return gpupool_sleep_block(pool_, diary_.blocks[at], nullptr, nullptr);
  }
  gpupool_status_t try_wake_block(size_t at) {
    return gpupool_wake_block(pool_, diary_.blocks[at], nullptr, nullptr);
  }

  gpupool_t* pool_ = nullptr;
  Diary diary_;
};

TEST_F(SleepHooks, AreCalledAroundEverySleep) {
  fall_asleep(pool_);
  EXPECT_EQ(diary_.take(), Calls{"before all"});
  EXPECT_TRUE(ok(try_sleep(pool_)));  // it sleeps already
  wake_block(pool_, diary_.blocks[1]);
  EXPECT_EQ(diary_.take(), Calls{"after 1"});
  wake(pool_);
  EXPECT_EQ(diary_.take(), Calls{"after all"});
  wake(pool_);
  EXPECT_EQ(diary_.take(), Calls{});
  sleep_block(pool_, diary_.blocks[0]);
  sleep_block(pool_, diary_.blocks[0]);
  sleep_block(pool_, diary_.blocks[2]);
  EXPECT_EQ(diary_.take(), (Calls{"before 0", "before 2"}));
  wake_block(pool_, diary_.blocks[2]);
  EXPECT_EQ(diary_.take(), Calls{"after 2"});
  fall_asleep(pool_);
  wake(pool_);
  EXPECT_EQ(diary_.take(), (Calls{"before all", "after all", "after 0"}));
  ASSERT_TRUE(ok(gpupool_set_name(pool_, "hooked")));
  EXPECT_TRUE(ok(gpupool_sleep_tag("hooked", nullptr, nullptr)));
  EXPECT_TRUE(ok(gpupool_wake_tag("hooked", nullptr, nullptr)));
  EXPECT_EQ(diary_.take(), (Calls{"before all", "after all"}));
  sleep_block(pool_, diary_.blocks[1]);
  EXPECT_TRUE(ok(gpupool_wake_tag("hooked", nullptr, nullptr)));
  EXPECT_EQ(diary_.take(), (Calls{"before 1", "after 1"}));
  ASSERT_TRUE(ok(gpupool_set_sleep_hooks(pool_, nullptr, nullptr, nullptr)));
  fall_asleep(pool_);
  wake(pool_);
  EXPECT_EQ(diary_.take(), Calls{});
}

TEST_F(SleepHooks, ARefusalChangesNothing) {
  diary_.before = 0;
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNAVAILABLE, try_sleep(pool_)));
  EXPECT_EQ(state_of(pool_), GPUPOOL_SLEEP_STATE_AWAKE);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNAVAILABLE, try_block(0)));
  EXPECT_EQ(diary_.take(), (Calls{"before all", "before 0"}));
  EXPECT_TRUE(ok(try_wake(pool_)));
  EXPECT_TRUE(ok(try_wake_block(0)));
  EXPECT_EQ(diary_.take(), Calls{});
  diary_.before = 1;
  EXPECT_TRUE(ok(try_block(0)));
  EXPECT_TRUE(ok(try_wake_block(0)));
}

TEST_F(SleepHooks, OneRefusalKeepsAWholeTagAwake) {
  const gpupool_config_t config = small_chunks();
  PoolUnderTest other(config);
  ASSERT_TRUE(ok(gpupool_set_name(pool_, "both")));
  ASSERT_TRUE(ok(gpupool_set_name(other, "both")));
  diary_.before = 0;
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNAVAILABLE, gpupool_sleep_tag("both", nullptr, nullptr)));
  EXPECT_EQ(state_of(pool_), GPUPOOL_SLEEP_STATE_AWAKE);
  EXPECT_EQ(state_of(other), GPUPOOL_SLEEP_STATE_AWAKE);
}

TEST_F(SleepHooks, AfterMapThatFailsIsCalledAgain) {
  fall_asleep(pool_);
  diary_.take();
  diary_.after = 0;
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNAVAILABLE, try_wake(pool_)));
  EXPECT_EQ(state_of(pool_), GPUPOOL_SLEEP_STATE_AWAKE);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNAVAILABLE, try_wake(pool_)));
  diary_.after = 1;
  EXPECT_TRUE(ok(try_wake(pool_)));
  EXPECT_TRUE(ok(try_wake(pool_)));
  EXPECT_EQ(diary_.take(), (Calls{"after all", "after all", "after all"}));
  sleep_block(pool_, diary_.blocks[1]);
  diary_.after = 0;
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNAVAILABLE, try_wake_block(1)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNAVAILABLE, try_wake_block(1)));
  diary_.after = 1;
  EXPECT_TRUE(ok(try_wake_block(1)));
  EXPECT_EQ(diary_.take(), (Calls{"before 1", "after 1", "after 1", "after 1"}));
}

TEST_F(SleepHooks, ASleepThatFailsSaysThatTheMemoryIsThere) {
  for (const bool is_block : {false, true}) {
    script("unmap:1");
    const gpupool_status_t status = is_block ? try_block(0) : try_sleep(pool_);
    script("");
    EXPECT_TRUE(refused(GPUPOOL_ERROR_DRIVER, status));
    EXPECT_EQ(diary_.take(), is_block ? (Calls{"before 0", "after 0"}) : (Calls{"before all", "after all"}));
  }
}

TEST_F(SleepHooks, MayCallTheLibrary) {
  const gpupool_config_t config = small_chunks();
  PoolUnderTest other(config);
  const auto use = [&](gpupool_t* pool, gpupool_ptr_t) {
    gpupool_ptr_t block = 0;
    EXPECT_TRUE(ok(gpupool_malloc(pool, 3 * kMiB, 0, &block)));
    EXPECT_TRUE(ok(gpupool_free(pool, block, 0)));
    EXPECT_TRUE(ok(gpupool_validate(pool)));
    EXPECT_TRUE(ok(gpupool_record_stream(pool, diary_.blocks[0], 3)));
    EXPECT_EQ(state_of(pool), GPUPOOL_SLEEP_STATE_AWAKE);
    EXPECT_TRUE(ok(gpupool_set_sleep_hooks(pool, Diary::before_release, Diary::after_map, &diary_)));
    fall_asleep(other);
    wake(other);
    EXPECT_TRUE(refused(GPUPOOL_ERROR_UNAVAILABLE, gpupool_sleep(pool, nullptr, nullptr)));
    EXPECT_TRUE(refused(GPUPOOL_ERROR_UNAVAILABLE, gpupool_wake(pool, nullptr, nullptr)));
    EXPECT_TRUE(refused(GPUPOOL_ERROR_UNAVAILABLE, try_block(1)));
    EXPECT_TRUE(refused(GPUPOOL_ERROR_UNAVAILABLE, gpupool_prepare_backup(pool, kMiB)));
  };
  diary_.on_before = diary_.on_after = use;
  fall_asleep(pool_);
  wake(pool_);
  sleep_block(pool_, diary_.blocks[2]);
  wake_block(pool_, diary_.blocks[2]);
  EXPECT_EQ(diary_.take(), (Calls{"before all", "after all", "before 2", "after 2"}));
}

TEST_F(SleepHooks, MayDestroyTheirPool) {
  gpupool_config_t config = small_chunks();
  config.device = 1;
  const auto free_memory = [] {
    gpupool_device_info_t info{};
    info.struct_size = sizeof info;
    EXPECT_TRUE(ok(gpupool_device_info(GPUPOOL_BACKEND_SIM, 1, &info)));
    return info.free_bytes;
  };
  const uint64_t free_at_start = free_memory();
  diary_.on_before = [](gpupool_t* pool, gpupool_ptr_t) { EXPECT_TRUE(ok(gpupool_destroy(pool))); };
  gpupool_t* pool = nullptr;
  ASSERT_TRUE(ok(gpupool_create(&config, &pool)));
  gpupool_ptr_t block = 0;
  ASSERT_TRUE(ok(gpupool_malloc(pool, 8 * kMiB, 0, &block)));
  ASSERT_TRUE(ok(gpupool_free(pool, block, 0)));
  ASSERT_TRUE(ok(gpupool_set_sleep_hooks(pool, Diary::before_release, Diary::after_map, &diary_)));
  (void)gpupool_sleep(pool, nullptr, nullptr);
  EXPECT_EQ(diary_.take(), Calls{"before all"});
  EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_wake(pool, nullptr, nullptr)));
  PoolUnderTest(small_chunks()).validate();  // whose creation lets destroyed pools go
  EXPECT_EQ(free_memory(), free_at_start);
}

TEST_F(SleepHooks, ABlockThatTheHookFreesIsGone) {
  gpupool_ptr_t block = 0;
  ASSERT_TRUE(ok(gpupool_malloc(pool_, 8 * kMiB, 0, &block)));
  diary_.on_before = [](gpupool_t* pool, gpupool_ptr_t ptr) { EXPECT_TRUE(ok(gpupool_free(pool, ptr, 0))); };
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, gpupool_sleep_block(pool_, block, nullptr, nullptr)));
  diary_.on_before = nullptr;
  ASSERT_TRUE(ok(gpupool_malloc(pool_, 8 * kMiB, 0, &block)));
  sleep_block(pool_, block);
  EXPECT_TRUE(ok(gpupool_free(pool_, block, 0)));
  EXPECT_EQ(diary_.take(), (Calls{"before unknown", "before unknown"}));
  EXPECT_TRUE(ok(try_wake(pool_)));
  EXPECT_EQ(diary_.take(), Calls{});
}

TEST_F(SleepHooks, NothingToGiveBackIsNoSleep) {
  gpupool_ptr_t small = 0;
  ASSERT_TRUE(ok(gpupool_malloc(pool_, 512, 0, &small)));
  EXPECT_EQ(sleep_block(pool_, small).released_bytes, 0u);
  EXPECT_EQ(diary_.take(), Calls{});
  EXPECT_TRUE(ok(gpupool_free(pool_, small, 0)));
}

}  // namespace
}  // namespace sleep_test
