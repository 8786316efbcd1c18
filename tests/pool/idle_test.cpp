// SPDX-License-Identifier: Apache-2.0
// Pools that give what they cache back once they have handed nothing out for a while, in virtual time.
#include <chrono>
#include <cstdlib>
#include <thread>

#include "pool/pool_under_test.hpp"

namespace pool_test {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

class IdlePools : public testing::Test {
 protected:
  void SetUp() override { configure_device(0, 2); }
  void TearDown() override { unsetenv("GPUPOOL_IDLE"); }

  static gpupool_config_t idle_after(double seconds) {
    gpupool_config_t config = empty_config();
    config.backend = GPUPOOL_BACKEND_SIM;
    config.idle_seconds = seconds;
    return config;
  }
  static void pass(uint64_t nanoseconds) { ASSERT_TRUE(ok(gpupool_sim_advance(0, nanoseconds))); }
  /// A call that takes the lock of another pool, since threads' caches do not align.
  static void call(PoolUnderTest& other) {
    gpupool_ptr_t block = 0;
    ASSERT_TRUE(ok(gpupool_malloc_aligned(other, kMiB, 4096, 0, &block)));
    other.free(block);
  }
  static uint64_t device_free() {
    gpupool_device_info_t info{};
    info.struct_size = sizeof info;
    EXPECT_TRUE(ok(gpupool_device_info(GPUPOOL_BACKEND_SIM, 0, &info)));
    return info.free_bytes;
  }
};

TEST_F(IdlePools, GiveBackWhatTheyCacheAfterThatTime) {
  PoolUnderTest pool(idle_after(30));
  PoolUnderTest other(idle_after(0));
  const gpupool_ptr_t live = pool.malloc(10 * kMiB);
  pool.free(pool.malloc(100 * kMiB));
  pass(kSecond);
  call(other);
  const uint64_t before = device_free();
  pass(28 * kSecond);
  call(other);
  EXPECT_EQ(device_free(), before);
  pass(2 * kSecond);
  call(other);
  EXPECT_GE(device_free(), before + 100 * kMiB);
  EXPECT_LT(pool.reserved(), 20 * kMiB);
  EXPECT_TRUE(ok(gpupool_validate(pool)));
  // The other pool has no such time.
  pass(3600 * kSecond);
  (void)pool.stats();
  EXPECT_GT(other.reserved(), 0u);
  pool.free(live);
}

TEST_F(IdlePools, AreNotIdleWhileCachesServeThem) {
  PoolUnderTest pool(idle_after(30));
  PoolUnderTest other(idle_after(0));
  pool.free(pool.malloc(100 * kMiB));
  pool.free(pool.malloc(kMiB / 16));
  for (int i = 0; i < 10; ++i) {
    pass(20 * kSecond);
    const uint64_t hits = pool.stats().hits;
    pool.free(pool.malloc(kMiB / 16));
    EXPECT_EQ(pool.stats().hits, hits + 1);
    call(other);
  }
  EXPECT_GE(pool.reserved(), 100 * kMiB);
}

/// The time counts from the last malloc, though nobody has looked since: the last of them served by caches.
TEST_F(IdlePools, GiveBackInOneCallAfterAQuietHour) {
  for (const bool is_cached : {false, true}) {
    PoolUnderTest pool(idle_after(30));
    PoolUnderTest other(idle_after(0));
    pool.free(pool.malloc(100 * kMiB));
    pool.free(pool.malloc(kMiB / 16));
    pass(kSecond);
    call(other);
    const uint64_t hits = pool.stats().hits;
    pass(kSecond);
    if (is_cached) pool.free(pool.malloc(kMiB / 16));
    pass(3600 * kSecond);
    call(other);
    EXPECT_EQ(pool.stats().hits, hits + is_cached);
    EXPECT_LE(pool.reserved(), 2 * kMiB) << is_cached;  // whose stream is only asked now
  }
}

/// Its own malloc is one: the pool has work again, and would pay for its memory once more.
TEST_F(IdlePools, KeepTheirMemoryIfTheCallIsTheirOwnMalloc) {
  PoolUnderTest pool(idle_after(30));
  pool.free(pool.malloc(100 * kMiB));
  pass(3600 * kSecond);
  call(pool);
  EXPECT_GE(pool.reserved(), 100 * kMiB);
}

/// Nobody looks while caches serve every malloc, but what is freed to them tells.
TEST_F(IdlePools, AreNotIdleWhileCachesServeMuch) {
  PoolUnderTest pool(idle_after(30));
  PoolUnderTest other(idle_after(0));
  pool.free(pool.malloc(100 * kMiB));
  pool.free(pool.malloc(kMiB));
  for (int i = 0; i < 1000; ++i) {
    pass(kSecond);
    gpupool_ptr_t block = 0;
    for (int part = 0; part < 4; ++part) {
      ASSERT_TRUE(ok(gpupool_malloc(pool, kMiB, 0, &block)));
      pool.free(block);
    }
  }
  call(other);
  EXPECT_GE(pool.reserved(), 100 * kMiB);
}

TEST_F(IdlePools, GiveBackALotInParts) {
  PoolUnderTest pool(idle_after(1));
  PoolUnderTest other(idle_after(0));
  pool.free(pool.malloc(3 * kGiB));
  call(other);
  pass(2 * kSecond);
  const uint64_t before = device_free();
  call(other);
  const uint64_t at_once = device_free() - before;
  EXPECT_GT(at_once, 0u);
  EXPECT_LT(at_once, kGiB);
  for (int i = 0; i < 20; ++i) {
    pass(kSecond / 5);
    call(other);
  }
  EXPECT_GE(device_free() - before, 3 * kGiB - 64 * kMiB);
}

TEST_F(IdlePools, KeepWhatAStreamMayStillUse) {
  PoolUnderTest pool(idle_after(1));
  PoolUnderTest other(idle_after(0));
  gpupool_stream_t stream = 0;
  ASSERT_TRUE(ok(gpupool_stream_create(pool, &stream)));
  const gpupool_ptr_t block = pool.malloc(64 * kMiB, stream);
  ASSERT_TRUE(ok(gpupool_sim_work(0, stream, block, 64 * kMiB, 100 * kSecond)));
  pool.free(block, stream);
  call(other);
  for (int i = 0; i < 3; ++i) {
    pass(2 * kSecond);
    call(other);
  }
  EXPECT_GE(pool.stats().all.reserved_bytes.current, 64 * kMiB);
  EXPECT_EQ(pool.stats().driver.host_wait.count, 0u);
  pass(100 * kSecond);
  call(other);
  pass(2 * kSecond);
  call(other);
  EXPECT_EQ(pool.stats().all.reserved_bytes.current, 0u);
  ASSERT_TRUE(ok(gpupool_release_stream(pool, stream)));
  ASSERT_TRUE(ok(gpupool_stream_destroy(pool, stream)));
}

TEST_F(IdlePools, LeaveChildrenAndSleepersAlone) {
  PoolUnderTest pool(idle_after(1));
  PoolUnderTest child(PoolUnderTest::child_of(pool));
  PoolUnderTest other(idle_after(0));
  child.free(child.malloc(64 * kMiB));
  call(other);
  for (int i = 0; i < 3; ++i) {
    pass(2 * kSecond);
    call(other);
  }
  EXPECT_GE(child.reserved(), 64 * kMiB);
}

TEST_F(IdlePools, FollowTheEnvironment) {
  setenv("GPUPOOL_IDLE", "500ms", 1);
  PoolUnderTest pool(idle_after(0));
  PoolUnderTest never(idle_after(-1));
  setenv("GPUPOOL_IDLE", "1h", 1);
  PoolUnderTest other(idle_after(0));
  pool.free(pool.malloc(64 * kMiB));
  never.free(never.malloc(64 * kMiB));
  pass(kSecond);
  call(other);
  EXPECT_EQ(pool.reserved(), 0u);
  EXPECT_GE(never.reserved(), 64 * kMiB);
  for (const char* bad : {"soon", "30 days", "-1", "0", "30s,threads", ",thread", "1e9h"}) {
    setenv("GPUPOOL_IDLE", bad, 1);
    gpupool_t* none = nullptr;
    const gpupool_config_t config = idle_after(0);
    EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_create(&config, &none))) << bad;
    EXPECT_NE(last_message().find("GPUPOOL_IDLE"), std::string::npos) << last_message();
  }
  unsetenv("GPUPOOL_IDLE");
  for (const double bad : {-2.0, 0.0001, 1e10}) {
    gpupool_t* none = nullptr;
    const gpupool_config_t config = idle_after(bad);
    EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_create(&config, &none))) << bad;
  }
}

// In a process of its own, since the thread stays.
using IdlePoolsDeathTest = IdlePools;

TEST_F(IdlePoolsDeathTest, AreFoundByAThreadWhereThatIsAskedFor) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto body = [] {
    setenv("GPUPOOL_IDLE", "10ms,thread", 1);
    PoolUnderTest pool(idle_after(0));
    pool.free(pool.malloc(64 * kMiB));
    const uint64_t before = device_free();
    for (int i = 0; i < 600 && device_free() < before + 64 * kMiB; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      pass(kSecond / 100);  // which calls no pool
    }
    std::_Exit(device_free() < before + 64 * kMiB ? 1 : 0);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace pool_test
