// SPDX-License-Identifier: Apache-2.0
// The room of figures and words by itself.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pool/observe/explanation.hpp"
#include "pool/observe/free_ranges.hpp"
#include "pool/observe/snapshot.hpp"
#include "pool/rooms.hpp"
#include "watch/sampler.hpp"

namespace gpupool::internal {
namespace {

TEST_F(Rooms, ASnapshotTakesBoundedSteps) {
  space.store.reserve(10'000);
  Snapshot snapshot(space, *streams, kOrdinal);
  size_t steps = 1;
  while (snapshot.step()) ++steps;
  EXPECT_GE(steps, 32u);
  EXPECT_TRUE(snapshot.blocks().empty()) << "spare records";
  EXPECT_TRUE(snapshot.segments().empty());
}

TEST(SeenEntries, KeepWhatWasSeenLastAndWhatWasNeverInDoubt) {
  SeenEntries<gpupool_block_t> seen;
  const auto add = [&](uint64_t address, uint64_t size, uint64_t mark) {
    gpupool_block_t block{};
    block.address = address;
    block.allocated_bytes = size;
    block.requested_bytes = mark;
    seen.add(block);
  };
  const auto marks = [&] {
    std::vector<uint64_t> list;
    for (const auto& block : seen.by_address(&gpupool_block_t::allocated_bytes))
      list.push_back(block.requested_bytes);
    return list;
  };
  add(5000, 1000, 1);  // there all the time
  add(1000, 4000, 2);  // split later
  EXPECT_EQ(marks(), (std::vector<uint64_t>{2, 1}));
  add(1000, 500, 3);
  add(2000, 500, 4);
  EXPECT_EQ(marks(), (std::vector<uint64_t>{3, 4, 1}));
  add(512, 4488, 5);  // and merged again
  EXPECT_EQ(marks(), (std::vector<uint64_t>{5, 1}));
  add(0, 8000, 6);
  add(0, 8000, 7);
  EXPECT_EQ(marks().size(), 4u) << "two without an address";
}

class FreeRangesRoom : public RoomsOfState {
 protected:
  /// A segment that no device has: nothing here asks for its bytes.
  void SetUp() override {
    RoomsOfState::SetUp();
    chunk.handle = 1;
    chunk.size = 8 * kMiB;
    chunk.address = 64 * kMiB;
    heap().add_segment(&chunk, 0);
  }
  void TearDown() override {
    Heap::Aside aside;
    heap().remove_segment(&chunk, aside);
  }
  StreamHeap& heap() { return state->heap(SizeGroup::large); }
  FreeRanges ranges(size_t most_streams = 9) { return FreeRanges::of(*pool, most_streams, 9); }

  Chunk chunk;
};

TEST_F(FreeRangesRoom, AreTheHolesOfAllStreamsThatNoGraphKeeps) {
  EXPECT_EQ(ranges().bytes, 8 * kMiB);
  EXPECT_EQ(ranges().largest, 8 * kMiB);
  EXPECT_EQ(ranges(0).bytes, 0U) << "no stream is looked at";
  Range* const block = heap().allocate(2 * kMiB, kUnit);
  EXPECT_EQ(ranges().bytes, 6 * kMiB);
  state->capture = 1;
  EXPECT_EQ(ranges().bytes, 0U);
  state->capture = 0;
  heap().free(block, 0);
  EXPECT_EQ(ranges().largest, 8 * kMiB);
}

TEST_F(FreeRangesRoom, AnAddressIsExplainedAsFarAsItIsKnown) {
  const Sampler sampler;
  const DeviceInfo& info = pool->device.info();
  const auto explain = [&](Address address, std::string& text) {
    Explanation explanation(address);
    explanation.find(pool->space, nullptr);
    return explanation.tell(3, info, sampler, text);
  };
  std::string text;
  EXPECT_EQ(explain(kUnit, text), 0);
  EXPECT_EQ(text, "");
  EXPECT_GT(explain(chunk.address + 5, text), 0);
  EXPECT_EQ(text,
            "0x4000005 is in pool 3 of sim:0, in free memory; what was there before is known with "
            "GPUPOOL_DEBUG, or from a recording\n");
}

}  // namespace
}  // namespace gpupool::internal
