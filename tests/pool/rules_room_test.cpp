// SPDX-License-Identifier: Apache-2.0
// The room of rules by itself: the lock, the ledger, the words of debug modes.
#include <gtest/gtest.h>

#include <thread>

#include "base/bits.hpp"
#include "pool/rules/debug_modes.hpp"
#include "pool/rules/ledger.hpp"
#include "pool/rules/pool_lock.hpp"

namespace gpupool::internal {
namespace {

struct Looking final : Onlooker {
  void look() noexcept override { ++looks; }
  int looks = 0;
};

TEST(PoolLock, TellsItsOnlookerEachTimeThatItIsGivenUp) {
  PoolMutex mutex;
  Looking onlooker;
  {
    PoolLock lock(mutex, &onlooker);
    EXPECT_EQ(onlooker.looks, 0);
    lock.give_up_for([&] { const PoolLock other(mutex); });
    EXPECT_EQ(onlooker.looks, 1);
    EXPECT_FALSE(lock.give_way()) << "nobody waits";
  }
  EXPECT_EQ(onlooker.looks, 2);
}

TEST(PoolLock, GivesWayToAThreadThatWaits) {
  PoolMutex mutex;
  PoolLock lock(mutex);
  bool had_it = false;
  std::thread other([&] {
    const PoolLock its(mutex);
    had_it = true;
  });
  while (!mutex.has_waiters()) std::this_thread::yield();
  EXPECT_TRUE(lock.give_way());
  EXPECT_TRUE(had_it);
  other.join();
}

TEST(Ledger, FollowsMemoryFromTheDeviceAndBack) {
  Ledger ledger;
  ASSERT_TRUE(ledger.budget().charge(4 * kMiB));
  ledger.created(4 * kMiB);
  ledger.attached(SizeGroup::large, 4 * kMiB);
  EXPECT_EQ(ledger.chunks_of_size(22), 1U);
  EXPECT_EQ(ledger.reserved(SizeGroup::large).current, 4 * kMiB);
  EXPECT_EQ(ledger.reserved(SizeGroup::small).current, 0U);
  ledger.detached(SizeGroup::large, 4 * kMiB);
  ledger.released(4 * kMiB);
  EXPECT_EQ(ledger.used(), 0U);
  EXPECT_EQ(ledger.reserved().peak, 4 * kMiB);
  ledger.reset_peaks();
  EXPECT_EQ(ledger.reserved().peak, 0U);
  EXPECT_EQ(ledger.totals().bytes_created, ledger.totals().bytes_released);
}

TEST(DebugModes, AreReadAsTheyAreWritten) {
  DebugModes modes;
  ASSERT_EQ(parse_debug_modes("modes", "poison,quarantine=64MiB", modes), kSuccess) << last_error().message;
  EXPECT_TRUE(modes.poison && modes.slows() && !modes.has_fences());
  EXPECT_EQ(modes.quarantine, 64 * kMiB);
  ASSERT_EQ(parse_debug_modes("modes", "guard", modes), kSuccess);
  EXPECT_TRUE(modes.any() && modes.has_fences() && !modes.slows()) << "the last text alone counts";
  EXPECT_EQ(parse_debug_modes("modes", "poison,quarantine=much", modes), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_TRUE(modes.guard && !modes.poison) << "a text that is refused changes nothing";
}

}  // namespace
}  // namespace gpupool::internal
