// SPDX-License-Identifier: Apache-2.0
// The room of debug modes by itself: what is known of blocks, and which freed ones may not be reused yet.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "pool/debug/block_history.hpp"
#include "pool/debug/descriptions.hpp"
#include "pool/debug/inspector.hpp"
#include "pool/debug/quarantine.hpp"
#include "pool/rooms.hpp"

namespace gpupool::internal {
namespace {

constexpr Address kBase = 64 * kMiB;

BlockRecord block_at(Address address, uint64_t number) {
  BlockRecord block;
  block.address = address;
  block.requested = 1000;
  block.room = 1024;
  block.number = number;
  return block;
}

TEST(BlockHistory, KnowsWhatLiesOrLayAtAnAddress) {
  BlockHistory history;
  EXPECT_EQ(history.holder(kBase), nullptr);
  history.add(block_at(kBase, 1));
  history.add(block_at(kBase + 4096, 2));
  EXPECT_EQ(history.holder(kBase + 1023)->number, 1U);
  EXPECT_EQ(history.holder(kBase + 1024), nullptr) << "behind its room";
  EXPECT_EQ(history.below(kBase + 2048)->number, 1U);
  EXPECT_EQ(history.above(kBase + 2048)->number, 2U);
  EXPECT_EQ(history.below(kBase), nullptr);
  EXPECT_EQ(history.above(kBase + 4096), nullptr);

  history.move_to_gone(kBase);
  EXPECT_EQ(history.find(kBase), nullptr);
  EXPECT_EQ(history.holder(kBase + 5)->number, 1U) << "nothing is there since";
  history.add(block_at(kBase, 3));
  EXPECT_EQ(history.holder(kBase + 5)->number, 3U);
  EXPECT_EQ(history.find(kBase, 1)->number, 1U);
  EXPECT_EQ(history.find(kBase, 9), nullptr);
}

TEST(BlockHistory, ForgetsTheOldestOfThoseThatAreGone) {
  BlockHistory history;
  for (uint64_t number = 1; number <= BlockHistory::kGone + 1; ++number) {
    history.add(block_at(kBase, number));
    history.move_to_gone(kBase);
  }
  EXPECT_EQ(history.find(kBase, 1), nullptr);
  EXPECT_EQ(history.find(kBase, 2)->number, 2U);
}

TEST(Descriptions, SayWhatWasWrittenWhere) {
  Finding finding;
  finding.block = block_at(kBase, 17);
  finding.first = 1000;
  finding.last = 1001;
  finding.count = finding.shown = 2;
  finding.bytes = {0xab, 0x01};
  const std::string text = describe_finding(finding);
  EXPECT_EQ(text.find("2 bytes were written beyond the end of a block, from +1000 to +1001: ab 01; block 17"),
            0U)
      << text;
}

class QuarantineRoom : public Rooms {
 protected:
  void SetUp() override {
    Rooms::SetUp();
    for (size_t at = 0; at < blocks.size(); ++at) {
      blocks[at].address = kBase + at * kMiB;
      blocks[at].size = kMiB;
      blocks[at].heap = &heap();
    }
  }
  auto note() {
    return [this](Range& block) { released.push_back(block.address); };
  }

  BlockHistory history;
  std::array<Range, kLooksAtOnce> blocks;
  std::vector<Address> released;
};

TEST_F(QuarantineRoom, BlocksLeaveInTheirOrderOnceThereIsNoRoom) {
  Inspector inspector(*metered, *streams);
  Quarantine quarantine(2 * kMiB, history, inspector);
  EXPECT_TRUE(quarantine.empty());
  quarantine.add(blocks[0]);
  quarantine.add(blocks[1]);
  EXPECT_FALSE(quarantine.is_full(0));
  quarantine.add(blocks[2]);
  EXPECT_TRUE(quarantine.is_full(0));
  quarantine.make_room(note());
  EXPECT_EQ(released, (std::vector<Address>{kBase}));
  quarantine.clear(note());
  EXPECT_EQ(released, (std::vector<Address>{kBase, kBase + kMiB, kBase + 2 * kMiB}));
  EXPECT_TRUE(quarantine.empty());
}

TEST_F(QuarantineRoom, BlocksThatAreOnlyLookedAtWaitForOneCallOfAll) {
  Inspector inspector(*metered, *streams);
  Quarantine quarantine(0, history, inspector);
  size_t count = 0;
  while (!quarantine.is_full(0)) quarantine.add(blocks[count++]);
  EXPECT_EQ(count, kLooksAtOnce - 2);
  quarantine.make_room(note());
  EXPECT_EQ(released.size(), count);
}

}  // namespace
}  // namespace gpupool::internal
