// SPDX-License-Identifier: Apache-2.0
#include "core/governor.hpp"

#include <gtest/gtest.h>

namespace gpupool::internal {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

TEST(TimeShare, IsOverspentByABurstAndRecoversWithTime) {
  TimeShare share(1'000'000);
  share.spend(999'999, 0);
  EXPECT_FALSE(share.is_overspent());
  share.spend(1, 0);
  EXPECT_TRUE(share.is_overspent());
  share.spend(0, kSecond / 2);  // half of the burst has been earned since
  EXPECT_FALSE(share.is_overspent());
  share.spend(500'000, kSecond / 2);
  EXPECT_TRUE(share.is_overspent());
}

TEST(TimeShare, IsNeverOverspentByLessThanTheShare) {
  TimeShare share(2'000'000);
  for (uint64_t now = 0; now < 1000 * kSecond; now += kSecond) {
    share.spend(kSecond / policy::kTimeParts, now);
    ASSERT_FALSE(share.is_overspent()) << now;
  }
  for (uint64_t now = 1000 * kSecond; !share.is_overspent(); now += kSecond) {
    ASSERT_LT(now, 1010 * kSecond) << "half as much again is too much";
    share.spend(3 * kSecond / policy::kTimeParts / 2, now);
  }
}

TEST(TimeShare, RemembersTwoBurstsAtMost) {
  TimeShare share(1'000'000);
  share.spend(3600 * kSecond, 0);
  share.spend(0, kSecond + 1);
  EXPECT_FALSE(share.is_overspent());
}

TEST(TimeShare, ClocksThatGoBackChangeNothing) {
  TimeShare share(1'000'000);
  share.spend(1'000'000, 5 * kSecond);
  share.spend(0, 0);
  EXPECT_TRUE(share.is_overspent());
}

TEST(Governor, StreamsKeepApartForAWhile) {
  Governor governor;
  EXPECT_FALSE(governor.keeps_apart(0));
  governor.moved_between(policy::kBurstBetweenNs, 0, kSecond);
  EXPECT_TRUE(governor.keeps_apart(kSecond));
  EXPECT_TRUE(governor.keeps_apart(kSecond + policy::kApartNs - 1));
  EXPECT_FALSE(governor.keeps_apart(kSecond + policy::kApartNs));
}

TEST(CacheRest, ThreadsKeepTheirCachesAfterTooManyDrains) {
  CacheRest rest;
  const size_t burst = policy::kBurstBetweenNs / policy::kDrainNs;
  rest.drained(burst - 1, kSecond);
  EXPECT_FALSE(rest.keeps_apart(kSecond));
  rest.drained(1, kSecond);
  EXPECT_TRUE(rest.keeps_apart(kSecond + policy::kApartNs - 1));
  EXPECT_FALSE(rest.keeps_apart(kSecond + policy::kApartNs));
}

TEST(CacheRest, PausesLongerEachTimeThatMemoryIsTooLittle) {
  CacheRest rest;
  const size_t burst = policy::kBurstBetweenNs / policy::kDrainNs;
  uint64_t now = kSecond;
  for (const uint64_t windows : {1, 3, 7, 15}) {
    rest.drained(burst, now);
    EXPECT_TRUE(rest.keeps_apart(now));
    rest.fail(now);
    EXPECT_FALSE(rest.keeps_apart(now));
    now += windows * policy::kApartNs;
    rest.drained(burst, now - 1);
    EXPECT_FALSE(rest.keeps_apart(now - 1)) << windows;
  }
  rest.fail(now);
  rest.drained(burst, now);
  EXPECT_TRUE(rest.keeps_apart(now)) << "what keeps nothing cannot fail";
}

TEST(Governor, StreamsOfALargePoolMayMoveMore) {
  constexpr uint64_t kMoreNs = 8 * policy::kBurstBetweenNs;
  constexpr uint64_t kHeld = policy::kBurstFirstBytes + kMoreNs * policy::kBurstBytesPerNs;
  Governor governor;
  governor.moved_between(policy::kBurstBetweenNs + kMoreNs - 1, kHeld, 0);
  EXPECT_FALSE(governor.keeps_apart(0));
  governor.moved_between(1, kHeld, 0);
  EXPECT_TRUE(governor.keeps_apart(0));
  Governor small;
  small.moved_between(policy::kBurstBetweenNs, policy::kBurstFirstBytes, 0);
  EXPECT_TRUE(small.keeps_apart(0)) << "the first bytes count for nothing";
}

constexpr uint64_t kLargePool = 2 * policy::kSmallPool;

TEST(Governor, OnlyWhatIsOverspentEarnsCredit) {
  Governor governor;
  governor.moved_within(64 * kMiB, policy::kBurstWithinNs / 2, kLargePool, 0);
  EXPECT_FALSE(governor.affords(kUnit, 0));
  governor.moved_within(64 * kMiB, policy::kBurstWithinNs, kLargePool, 0);
  EXPECT_TRUE(governor.affords(64 * kMiB / policy::kCreditParts, 0));
  EXPECT_FALSE(governor.affords(64 * kMiB / policy::kCreditParts + 1, 0));
  governor.created(64 * kMiB);
  EXPECT_FALSE(governor.affords(kUnit, 0));
}

TEST(Governor, ASmallPoolEarnsCreditSooner) {
  Governor governor;
  governor.moved_within(64 * kMiB, policy::kBurstBetweenNs, policy::kSmallPool, 0);
  EXPECT_TRUE(governor.affords(kUnit, 0));
}

TEST(Governor, CreditExpiresByHalves) {
  Governor governor;
  governor.moved_within(64 * kMiB * policy::kCreditParts, 2 * policy::kBurstWithinNs, kLargePool, 0);
  EXPECT_FALSE(governor.affords(32 * kMiB + 1, policy::kHalfLifeNs));
  EXPECT_TRUE(governor.affords(32 * kMiB, policy::kHalfLifeNs));
  EXPECT_FALSE(governor.affords(kUnit, 100 * policy::kHalfLifeNs));
}

}  // namespace
}  // namespace gpupool::internal
