// SPDX-License-Identifier: Apache-2.0
// The room of sleep by itself: what is saved where, what moves together, and who wakes first.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "pool/rooms.hpp"
#include "pool/sleep/saved_bytes.hpp"
#include "pool/sleep/sleep_plan.hpp"
#include "pool/sleep/wake_queue.hpp"

namespace gpupool::internal {
namespace {

TEST_F(Rooms, SavedBytesGetTheFirstRoomBetweenOthers) {
  constexpr Address kBase = 64 * kMiB;
  SavedBytes saved(*metered, space);
  saved.reserve(2);
  saved.add({{kBase + 32 * kMiB, 4 * kMiB, 12 * kMiB}, {kBase, 4 * kMiB, 0}});
  EXPECT_EQ(saved.find(kBase + kMiB)->offset, 0u);
  EXPECT_EQ(saved.find(kBase + 33 * kMiB)->offset, 12 * kMiB);
  EXPECT_EQ(saved.find(kBase + 4 * kMiB), nullptr);
  const auto place = [&](uint64_t size) {
    SleepPlan plan;
    plan.runs.push_back({kBase + 64 * kMiB, size, 0});
    plan.backup_bytes = size;
    saved.place(plan);
    EXPECT_EQ(saved.end_with(plan), std::max(16 * kMiB, plan.runs.front().offset + size));
    return plan.runs.front().offset;
  };
  EXPECT_EQ(place(8 * kMiB), 4 * kMiB);
  EXPECT_EQ(place(8 * kMiB + kUnit), 16 * kMiB);
  saved.forget(kBase, kBase + 4 * kMiB);
  EXPECT_EQ(saved.find(kBase), nullptr);
  EXPECT_EQ(place(8 * kMiB + kUnit), 0u);
  saved.forget();
  EXPECT_TRUE(saved.runs().empty()) << "no block of the space has these addresses";
}

TEST(SleepPlans, NeighbouringChunksMoveTogether) {
  Region region;
  std::array<Chunk, 4> chunks;
  for (size_t at = 0; at < chunks.size(); ++at) {
    chunks[at].address = 64 * kMiB + at * kGranule;
    chunks[at].size = kGranule;
    chunks[at].handle = 1;
    chunks[at].region = &region;
  }
  chunks[2].address += kGranule;  // behind a gap
  chunks[3].address = 0;          // backs nothing
  chunks[3].handle = 0;           // and is yet to be created
  SleepPlan plan;
  for (Chunk& chunk : chunks) plan.add_chunk(&chunk);
  ASSERT_EQ(plan.batches.size(), 3U);
  EXPECT_EQ(plan.batches[0].size, 2 * kGranule);
  EXPECT_EQ(plan.batches[0].count, 2U);
  EXPECT_EQ(plan.batches[1].size, kGranule);
  EXPECT_EQ(plan.batches[2].size, 0U);
  EXPECT_EQ(plan.missing, kGranule);
}

TEST(SleepPlans, ASmallHoleIsCopiedWithWhatIsAroundIt) {
  std::array<Range, 5> ranges;  // block, hole, block, hole, block
  constexpr std::array<uint64_t, 5> kSizes = {kMiB, kUnit, kMiB, 2 * kUnit, kMiB};
  Address at = 64 * kMiB;
  for (size_t i = 0; i < ranges.size(); ++i) {
    ranges[i].address = at;
    ranges[i].size = kSizes[i];
    ranges[i].become(i % 2 == 0 ? State::live : State::hole);
    ranges[i].prev = i == 0 ? nullptr : &ranges[i - 1];
    at += kSizes[i];
  }
  SleepPlan plan;
  for (size_t i = 0; i < ranges.size(); i += 2) plan.add_run(ranges[i], kUnit);
  ASSERT_EQ(plan.runs.size(), 2U);
  EXPECT_EQ(plan.runs[0].size, 2 * kMiB + kUnit);
  EXPECT_EQ(plan.runs[1].offset, plan.runs[0].size);
  EXPECT_EQ(plan.backup_bytes, 3 * kMiB + kUnit);
  EXPECT_EQ(plan.saved, 3 * kMiB) << "of blocks";
}

TEST(WakePlaces, ComeInTheOrderInWhichTheyBeganToWait) {
  constexpr Scarce kDevice = 1;
  constexpr Scarce kLimit = 2;
  WakePlace first(WakePlace::next_step());
  WakePlace second(WakePlace::next_step());
  const std::array<Scarce, 2> needs{kLimit, kDevice};
  EXPECT_EQ(second.find_ahead(needs), 0U) << "nobody waits";
  first.wait_for(kDevice);
  EXPECT_EQ(second.find_ahead(needs), 0U) << "it slept before the first began to wait";
  second.wait_for(kDevice);
  EXPECT_EQ(second.find_ahead(needs), kDevice);
  EXPECT_EQ(first.find_ahead(needs), 0U);
  EXPECT_EQ(second.find_ahead(std::array<Scarce, 1>{kLimit}), 0U) << "that is not short";
  first.wait_for(kLimit);
  EXPECT_EQ(second.find_ahead(needs), kLimit);
}

}  // namespace
}  // namespace gpupool::internal
