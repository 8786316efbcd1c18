// SPDX-License-Identifier: Apache-2.0
// The room of streams by itself: what a capture holds.
#include <gtest/gtest.h>

#include "pool/rooms.hpp"

namespace gpupool::internal {
namespace {

TEST_F(Rooms, APoolWithoutTheFlagHoldsAllOnceItGrewInACapture) {
  Streams unaware(*metered, space, false);
  Captures captures(options, *metered, unaware);
  StreamState* other = nullptr;
  ASSERT_EQ(unaware.find(StreamUser::of_own(2), other), kSuccess);
  EXPECT_FALSE(captures.note(*other, StreamUser::of_own(2)));
  EXPECT_FALSE(captures.hold_all());
  ASSERT_EQ(sim_capture(kOrdinal, 2, true), kSuccess) << last_error().message;
  EXPECT_TRUE(captures.note(*other, StreamUser::of_own(2)));
  EXPECT_TRUE(captures.hold_all());
  EXPECT_TRUE(captures.keep_mappings(*state));
  uint64_t capture = 0;
  ASSERT_EQ(metered->capture_id(StreamUser::of_own(2), capture), kSuccess);
  EXPECT_EQ(captures.release(capture), GPUPOOL_ERROR_INVALID_ARGUMENT) << "it is under way";
  ASSERT_EQ(sim_capture(kOrdinal, 2, false), kSuccess);
  EXPECT_EQ(captures.release(capture), kSuccess) << last_error().message;
  EXPECT_FALSE(captures.hold_all());
}

TEST_F(Rooms, ACaptureAwarePoolAndAChildSeeNoneOfIt) {
  Captures aware(options, *metered, *streams);
  options.is_child = true;
  EXPECT_TRUE(aware.keep_mappings(*state)) << "a child's memory is a graph's";
  ASSERT_EQ(sim_capture(kOrdinal, 1, true), kSuccess);
  EXPECT_TRUE(aware.note(*state, StreamUser::of_own(1)));
  EXPECT_FALSE(aware.hold_all());
  ASSERT_EQ(sim_capture(kOrdinal, 1, false), kSuccess);
}

}  // namespace
}  // namespace gpupool::internal
