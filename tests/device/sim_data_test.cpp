// SPDX-License-Identifier: Apache-2.0
// With data: addresses are pointers, and two addresses of one chunk are the same memory.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "sim_fixture.hpp"

namespace gpupool::internal {
namespace {

using SimDataTest = SimTest;

/// A size of which the host's addresses have room for one reservation, and one of which they then have none.
#if defined(__SANITIZE_THREAD__)
constexpr uint64_t kHuge = 0;  // the sanitizer's shadow takes most of them
constexpr uint64_t kTooHuge = 0;
#elif defined(__SANITIZE_ADDRESS__)
// The sanitizer's allocator stands in the middle of them, where depends on its release.
constexpr uint64_t kHuge = 32 * kTiB;
constexpr uint64_t kTooHuge = 64 * kTiB;
#else
constexpr uint64_t kHuge = 64 * kTiB;
constexpr uint64_t kTooHuge = 64 * kTiB;
#endif

uint8_t* bytes(Address address) {
  return reinterpret_cast<uint8_t*>(address);
}

Address address_of(const void* host) {
  return reinterpret_cast<Address>(host);
}

/// Bytes of the host that chunks and allocated blocks hold, mapped or not: the blocks of the devices' files.
uint64_t host_memory() {
  uint64_t sum = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (!target.starts_with("/memfd:gpupool")) continue;
    struct stat file = {};
    if (stat(entry.path().c_str(), &file) == 0) sum += static_cast<uint64_t>(file.st_blocks) * 512;
  }
  return sum;
}

/// An address of the host at which there is nothing.
Address nowhere() {
  void* const page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(page, MAP_FAILED);
  munmap(page, 4096);
  return address_of(page);
}

TEST_F(SimDataTest, OneChunkAtTwoAddressesIsOneMemory) {
  const Address base = reserve(4 * kChunk);
  const ChunkHandle chunk = create();
  map(base, chunk);
  map(base + 3 * kChunk, chunk);
  std::memset(bytes(base), 0x5a, kChunk);
  EXPECT_EQ(bytes(base + 3 * kChunk)[kChunk - 1], 0x5a);
  bytes(base + 3 * kChunk)[17] = 3;
  EXPECT_EQ(bytes(base)[17], 3);
}

TEST_F(SimDataTest, ContentStaysWithTheChunk) {
  const Address base = reserve(2 * kChunk);
  const ChunkHandle first = create();
  const ChunkHandle second = create();
  map(base, first);
  map(base + kChunk, second);
  std::memset(bytes(base), 1, kChunk);
  std::memset(bytes(base + kChunk), 2, kChunk);
  EXPECT_EQ(device->unmap(base, 2 * kChunk), kSuccess);
  map(base, second);
  map(base + kChunk, first);
  EXPECT_EQ(bytes(base)[0], 2);
  EXPECT_EQ(bytes(base)[kChunk - 1], 2);
  EXPECT_EQ(bytes(base + kChunk)[0], 1);
}

TEST_F(SimDataTest, TouchingWhatIsNotUsableCrashes) {
  const Address base = reserve(2 * kChunk);
  EXPECT_EQ(device->map(base, kChunk, create()), kSuccess);
  EXPECT_DEATH(bytes(base)[0] = 1, "");
  EXPECT_DEATH(bytes(base + kChunk)[0] = 1, "");
  EXPECT_EQ(device->set_access(base, kChunk), kSuccess);
  bytes(base)[0] = 1;
  EXPECT_EQ(device->unmap(base, kChunk), kSuccess);
  EXPECT_DEATH(bytes(base)[0] = 1, "");
}

TEST_F(SimDataTest, HostMemoryReturnsWithTheChunk) {
  constexpr uint64_t kSize = 32 * kMiB;
  const uint64_t before = host_memory();
  const Address base = reserve(kSize);
  const ChunkHandle chunk = create(kSize);
  map(base, chunk, kSize);
  EXPECT_EQ(host_memory(), before) << "a chunk costs nothing until it is touched";
  std::memset(bytes(base), 1, kSize);
  EXPECT_EQ(host_memory(), before + kSize);
  EXPECT_EQ(device->unmap(base, kSize), kSuccess);
  map(base, chunk, kSize);
  EXPECT_EQ(bytes(base)[kSize - 1], 1) << "the handle kept it";
  EXPECT_EQ(device->release_chunk(chunk), kSuccess);
  EXPECT_EQ(device->unmap(base, kSize), kSuccess);
  EXPECT_EQ(host_memory(), before);
}

TEST_F(SimDataTest, HugeReservationIsReal) {
  if (kHuge == 0) GTEST_SKIP();
  const Address base = reserve(kHuge);
  map(base + kHuge - kChunk, create());
  bytes(base + kHuge)[-1] = 9;
  EXPECT_EQ(device->unmap(base + kHuge - kChunk, kChunk), kSuccess);
  Address other = 0;
  EXPECT_NE(device->reserve_addresses(kTooHuge, other), kSuccess);
  EXPECT_NE(last_error().status, GPUPOOL_ERROR_OUT_OF_MEMORY) << "the device's memory is not short";
  EXPECT_EQ(device->release_addresses(base, kHuge), kSuccess);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(device->release_addresses(reserve(kHuge), kHuge), kSuccess) << "they can be had again";
  }
}

TEST_F(SimDataTest, AllocatedMemoryIsReal) {
  for (const Kind kind : {Kind::device, Kind::managed, Kind::pinned}) {
    for (const uint64_t size : {uint64_t{512}, 5 * kMiB}) {
      Address block = 0;
      ASSERT_EQ(device->allocate(kind, size, 0, block), kSuccess);
      std::memset(bytes(block), 7, size);
      EXPECT_EQ(bytes(block)[size - 1], 7);
      EXPECT_EQ(device->deallocate(kind, block, size, 0), kSuccess);
    }
  }
}

TEST_F(SimDataTest, HostMemoryReturnsWithAllocatedBlocks) {
  constexpr uint64_t kSize = 32 * kMiB;
  const uint64_t before = host_memory();
  Address block = 0;
  ASSERT_EQ(device->allocate(Kind::device, kSize, 0, block), kSuccess);
  std::memset(bytes(block), 1, kSize);
  EXPECT_EQ(host_memory(), before + kSize);
  EXPECT_EQ(device->deallocate(Kind::device, block, kSize, 0), kSuccess);
  EXPECT_EQ(host_memory(), before);
}

TEST_F(SimDataTest, CopyBetweenDeviceAndHost) {
  // Two chunks that lie apart in physical memory, side by side in addresses.
  const Address base = reserve(4 * kChunk);
  map(base + kChunk, create());
  map(base, create());
  map(base + 2 * kChunk, create(2 * kChunk), 2 * kChunk);
  std::vector<uint8_t> source(2 * kChunk - 1000);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<uint8_t>(i * 7 + i / 4096);
  std::vector<uint8_t> back(source.size());
  EXPECT_EQ(device->copy(base + 500, address_of(source.data()), source.size(), 1), kSuccess);
  EXPECT_TRUE(std::equal(source.begin(), source.end(), bytes(base + 500)));
  EXPECT_EQ(device->copy(base + 2 * kChunk, base + 500, source.size(), 1), kSuccess);
  EXPECT_EQ(device->copy(address_of(back.data()), base + 2 * kChunk, source.size(), 1), kSuccess);
  EXPECT_EQ(back, source);
  std::fill(back.begin(), back.end(), uint8_t{0});
  EXPECT_EQ(device->copy(address_of(back.data()), address_of(source.data()), source.size(), 1), kSuccess);
  EXPECT_EQ(back, source);
  EXPECT_EQ(device->copy(base, base + kMiB, 0, 1), kSuccess);
  EXPECT_EQ(fault_count(), 0U);
}

TEST_F(SimDataTest, CopyNeverCrashes) {
  const Address base = reserve(2 * kChunk);
  map(base, create());
  std::vector<uint8_t> host(2 * kChunk, 1);
  std::memset(bytes(base), 3, kChunk);
  expect_fault(device->copy(base, address_of(host.data()), kChunk + 1, 1), 700, "unmapped address");
  expect_fault(device->copy(address_of(host.data()), base + kChunk, 1, 1), 700, "unmapped address");
  expect_fault(device->copy(base + kChunk, base, 1, 1), 700, "unmapped address");
  expect_fault(device->copy(base, nowhere(), 100, 1), 700, "unmapped address");
  expect_fault(device->copy(nowhere(), base, 100, 1), 700, "unmapped address");
  expect_fault(device->copy(nowhere(), address_of(host.data()), 100, 1), 700, "unmapped address");
  expect_fault(device->copy(base, ~Address{0} - 10, 100, 1), 700, "unmapped address");
  expect_fault(device->fill(base + kChunk - 1, 1, 2, 1), 700, "unmapped address");
  expect_fault(device->fill(base, 1, ~uint64_t{0}, 1), 700, "unmapped address");
  EXPECT_EQ(bytes(base)[0], 3);
  EXPECT_EQ(bytes(base)[kChunk - 1], 3) << "a refused fill changes nothing";
  EXPECT_TRUE(idle(1)) << "and takes no time";
}

TEST_F(SimDataTest, FillWritesAtOnceAndTakesTime) {
  const Address base = usable(4 * kChunk);
  EXPECT_EQ(device->fill(base + 1, 0xab, 4 * kChunk - 2, 1), kSuccess);
  EXPECT_EQ(bytes(base)[1], 0xab);
  EXPECT_EQ(bytes(base)[4 * kChunk - 2], 0xab);
  EXPECT_NE(bytes(base)[0], 0xab);
  EXPECT_NE(bytes(base)[4 * kChunk - 1], 0xab);
  EXPECT_FALSE(idle(1));
  const uint64_t start = device->now_ns();
  EXPECT_EQ(device->synchronize_stream(1), kSuccess);
  EXPECT_LE(device->now_ns() - start, 4 * kChunk / 2000 + 1);
  EXPECT_GE(device->now_ns() - start, 4 * kChunk / 2000 - 1000);
}

TEST_F(SimDataTest, WithoutDataFillChecksAndCopyIsUnsupported) {
  restart_without_data();
  const Address base = usable();
  EXPECT_EQ(device->fill(base, 1, kChunk, 1), kSuccess);
  EXPECT_FALSE(idle(1));
  EXPECT_EQ(device->copy(base, base + kMiB, 1, 1), GPUPOOL_ERROR_UNSUPPORTED);
  EXPECT_EQ(fault_count(), 0U);
  expect_fault(device->fill(base, 1, kChunk + 1, 1), 700, "unmapped address");
}

}  // namespace
}  // namespace gpupool::internal
