// SPDX-License-Identifier: Apache-2.0
// The lanes of a cache against a map.
#include "pool/cache/lanes.hpp"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>
#include <vector>

namespace gpupool::internal {
namespace {

TEST(Lanes, AgreeWithAMap) {
  Lanes lanes;
  std::vector<Lane> all(Lanes::kMost);
  std::vector<Lane*> spare;
  for (Lane& lane : all) spare.push_back(&lane);
  std::map<Stream, Lane*> map;
  std::mt19937_64 random(5);
  // Small numbers, and pointers that lie close together.
  const auto any_stream = [&] {
    const Stream number = random() % 100;
    return random() % 2 == 0 ? number : 0x7f0000000000 + 0x40 * number;
  };
  for (int step = 0; step < 20'000; ++step) {
    const Stream stream = any_stream();
    const auto known = map.find(stream);
    ASSERT_EQ(lanes.find(stream), known == map.end() ? nullptr : known->second);
    if (known != map.end()) {
      ASSERT_EQ(lanes.close(stream), known->second);
      spare.push_back(known->second);
      map.erase(known);
    } else if (!lanes.is_full()) {
      lanes.open(stream, spare.back());
      map[stream] = spare.back();
      spare.pop_back();
    } else {
      const Stream victim = lanes.victim()->stream;
      ASSERT_EQ(map.count(victim), 1u);
      spare.push_back(lanes.close(victim));
      map.erase(victim);
    }
    ASSERT_EQ(lanes.is_full(), map.size() == Lanes::kMost);
    ASSERT_TRUE(lanes.is_valid());
  }
  size_t count = 0;
  lanes.for_each([&](const Lane& lane) {
    ++count;
    EXPECT_EQ(map.at(lane.stream), &lane);
  });
  EXPECT_EQ(count, map.size());
}

TEST(Lanes, MakeRoomInTurn) {
  Lanes lanes;
  std::vector<Lane> all(Lanes::kMost);
  for (size_t i = 0; i < all.size(); ++i) lanes.open(i, &all[i]);
  std::map<Lane*, int> victims;
  for (size_t i = 0; i < all.size(); ++i) ++victims[lanes.victim()];
  EXPECT_EQ(victims.size(), all.size());
}

TEST(Lanes, HoldNothingForNoStream) {
  Lanes lanes;
  EXPECT_EQ(lanes.find(kNoStream), nullptr);
  EXPECT_TRUE(lanes.home(kNoStream).lane->bins.empty());
  Lane lane;
  lanes.open(0, &lane);
  EXPECT_EQ(lanes.find(kNoStream), nullptr);
  lane.stream = 1;
  EXPECT_FALSE(lanes.is_valid()) << "a lane that does not know its stream";
}

}  // namespace
}  // namespace gpupool::internal
