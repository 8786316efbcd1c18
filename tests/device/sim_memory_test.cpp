// SPDX-License-Identifier: Apache-2.0
// Addresses, chunks, mappings and capacity. All of it with data and without.
#include <random>
#include <set>
#include <vector>

#include "device/sim/backing.hpp"
#include "sim_fixture.hpp"

namespace gpupool::internal {
namespace {

class SimMemoryTest : public SimTest, public ::testing::WithParamInterface<uint32_t> {
 protected:
  void SetUp() override { small(64 * kMiB); }
  void small(uint64_t capacity) {
    gpupool_sim_config_t config = {};
    config.data = GetParam();
    config.capacity_bytes = capacity;
    restart(config);
    capacity_ = capacity;
  }
  uint64_t used() { return capacity_ - free_memory(); }

 private:
  uint64_t capacity_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Data, SimMemoryTest, ::testing::Values(1U, 2U),
                         [](const auto& test) { return test.param == 1 ? "on" : "off"; });

TEST_P(SimMemoryTest, ReservationsAreAlignedAndApart) {
  const Address a = reserve(kChunk);
  const Address b = reserve(6 * kMiB);
  EXPECT_EQ(a % kChunk, 0U);
  EXPECT_EQ(b % kChunk, 0U);
  EXPECT_TRUE(a + kChunk <= b || b + 6 * kMiB <= a);
  EXPECT_EQ(used(), 0U);
  EXPECT_EQ(device->release_addresses(a, kChunk), kSuccess);
  EXPECT_EQ(device->release_addresses(b, 6 * kMiB), kSuccess);
  EXPECT_EQ(fault_count(), 0U);
}

TEST_P(SimMemoryTest, AddressSpaceHasItsLimits) {
  Address base = 0;
  EXPECT_EQ(device->reserve_addresses(64 * kTiB + kChunk, base), GPUPOOL_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(device->reserve_addresses(256 * kTiB, base), GPUPOOL_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(base, 0U);
  EXPECT_EQ(fault_count(), 0U) << "asking for too much breaks no rule";
  expect_fault(device->reserve_addresses(0, base), 1, "reserve_addresses");
  expect_fault(device->reserve_addresses(kMiB, base), 1, "reserve_addresses");
}

TEST_F(SimTest, AddressesCanBeHadAgain) {
  restart_without_data();
  for (int i = 0; i < 3; ++i) {
    const Address base = reserve(64 * kTiB);
    map(base + 64 * kTiB - kChunk, create());
    EXPECT_EQ(device->unmap(base + 64 * kTiB - kChunk, kChunk), kSuccess);
    EXPECT_EQ(device->release_addresses(base, 64 * kTiB), kSuccess);
  }
}

TEST_P(SimMemoryTest, ReleaseOfAddressesIsWholeAndUnmapped) {
  const Address base = reserve(4 * kChunk);
  map(base + kChunk, create());
  expect_fault(device->release_addresses(base, kChunk), 1, "no reservation");
  expect_fault(device->release_addresses(base + kChunk, 3 * kChunk), 1, "no reservation");
  expect_fault(device->release_addresses(base, 4 * kChunk), 1, "still mapped");
  EXPECT_EQ(device->unmap(base + kChunk, kChunk), kSuccess);
  EXPECT_EQ(device->release_addresses(base, 4 * kChunk), kSuccess);
  expect_fault(device->release_addresses(base, 4 * kChunk), 1, "no reservation");
}

TEST_P(SimMemoryTest, CapacityIsExact) {
  const ChunkHandle most = create(62 * kMiB);
  const ChunkHandle last = create(kChunk);
  ChunkHandle none = 77;
  EXPECT_EQ(device->create_chunk(kChunk, none), GPUPOOL_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(last_error().driver_code, 2);
  EXPECT_EQ(none, 77U);
  EXPECT_EQ(free_memory(), 0U);
  EXPECT_EQ(device->release_chunk(last), kSuccess);
  EXPECT_EQ(device->create_chunk(4 * kMiB, none), GPUPOOL_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(free_memory(), kChunk);
  EXPECT_EQ(device->release_chunk(most), kSuccess);
  EXPECT_EQ(used(), 0U);
  EXPECT_EQ(fault_count(), 0U);
  expect_fault(device->create_chunk(0, none), 1, "create_chunk");
  expect_fault(device->create_chunk(3 * kMiB, none), 1, "create_chunk");
  EXPECT_EQ(device->create_chunk(~uint64_t{0} - kChunk + 1, none), GPUPOOL_ERROR_OUT_OF_MEMORY);
}

TEST_P(SimMemoryTest, MemoryReturnsWithHandleAndLastMapping) {
  const Address base = reserve(2 * kChunk);
  const ChunkHandle chunk = create();
  map(base, chunk);
  map(base + kChunk, chunk);
  EXPECT_EQ(device->release_chunk(chunk), kSuccess);
  EXPECT_EQ(used(), kChunk);
  EXPECT_EQ(work(1, base, kChunk, 0), kSuccess) << "mappings outlive the handle";
  EXPECT_EQ(device->unmap(base, kChunk), kSuccess);
  EXPECT_EQ(used(), kChunk);
  EXPECT_EQ(device->unmap(base + kChunk, kChunk), kSuccess);
  EXPECT_EQ(used(), 0U);

  const ChunkHandle other = create();
  map(base, other);
  EXPECT_EQ(device->unmap(base, kChunk), kSuccess);
  EXPECT_EQ(used(), kChunk) << "the handle holds it";
  EXPECT_EQ(device->release_chunk(other), kSuccess);
  EXPECT_EQ(used(), 0U);
  EXPECT_EQ(fault_count(), 0U);
}

TEST_P(SimMemoryTest, ReleasedChunksAreGone) {
  const Address base = reserve(2 * kChunk);
  const ChunkHandle chunk = create();
  map(base, chunk);
  EXPECT_EQ(device->release_chunk(chunk), kSuccess);
  expect_fault(device->release_chunk(chunk), 1, "no such chunk");
  expect_fault(device->map(base + kChunk, kChunk, chunk), 1, "no such chunk");
  expect_fault(device->map(base + kChunk, kChunk, 4711), 1, "no such chunk");
}

TEST_P(SimMemoryTest, MapTakesWholeChunksAndFreeReservedAddresses) {
  const Address base = reserve(4 * kChunk);
  const ChunkHandle chunk = create(2 * kChunk);
  expect_fault(device->map(base, kChunk, chunk), 801, "not all of it");
  expect_fault(device->map(base, 4 * kChunk, chunk), 801, "not all of it");
  expect_fault(device->map(base + kMiB, 2 * kChunk, chunk), 1, "not in reserved");
  expect_fault(device->map(base + 3 * kChunk, 2 * kChunk, chunk), 1, "not in reserved");
  expect_fault(device->map(base - kChunk, 2 * kChunk, chunk), 1, "not in reserved");
  expect_fault(device->map(0, 2 * kChunk, chunk), 1, "not in reserved");
  expect_fault(device->map(~uint64_t{0} - kChunk + 1, 2 * kChunk, chunk), 1, "not in reserved");
  EXPECT_EQ(device->map(base + kChunk, 2 * kChunk, chunk), kSuccess);
  for (const Address overlap : {base, base + kChunk, base + 2 * kChunk}) {
    expect_fault(device->map(overlap, 2 * kChunk, chunk), 1, "mapped already");
  }
  const ChunkHandle small = create();
  EXPECT_EQ(device->map(base, kChunk, small), kSuccess);
  EXPECT_EQ(device->map(base + 3 * kChunk, kChunk, small), kSuccess);
}

TEST_P(SimMemoryTest, MappedIsNotYetUsable) {
  const Address base = reserve(2 * kChunk);
  EXPECT_EQ(device->map(base, kChunk, create()), kSuccess);
  expect_fault(work(1, base, 1, 0), 700, "unmapped address");
  expect_fault(device->set_access(base, 2 * kChunk), 1, "not whole mappings");
  expect_fault(device->set_access(base, kMiB), 1, "not whole mappings");
  expect_fault(device->set_access(base + kChunk, kChunk), 1, "not whole mappings");
  expect_fault(device->set_access(base, 0), 1, "not whole mappings");
  expect_fault(work(1, base, 1, 0), 700, "unmapped address");
  EXPECT_EQ(device->set_access(base, kChunk), kSuccess);
  EXPECT_EQ(work(1, base, kChunk, 0), kSuccess);
  EXPECT_EQ(device->unmap(base, kChunk), kSuccess);
  EXPECT_EQ(device->map(base, kChunk, create()), kSuccess);
  expect_fault(work(1, base, 1, 0), 700, "unmapped address");
}

TEST_P(SimMemoryTest, UnmapTakesWholeNeighbours) {
  const Address base = reserve(8 * kChunk);
  map(base, create());
  map(base + kChunk, create(2 * kChunk), 2 * kChunk);
  map(base + 4 * kChunk, create());
  expect_fault(device->unmap(base, 2 * kChunk), 1, "not whole mappings");
  expect_fault(device->unmap(base + kChunk, kChunk), 1, "not whole mappings");
  expect_fault(device->unmap(base + 2 * kChunk, kChunk), 1, "not whole mappings");
  expect_fault(device->unmap(base, 5 * kChunk), 1, "not whole mappings");
  expect_fault(device->unmap(base + 3 * kChunk, kChunk), 1, "not whole mappings");
  EXPECT_EQ(work(1, base, 3 * kChunk, 0), kSuccess) << "a refused unmap changes nothing";
  EXPECT_EQ(device->unmap(base, 3 * kChunk), kSuccess);
  EXPECT_EQ(device->unmap(base + 4 * kChunk, kChunk), kSuccess);
  expect_fault(device->unmap(base, kChunk), 1, "not whole mappings");
  EXPECT_EQ(device->release_addresses(base, 8 * kChunk), kSuccess);
}

TEST_P(SimMemoryTest, MallocCountsDeviceAndManaged) {
  Address device_block = 0;
  Address managed = 0;
  Address pinned = 0;
  ASSERT_EQ(device->allocate(Kind::device, 8 * kMiB, 0, device_block), kSuccess);
  ASSERT_EQ(device->allocate(Kind::managed, 512, 0, managed), kSuccess);
  ASSERT_EQ(device->allocate(Kind::pinned, 128 * kMiB, 0, pinned), kSuccess) << last_error().message;
  EXPECT_EQ(used(), 8 * kMiB + 512);
  EXPECT_EQ(device_block % kChunk, 0U);
  EXPECT_EQ(pinned % kChunk, 0U);
  EXPECT_EQ(managed % 512, 0U);
  Address none = 5;
  EXPECT_EQ(device->allocate(Kind::device, 64 * kMiB, 0, none), GPUPOOL_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(device->allocate(Kind::pinned, ~uint64_t{511}, 0, none), GPUPOOL_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(none, 5U);
  EXPECT_EQ(work(1, pinned, 128 * kMiB, 0), kSuccess);
  EXPECT_EQ(work(1, managed, 512, 0), kSuccess);
  EXPECT_EQ(fault_count(), 0U);

  expect_fault(device->allocate(Kind::device, 100, 0, none), 1, "allocate");
  expect_fault(device->deallocate(Kind::managed, device_block, 8 * kMiB, 0), 1, "deallocate");
  expect_fault(device->deallocate(Kind::device, device_block, 4 * kMiB, 0), 1, "deallocate");
  expect_fault(device->deallocate(Kind::device, device_block + 512, 512, 0), 1, "deallocate");
  expect_fault(device->unmap(device_block, 8 * kMiB), 1, "not whole mappings");
  EXPECT_EQ(device->deallocate(Kind::device, device_block, 8 * kMiB, 0), kSuccess);
  EXPECT_EQ(device->deallocate(Kind::managed, managed, 512, 0), kSuccess);
  EXPECT_EQ(device->deallocate(Kind::pinned, pinned, 128 * kMiB, 0), kSuccess);
  EXPECT_EQ(used(), 0U);
  expect_fault(device->deallocate(Kind::device, device_block, 8 * kMiB, 0), 1, "deallocate");
  expect_fault(work(1, pinned, 1, 0), 700, "unmapped address");
}

TEST_P(SimMemoryTest, AllocatedMemoryIsNotAMapping) {
  Address block = 0;
  ASSERT_EQ(device->allocate(Kind::device, kChunk, 0, block), kSuccess);
  expect_fault(device->unmap(block, kChunk), 1, "not whole mappings");
  expect_fault(device->set_access(block, kChunk), 1, "not whole mappings");
  expect_fault(device->map(block, kChunk, create()), 1, "not in reserved");
}

TEST_P(SimMemoryTest, AConfiguredDeviceIsNew) {
  usable();
  expect_fault(device->unmap(0, kChunk), 1, "unmap");
  Address block = 0;
  ASSERT_EQ(device->allocate(Kind::device, kChunk, 0, block), kSuccess);
  small(32 * kMiB);
  EXPECT_EQ(used(), 0U);
  EXPECT_EQ(fault_count(), 0U);
  EXPECT_EQ(last_fault(), "");
  EXPECT_EQ(work(1, block, 1, 0), GPUPOOL_ERROR_DRIVER);
}

TEST(SimAddressSpaceTest, RangesAreApartAndJoinAgain) {
  SimAddressSpace space;
  Address base = 0;
  ASSERT_TRUE(space.reserve(64 * kTiB, kChunk, base));
  EXPECT_FALSE(space.reserve(64 * kTiB, kChunk, base)) << "2^47 less the first TiB";
  space.release(base);

  std::mt19937_64 random(7);
  std::map<Address, uint64_t> taken;
  for (int step = 0; step < 4000; ++step) {
    if (taken.empty() || random() % 3 != 0) {
      const uint64_t size = (1 + random() % 9000) * 512;
      const uint64_t alignment = size >= kChunk ? kChunk : 512;
      ASSERT_TRUE(space.reserve(size, alignment, base));
      ASSERT_EQ(base % alignment, 0U);
      const auto after = taken.lower_bound(base);
      ASSERT_TRUE(after == taken.end() || base + size <= after->first);
      ASSERT_TRUE(after == taken.begin() || std::prev(after)->first + std::prev(after)->second <= base);
      taken.emplace(base, size);
    } else {
      auto victim = taken.lower_bound(random() % (2 * kTiB));
      if (victim == taken.end()) victim = taken.begin();
      space.release(victim->first);
      taken.erase(victim);
    }
  }
  for (const auto& [address, size] : taken) space.release(address);
  EXPECT_TRUE(space.reserve(kSimAddressSpace - 2 * kTiB, 512, base)) << "all free ranges are one again";
}

TEST(SimAddressSpaceTest, DevicesWithoutDataShareOne) {
  gpupool_sim_config_t config = {};
  config.struct_size = sizeof config;
  config.data = 2;
  std::unique_ptr<Device> devices[2];
  Address bases[2] = {};
  for (int32_t i = 0; i < 2; ++i) {
    ASSERT_EQ(sim_configure(2 + i, config), kSuccess);
    ASSERT_EQ(open_sim(2 + i, devices[i]), kSuccess);
    ASSERT_EQ(devices[i]->reserve_addresses(kGiB, bases[i]), kSuccess);
  }
  EXPECT_TRUE(bases[0] + kGiB <= bases[1] || bases[1] + kGiB <= bases[0]);
}

}  // namespace
}  // namespace gpupool::internal
