// SPDX-License-Identifier: Apache-2.0
// The host's memory as a device: real contents, memory that goes back to the system, streams that never wait.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "device/host/host.hpp"

namespace gpupool::internal {
namespace {

constexpr uint64_t kHostBytes = uint64_t{64} << 20;

class HostDeviceTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(open_host(0, {}, device_), kSuccess); }

  Address allocate(uint64_t size) {
    Address address = 0;
    EXPECT_EQ(device_->allocate(Kind::device, size, 0, address), kSuccess);
    return address;
  }
  void deallocate(Address address, uint64_t size) {
    EXPECT_EQ(device_->deallocate(Kind::device, address, size, 0), kSuccess);
  }
  uint64_t free_memory() {
    uint64_t free = 0;
    EXPECT_EQ(device_->free_memory(free), kSuccess);
    return free;
  }

  std::unique_ptr<Device> device_;
};

template <typename Value>
Value* pointer_at(Address address) {
  return reinterpret_cast<Value*>(address);
}

TEST_F(HostDeviceTest, IsOneDevice) {
  int32_t count = 0;
  EXPECT_EQ(count_hosts(count), kSuccess);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(device_->info().backend, GPUPOOL_BACKEND_HOST);
  EXPECT_STREQ(device_->info().backend_name, "host");
  EXPECT_FALSE(device_->info().ends_before_process);
  EXPECT_LE(free_memory(), device_->info().total);
}

TEST_F(HostDeviceTest, KeepsContents) {
  const Address first = allocate(kHostBytes);
  const Address second = allocate(kHostBytes);
  EXPECT_EQ(device_->fill(first, 0xab, kHostBytes, 0), kSuccess);
  EXPECT_EQ(device_->fill_words(first + 512, 0x01020304, 512, 0), kSuccess);
  EXPECT_EQ(device_->copy(second, first, kHostBytes, 0), kSuccess);
  EXPECT_EQ(*pointer_at<uint8_t>(second + kHostBytes - 1), 0xab);
  EXPECT_EQ(*pointer_at<uint32_t>(second + 512), 0x01020304U);
  EXPECT_EQ(*pointer_at<uint8_t>(second + 1024), 0xab);
  deallocate(first, kHostBytes);
  deallocate(second, kHostBytes);
}

TEST_F(HostDeviceTest, GivesMemoryBackToTheSystem) {
  const Address address = allocate(kHostBytes);
  unsigned char resident = 0;
  EXPECT_EQ(mincore(pointer_at<void>(address), 4096, &resident), 0);
  deallocate(address, kHostBytes);
  EXPECT_NE(mincore(pointer_at<void>(address), 4096, &resident), 0) << "it is still mapped";
}

TEST_F(HostDeviceTest, RefusesMoreThanThereIs) {
  Address address = 7;
  EXPECT_EQ(device_->allocate(Kind::device, uint64_t{1} << 45, 0, address), GPUPOOL_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(address, 7u);
  // Nothing of the held memory was touched: only the device itself can know of it.
  const uint64_t most = free_memory() / 8 * 7 / 512 * 512;
  const Address held = allocate(most);
  EXPECT_LE(free_memory(), device_->info().total - most);
  deallocate(held, most);
}

TEST_F(HostDeviceTest, StreamsNeverWait) {
  Stream first = 0;
  Stream second = 0;
  EXPECT_EQ(device_->create_stream(first), kSuccess);
  EXPECT_EQ(device_->create_stream(second), kSuccess);
  EXPECT_NE(first, second);
  EXPECT_GT(first, 2u) << "pools take these for CUDA's default streams";
  Event event = 0;
  EXPECT_EQ(device_->record(first, 0, event), kSuccess);
  EXPECT_NE(event, 0u);
  bool passed = false;
  EXPECT_EQ(device_->query(event, passed), kSuccess);
  EXPECT_TRUE(passed);
  EXPECT_EQ(device_->destroy_stream(first), kSuccess);
  EXPECT_EQ(device_->destroy_stream(second), kSuccess);
}

TEST_F(HostDeviceTest, FindsDamage) {
  const Address address = allocate(kHostBytes);
  const auto report = std::make_unique<DamageReport>();
  EXPECT_EQ(device_->fill_words(address, 0xaaaaaaaa, 2 * Look::kRoom, 0), kSuccess);
  *pointer_at<uint8_t>(address + Look::kRoom + 3) = 0;
  const std::vector<Look> looks = {{address, Look::kRoom, 0xaaaaaaaa, 1},
                                   {address + Look::kRoom, Look::kRoom, 0xaaaaaaaa, 2}};
  EXPECT_EQ(device_->inspect(looks, reinterpret_cast<Address>(report.get()), 0), kSuccess);
  EXPECT_EQ(report->count, 1u);
  EXPECT_EQ(report->damages[0].look.block, 2u);
  deallocate(address, kHostBytes);
}

TEST_F(HostDeviceTest, HasNoMappingsAndNoPeers) {
  Address address = 0;
  EXPECT_EQ(device_->reserve_addresses(kHostBytes, address), GPUPOOL_ERROR_UNSUPPORTED);
  EXPECT_EQ(device_->add_peer(0, true), kSuccess);
  EXPECT_EQ(device_->add_peer(1, true), GPUPOOL_ERROR_INVALID_ARGUMENT);
  std::unique_ptr<Device> other;
  EXPECT_EQ(open_host(0, std::vector<int32_t>{1}, other), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(other, nullptr);
}

}  // namespace
}  // namespace gpupool::internal
