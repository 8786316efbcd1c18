// SPDX-License-Identifier: Apache-2.0
// Who is served first: wakes that wait for the same memory, and mallocs that wait for a wake.
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "sleep_fixture.hpp"

namespace sleep_test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kLong = 60'000'000'000;

/// On a device of 64 MiB. Contents do not matter here.
class Fairness : public Sleep {
 protected:
  void SetUp() override { restart(2, 64 * kMiB); }
  void TearDown() override {
    pools_.clear();
    Sleep::TearDown();
  }

  /// A pool with one block, asleep.
  gpupool_t* asleep(uint64_t bytes) { return asleep(bytes, sim_config()); }
  gpupool_t* asleep(uint64_t bytes, const gpupool_config_t& config) {
    Each& each = pools_.emplace_back(std::make_unique<PoolUnderTest>(config), 0);
    each.block = each.pool->malloc(bytes);
    fall_asleep(*each.pool);
    return *each.pool;
  }
  /// Begins to wake it on a thread of its own, and returns once that waits, or has had what it needs.
  static std::thread wait_for(gpupool_t* pool, const std::function<void()>& then) {
    const auto is_served = std::make_shared<std::atomic<bool>>(false);
    std::thread waiting([pool, then, is_served] {
      EXPECT_TRUE(ok(try_wake(pool, kLong)));
      *is_served = true;
      then();
    });
    while (!*is_served && state_of(pool) != GPUPOOL_SLEEP_STATE_WAKING) std::this_thread::yield();
    std::this_thread::sleep_for(20ms);
    return waiting;
  }

 private:
  struct Each {
    std::unique_ptr<PoolUnderTest> pool;
    gpupool_ptr_t block;
    Each(std::unique_ptr<PoolUnderTest> p, gpupool_ptr_t b) : pool(std::move(p)), block(b) {}
    Each(Each&&) = default;
    Each& operator=(Each&&) = default;
    ~Each() {
      if (pool != nullptr) pool->free(block);
    }
  };
  std::vector<Each> pools_;
};

TEST_F(Fairness, WakesAreServedInTheOrderInWhichTheyCame) {
  gpupool_t* const holder = asleep(60 * kMiB);
  ASSERT_TRUE(ok(try_wake(holder)));
  std::mutex mutex;
  std::vector<int> order;
  std::vector<std::thread> threads;
  std::array<gpupool_t*, 6> pools{};
  // The device has no room for all that are to sleep there at first.
  ASSERT_TRUE(ok(try_sleep(holder)));
  for (gpupool_t*& pool : pools) pool = asleep(40 * kMiB);
  ASSERT_TRUE(ok(try_wake(holder)));
  for (const int i : {3, 0, 5, 1, 4, 2}) {
    threads.push_back(wait_for(pools[static_cast<size_t>(i)], [&, i] {
      {
        const std::lock_guard lock(mutex);
        order.push_back(i);
      }
      std::this_thread::sleep_for(3ms);
      EXPECT_TRUE(ok(try_sleep(pools[static_cast<size_t>(i)])));
    }));
  }
  ASSERT_TRUE(ok(try_sleep(holder)));
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(order, (std::vector<int>{3, 0, 5, 1, 4, 2}));
}

// Two small pools sleep and wake all the time, and together leave too little for a large one. Each may have
// the one turn that is under way, and one more.
TEST_F(Fairness, SmallPoolsDoNotStarveALargeOne) {
  gpupool_t* const large = asleep(48 * kMiB);
  const std::array<gpupool_t*, 2> small{asleep(24 * kMiB), asleep(24 * kMiB)};
  std::atomic<bool> waits{false};
  std::atomic<bool> served{false};
  std::array<std::atomic<int>, 2> turns{};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < small.size(); ++i) {
    threads.emplace_back([&, i] {
      while (!served) {
        ASSERT_TRUE(ok(try_wake(small[i], kLong)));
        if (waits && !served) ++turns[i];
        std::this_thread::sleep_for(4ms);
        ASSERT_TRUE(ok(try_sleep(small[i])));
      }
    });
  }
  std::this_thread::sleep_for(20ms);
  threads.push_back(wait_for(large, [&] {
    served = true;
    EXPECT_TRUE(ok(try_sleep(large)));
  }));
  waits = true;
  for (std::thread& thread : threads) thread.join();
  for (const std::atomic<int>& each : turns) EXPECT_LE(each, 2);
}

TEST_F(Fairness, WhoHasNoTimeLeftTakesWhatThereIs) {
  gpupool_t* const holder = asleep(32 * kMiB);
  gpupool_t* const large = asleep(48 * kMiB);
  gpupool_t* const small = asleep(16 * kMiB);
  gpupool_t* const patient = asleep(8 * kMiB);
  ASSERT_TRUE(ok(try_wake(holder)));
  ASSERT_TRUE(ok(try_wake(small)));
  std::thread waiting = wait_for(large, [] {});
  // It has not had a turn since.
  Clock::time_point begin = Clock::now();
  EXPECT_TRUE(ok(try_wake(patient, kLong)));
  EXPECT_LT(Clock::now() - begin, 10s);
  ASSERT_TRUE(ok(try_sleep(patient)));
  ASSERT_TRUE(ok(try_sleep(small)));
  // It does not wait at all.
  EXPECT_TRUE(ok(try_wake(small)));
  ASSERT_TRUE(ok(try_sleep(small)));
  // It has had its turn, and waits for the other, but not longer than it said.
  begin = Clock::now();
  EXPECT_TRUE(ok(try_wake(small, 100'000'000)));
  EXPECT_GE(Clock::now() - begin, 100ms);
  ASSERT_TRUE(ok(try_sleep(small)));
  ASSERT_TRUE(ok(try_sleep(holder)));
  waiting.join();
}

// What one waits for, others may not need.
TEST_F(Fairness, WhoWaitsForALimitHoldsUpNobodyElse) {
  gpupool_config_t config = sim_config();
  config.limit_bytes = 16 * kMiB;
  PoolUnderTest parent(config);
  gpupool_t* children[2] = {};
  gpupool_ptr_t blocks[2] = {};
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(ok(gpupool_create_child(parent, &children[i])));
    ASSERT_TRUE(ok(gpupool_malloc(children[i], 12 * kMiB, 0, &blocks[i])));
    fall_asleep(children[i]);
  }
  ASSERT_TRUE(ok(try_wake(children[0])));
  std::thread waiting = wait_for(children[1], [] {});
  gpupool_t* const other = asleep(16 * kMiB);  // later than the other began to wait
  const Clock::time_point begin = Clock::now();
  EXPECT_TRUE(ok(try_wake(other, kLong)));
  EXPECT_LT(Clock::now() - begin, 10s);
  ASSERT_TRUE(ok(try_sleep(children[0])));
  waiting.join();
  ASSERT_TRUE(ok(try_sleep(children[1])));
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(ok(gpupool_free(children[i], blocks[i], 0)));
    EXPECT_TRUE(ok(gpupool_destroy(children[i])));
  }
}

// A malloc that waits for the wake gets memory from the first one, however soon the pool sleeps again.
TEST_F(Fairness, HeldMallocsAreServedBeforeThePoolSleepsAgain) {
  const gpupool_sleep_options_t how = options(GPUPOOL_SLEEP_MODE_DROP, GPUPOOL_SLEEP_FLAG_HOLD_MALLOCS);
  constexpr size_t kMallocs = 6;
  PoolUnderTest pool(sim_config());
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(ok(gpupool_sleep(pool, &how, nullptr)));
    std::array<gpupool_ptr_t, kMallocs> blocks{};
    std::vector<std::thread> threads;
    for (gpupool_ptr_t& block : blocks) {
      threads.emplace_back([&] { EXPECT_TRUE(ok(gpupool_malloc(pool, kMiB, 0, &block))); });
    }
    std::this_thread::sleep_for(20ms);
    ASSERT_TRUE(ok(try_wake(pool)));
    ASSERT_TRUE(ok(gpupool_sleep(pool, &how, nullptr)));
    EXPECT_EQ(pool.stats().all.allocated_bytes.current, kMallocs * kMiB);
    ASSERT_TRUE(ok(try_wake(pool)));
    for (std::thread& thread : threads) thread.join();
    for (const gpupool_ptr_t block : blocks) pool.free(block);
  }
}

}  // namespace
}  // namespace sleep_test
