// SPDX-License-Identifier: Apache-2.0
// Work that touches memory: unmapped memory, races, memory unmapped while in use.
#include <random>
#include <vector>

#include "device/sim/access.hpp"
#include "sim_fixture.hpp"

namespace gpupool::internal {
namespace {

/// Without data unless a test says otherwise: the rules are the same.
class SimAccessTest : public SimTest {
 protected:
  void SetUp() override { restart_without_data(); }
};

TEST_F(SimAccessTest, WorkTouchesUsableMemoryOnly) {
  const Address base = reserve(4 * kChunk);
  map(base, create());
  map(base + kChunk, create());
  map(base + 3 * kChunk, create());
  EXPECT_EQ(work(1, base, 2 * kChunk, 10), kSuccess);
  EXPECT_EQ(work(1, base + kMiB, kChunk, 10), kSuccess);
  EXPECT_EQ(work(1, 0, 0, 10), kSuccess);
  EXPECT_EQ(fault_count(), 0U);
  expect_fault(work(1, base, 2 * kChunk + 1, 10), 700, "unmapped address");
  expect_fault(work(1, base + 2 * kChunk, kChunk + 1, 10), 700, "unmapped address");
  expect_fault(work(1, base - 1, 2, 10), 700, "unmapped address");
  expect_fault(work(1, base + 4 * kChunk - 1, 2, 10), 700, "unmapped address");
  expect_fault(work(1, 0, 1, 10), 700, "unmapped address");
  expect_fault(work(1, base, ~uint64_t{0}, 10), 700, "unmapped address");
  EXPECT_EQ(device->unmap(base + 3 * kChunk, kChunk), kSuccess);
  expect_fault(work(1, base + 3 * kChunk, 1, 10), 700, "unmapped address");
}

TEST_F(SimAccessTest, StreamsRaceUnlessOneWaits) {
  const Address base = usable();
  EXPECT_EQ(work(1, base, 1000, 1'000'000), kSuccess);
  EXPECT_EQ(work(1, base, 1000, 1'000'000), kSuccess) << "one stream runs in order";
  EXPECT_EQ(work(2, base + 1000, 1000, 5'000'000), kSuccess) << "other bytes";
  EXPECT_EQ(fault_count(), 0U);
  expect_fault(work(4, base + 999, 1, 10), 719, "race");

  EXPECT_EQ(device->wait(3, record(1)), kSuccess);
  EXPECT_EQ(work(3, base, 1000, 10), kSuccess);
  expect_fault(work(3, base, 1001, 10), 719, "race");
  EXPECT_EQ(device->wait(3, record(2)), kSuccess);
  EXPECT_EQ(work(3, base, 2000, 10), kSuccess);

  expect_fault(work(4, base, 1, 10), 719, "stream 0x3");
  EXPECT_EQ(device->synchronize_stream(3), kSuccess);
  EXPECT_EQ(work(4, base, 2000, 10), kSuccess) << "the host waited";
}

TEST_F(SimAccessTest, ALateWaitDoesNotCover) {
  const Address base = usable();
  EXPECT_EQ(work(1, base, 512, 1000), kSuccess);
  const Event early = record(1);
  EXPECT_EQ(work(1, base, 512, 1'000'000), kSuccess);
  EXPECT_EQ(device->wait(2, early), kSuccess);
  expect_fault(work(2, base, 512, 10), 719, "race");
}

TEST_F(SimAccessTest, TwoAddressesOfOneChunkAreOneMemory) {
  const Address base = reserve(4 * kChunk);
  const ChunkHandle chunk = create(2 * kChunk);
  map(base, chunk, 2 * kChunk);
  map(base + 2 * kChunk, chunk, 2 * kChunk);
  EXPECT_EQ(work(1, base + kChunk, 512, 1'000'000), kSuccess);
  EXPECT_EQ(work(1, base + 3 * kChunk, 512, 1'000'000), kSuccess) << "stream order covers both";
  EXPECT_EQ(work(2, base + 2 * kChunk, 512, 1'000'000), kSuccess);
  expect_fault(work(3, base + 3 * kChunk, 512, 10), 719, "stream 0x1");
  expect_fault(work(3, base, 512, 10), 719, "stream 0x2");
}

TEST_F(SimAccessTest, ReadersDoNotRaceWithReaders) {
  restart({});
  const Address source = usable();
  const Address a = usable();
  const Address b = usable();
  EXPECT_EQ(work(2, 0, 0, 1'000'000), kSuccess);
  EXPECT_EQ(device->copy(a, source, kChunk, 1), kSuccess);
  EXPECT_EQ(device->copy(b, source, kChunk, 2), kSuccess);
  EXPECT_EQ(fault_count(), 0U);
  expect_fault(device->fill(source + kMiB, 0, 1, 3), 719, "race");
  expect_fault(device->fill(source + kMiB, 0, 1, 1), 719, "stream 0x2");
  expect_fault(device->copy(source, a, kChunk, 4), 719, "race");
  expect_fault(device->copy(b, a, 1, 3), 719, "race");
  EXPECT_EQ(device->fill(a, 0, kChunk, 1), kSuccess);
}

TEST_F(SimAccessTest, UnmapWaitsForUseThroughItsAddresses) {
  const Address base = reserve(3 * kChunk);
  const ChunkHandle chunk = create();
  map(base, chunk);
  map(base + kChunk, create());
  EXPECT_EQ(work(1, base + 512, 512, 1'000'000), kSuccess);
  expect_fault(device->unmap(base, kChunk), 700, "unmapped while in use");
  expect_fault(device->unmap(base, 2 * kChunk), 700, "unmapped while in use");
  EXPECT_EQ(device->unmap(base + kChunk, kChunk), kSuccess) << "the neighbour is idle";
  map(base + 2 * kChunk, chunk);
  EXPECT_EQ(device->unmap(base + 2 * kChunk, kChunk), kSuccess) << "used through the other address only";
  const Event done = record(1);
  while (!passed(done)) sim_advance(kOrdinal, 1000);
  EXPECT_EQ(device->unmap(base, kChunk), kSuccess);
}

TEST_F(SimAccessTest, DeallocateWaits) {
  Address block = 0;
  ASSERT_EQ(device->allocate(Kind::device, kChunk, 0, block), kSuccess);
  EXPECT_EQ(work(1, block, kChunk, 1'000'000), kSuccess);
  EXPECT_EQ(work(2, 0, 0, 5'000'000), kSuccess);
  EXPECT_EQ(device->deallocate(Kind::device, block, kChunk, 0), kSuccess);
  EXPECT_TRUE(idle(1));
  EXPECT_TRUE(idle(2));
  EXPECT_EQ(fault_count(), 0U);
}

TEST_F(SimAccessTest, NewChunksHaveNoPast) {
  const Address base = reserve(kChunk);
  for (int i = 0; i < 3; ++i) {
    const ChunkHandle chunk = create();
    map(base, chunk);
    EXPECT_EQ(work(static_cast<Stream>(i), base, kChunk, 100), kSuccess);
    EXPECT_EQ(device->synchronize_stream(static_cast<Stream>(i)), kSuccess);
    EXPECT_EQ(device->unmap(base, kChunk), kSuccess);
    EXPECT_EQ(device->release_chunk(chunk), kSuccess);
  }
  EXPECT_EQ(fault_count(), 0U);
}

TEST_F(SimAccessTest, FaultTextIsCutToFit) {
  expect_fault(work(1, 0, 1, 10), 700, "unmapped address");
  uint64_t count = 0;
  char text[6] = "xxxxx";
  EXPECT_EQ(sim_faults(kOrdinal, count, text, sizeof text), kSuccess);
  EXPECT_STREQ(text, "unmap");
  EXPECT_EQ(sim_faults(kOrdinal, count, nullptr, 5), GPUPOOL_ERROR_INVALID_ARGUMENT);
}

void note(SimAccesses& accesses, const SimAccesses::Access& access, uint64_t now) {
  accesses.replace({&access, 1}, accesses.with({&access, 1}, now));
}

/// The interval map against bytes kept one by one.
TEST(SimAccessesTest, AgreesWithAByteByByteModel) {
  constexpr uint64_t kBytes = 96;
  struct Entry {
    SimAccesses::Use use;
    bool writes;
  };
  std::mt19937 random(11);
  SimAccesses accesses;
  std::vector<std::vector<Entry>> model(kBytes);
  uint64_t conflicts = 0;
  for (uint64_t now = 1; now < 20000; ++now) {
    const uint64_t offset = random() % kBytes;
    const uint64_t size = 1 + random() % (kBytes - offset);
    const Stream stream = random() % 4;
    const bool writes = random() % 3 == 0;
    bool expected = false;
    for (uint64_t i = offset; i < offset + size; ++i) {
      std::erase_if(model[i], [now](const Entry& entry) { return entry.use.end <= now; });
      for (const Entry& entry : model[i]) {
        expected |= entry.use.stream != stream && entry.use.end > now && (entry.writes || writes);
      }
    }
    ASSERT_EQ(accesses.conflict(offset, size, stream, now, writes).has_value(), expected) << now;
    conflicts += expected;
    if (expected) continue;
    // A stream's work ends in order; longer than the step, so that it overlaps with what follows.
    const SimAccesses::Use use{stream, now + 8};
    note(accesses, {offset, size, use, writes}, now);
    for (uint64_t i = offset; i < offset + size; ++i) model[i].push_back({use, writes});
  }
  EXPECT_GT(conflicts, 1000U);
}

/// More places than the map keeps: those that can still race stay.
TEST(SimAccessesTest, ForgetsOnlyWhatHasEnded) {
  SimAccesses accesses;
  note(accesses, {0, 1, {1, 1'000'000}, true}, 0);
  note(accesses, {2, 1, {1, 1'000'000}, false}, 0);
  for (uint64_t i = 2; i < 5000; ++i) note(accesses, {2 * i, 1, {1, 10 + i}, true}, i);
  EXPECT_TRUE(accesses.conflict(0, 1, 2, 5000, false));
  EXPECT_TRUE(accesses.conflict(2, 1, 2, 5000, true));
  EXPECT_FALSE(accesses.conflict(2, 1, 2, 5000, false));
  EXPECT_TRUE(accesses.conflict(9998, 1, 2, 5000, false));
  EXPECT_FALSE(accesses.conflict(100, 1, 2, 5000, true));
}

}  // namespace
}  // namespace gpupool::internal
