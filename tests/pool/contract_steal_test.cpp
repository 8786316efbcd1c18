// SPDX-License-Identifier: Apache-2.0
// Taking memory from a stream that still uses it: by a wait on the GPU, where the limit leaves no other way.
#include <atomic>
#include <chrono>
#include <thread>

#include "pool/contract.hpp"

namespace pool_test {
namespace {

class Steals : public Contract {
 protected:
  void SetUp() override {
    Contract::SetUp();
    if (IsSkipped()) return;
    busy_ = new_stream();
    thief_ = new_stream();
  }

  static uint8_t byte_at(gpupool_ptr_t address) {
    return *reinterpret_cast<const volatile uint8_t*>(address);
  }

  gpupool_stream_t busy_ = 0;
  gpupool_stream_t thief_ = 0;
};
INSTANTIATE_TEST_SUITE_P(On, Steals, testing::ValuesIn(variants_where([](const Variant& variant) {
                           return variant.is_controlled() && variant.is_vmm();
                         })),
                         name_of);

TEST_P(Steals, OfBusyMemoryWaitOnTheGpu) {
  PoolUnderTest pool(config_with_limit(kBlock));
  free_busy_block(pool, busy_, kBlock);
  const gpupool_ptr_t block = pool.malloc(kBlock, thief_);
  const gpupool_stats_t stats = pool.stats();
  EXPECT_EQ(stats.all.reserved_bytes.peak, kBlock);
  EXPECT_GT(stats.stream_steals, 0u);
  EXPECT_GT(stats.driver.stream_wait.count, 0u);
  EXPECT_EQ(stats.driver.host_wait.count, 0u);
  // The simulated device would see the race.
  EXPECT_TRUE(ok(gpupool_fill(lab_, block, 0x11, kBlock, thief_)));
  if (variant().machine == Machine::stand_in) {
    EXPECT_NE(byte_at(block), 0x11);
    finish(busy_);
    EXPECT_EQ(byte_at(block), 0x11);
  }
  pool.free(block, thief_);
  finish(busy_);
}

TEST_P(Steals, OfBusyMemoryComeAfterThoseOfIdleMemory) {
  PoolUnderTest pool(config_with_limit(2 * kBlock));
  const gpupool_stream_t idle = new_stream();
  const gpupool_ptr_t unused = pool.malloc(kBlock, idle);
  free_busy_block(pool, busy_, kBlock);
  pool.free(unused, idle);
  const gpupool_ptr_t block = pool.malloc(kBlock, thief_);
  EXPECT_EQ(pool.stats().driver.stream_wait.count, 0u);
  EXPECT_GT(pool.stats().stream_steals, 0u);
  work(thief_, block, kBlock);
  finish(thief_);
  finish(busy_);
  pool.free(block, thief_);
}

TEST_P(Steals, OfWhatWasStolenBeforeWaitForBoth) {
  PoolUnderTest pool(config_with_limit(kBlock));
  const gpupool_stream_t third = new_stream();
  free_busy_block(pool, busy_, kBlock);
  gpupool_ptr_t block = pool.malloc(kBlock, thief_);
  pool.free(block, thief_);
  block = pool.malloc(kBlock, third);
  EXPECT_TRUE(ok(gpupool_fill(lab_, block, 0x22, kBlock, third)));
  if (variant().machine == Machine::stand_in) {
    EXPECT_NE(byte_at(block), 0x22);
    finish(busy_);
    EXPECT_EQ(byte_at(block), 0x22);
  }
  pool.free(block, third);
  finish(busy_);
  pool.synchronize();
  pool.validate();
}

// While one thread waits on the host for a stream, its event must not be overlooked by another that steals.
TEST_P(Steals, WaitOnTheGpuWhileAnotherThreadWaitsOnTheHost) {
  if (variant().machine != Machine::stand_in) GTEST_SKIP() << "waiting takes no time";
  PoolUnderTest pool(config_with_limit(kBlock));
  free_busy_block(pool, busy_, kBlock);
  pool.trim(kBlock);  // gives nothing back; what threads keep goes to the heaps, in the open epoch
  const uint64_t waits = fake_cuda().calls("cuEventSynchronize");
  std::thread waiter([&] { pool.synchronize(); });
  while (fake_cuda().calls("cuEventSynchronize") == waits) std::this_thread::yield();

  gpupool_ptr_t block = 0;
  ASSERT_TRUE(ok(pool.try_malloc(kBlock, thief_, block)));
  EXPECT_TRUE(ok(gpupool_fill(lab_, block, 0x33, kBlock, thief_)));
  EXPECT_NE(byte_at(block), 0x33);
  finish(busy_);
  waiter.join();
  EXPECT_EQ(byte_at(block), 0x33);
  pool.free(block, thief_);
}

// What nobody knows the users of comes back after all work was waited for: also to a second thread that needs
// it.
TEST_P(Steals, WaitForWhatAnotherThreadWaitsForAlready) {
  if (variant().machine != Machine::stand_in) GTEST_SKIP() << "waiting takes no time";
  PoolUnderTest pool(config_with_limit(2 * kBlock));
  EXPECT_TRUE(ok(gpupool_reserve(pool, 0, new_stream())));
  for (const gpupool_ptr_t block : {pool.malloc(kBlock, busy_), pool.malloc(kBlock, busy_)}) {
    work(busy_, block, kBlock);
    pool.free(block, GPUPOOL_STREAM_UNKNOWN);
  }
  std::atomic<int> served{0};
  const auto need = [&] {
    pool.free(pool.malloc(kBlock, thief_), thief_);
    ++served;
  };
  const auto waits = [] {
    return fake_cuda().calls("cuMemHostUnregister") + fake_cuda().calls("cuEventSynchronize");
  };
  const uint64_t before = waits();
  std::thread first(need);
  while (waits() == before) std::this_thread::yield();
  std::thread second(need);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(served, 0);
  finish(busy_);
  first.join();
  second.join();
  EXPECT_EQ(served, 2);
}

TEST_P(Steals, OfAReleasedStreamsBusyMemoryWaitOnTheGpu) {
  PoolUnderTest pool(config_with_limit(kBlock));
  free_busy_block(pool, busy_, kBlock);
  EXPECT_TRUE(ok(gpupool_release_stream(pool, busy_)));
  const gpupool_ptr_t block = pool.malloc(kBlock, thief_);
  EXPECT_TRUE(ok(gpupool_fill(lab_, block, 0x44, kBlock, thief_)));
  EXPECT_EQ(pool.stats().driver.host_wait.count, 0u);
  if (variant().machine == Machine::stand_in) {
    EXPECT_NE(byte_at(block), 0x44);
  }
  finish(busy_);
  pool.free(block, thief_);
}

// ---- without need

/// Two streams that are behind the host, for a pool with room.
class StealsOfStreamsBehind : public Steals {
 protected:
  static constexpr uint64_t kStep = 20'000'000;  // nanoseconds

  /// Lets the host's time pass, but finishes nothing.
  void pass_time() {
    if (variant().machine == Machine::sim) {
      EXPECT_TRUE(ok(gpupool_sim_advance(kDevice, kStep)));
    } else {
      std::this_thread::sleep_for(std::chrono::nanoseconds(kStep));
    }
  }

  /// A malloc on the thief's stream, for which the pool looks at busy_, whose memory is not idle.
  gpupool_ptr_t look(PoolUnderTest& pool) {
    found_.push_back(pool.malloc(kBlock, thief_));
    return found_.back();
  }

  void end(PoolUnderTest& pool) {
    finish(busy_);
    finish(thief_);
    for (const gpupool_ptr_t block : found_) pool.free(block, thief_);
    pool.validate();
  }

 private:
  std::vector<gpupool_ptr_t> found_;
};
INSTANTIATE_TEST_SUITE_P(On, StealsOfStreamsBehind,
                         testing::ValuesIn(variants_where([](const Variant& variant) {
                           return variant.is_controlled() && variant.is_vmm();
                         })),
                         name_of);

// It would not get there earlier without the wait.
TEST_P(StealsOfStreamsBehind, WaitOnTheGpuIfTheThiefIsBehindToo) {
  PoolUnderTest pool(config_with_limit(0));
  free_busy_block(pool, busy_, kBlock);
  work(thief_, look(pool), kBlock);
  pass_time();
  const uint64_t reserved = pool.reserved();
  const gpupool_ptr_t stolen = look(pool);
  EXPECT_EQ(pool.reserved(), reserved);
  const gpupool_stats_t stats = pool.stats();
  EXPECT_EQ(stats.driver.stream_wait.count, 1u);
  EXPECT_EQ(stats.driver.host_wait.count, 0u);
  // The simulated device would see the race.
  EXPECT_TRUE(ok(gpupool_fill(lab_, stolen, 0x55, kBlock, thief_)));
  end(pool);
}

TEST_P(StealsOfStreamsBehind, AreLeftAloneByAnIdleThief) {
  PoolUnderTest pool(config_with_limit(0));
  free_busy_block(pool, busy_, kBlock);
  for (int i = 1; i <= 3; ++i) {
    look(pool);
    EXPECT_EQ(pool.reserved(), (i + 1) * kBlock);
    pass_time();
  }
  EXPECT_EQ(pool.stats().driver.stream_wait.count, 0u);
  end(pool);
}

TEST_P(StealsOfStreamsBehind, AreLeftAloneByAThiefThatKeepsUpWithTheHost) {
  PoolUnderTest pool(config_with_limit(0));
  free_busy_block(pool, busy_, kBlock);
  look(pool);
  for (int i = 0; i < 3; ++i) pass_time();
  work(thief_, look(pool), kBlock);  // had done all before
  look(pool);
  EXPECT_EQ(pool.stats().driver.stream_wait.count, 0u);
  EXPECT_EQ(pool.reserved(), 4 * kBlock);
  end(pool);
}

// The chunk is mapped twice while the old work runs; afterwards the old address must not be left behind.
TEST_P(Steals, LeaveNothingMappedBehind) {
  PoolUnderTest pool(config_with_limit(kBlock));
  const gpupool_ptr_t old_block = free_busy_block(pool, busy_, kBlock);
  const gpupool_ptr_t block = pool.malloc(kBlock, thief_);
  EXPECT_NE(block, old_block);
  finish(busy_);
  pool.free(block, thief_);
  pool.empty();
  EXPECT_EQ(pool.reserved(), 0u);
  EXPECT_EQ(taken_from_device(), 0u);
  if (variant().machine == Machine::stand_in) {
    EXPECT_EQ(fake_cuda().live().mappings, 0u);
  }
}

}  // namespace
}  // namespace pool_test
