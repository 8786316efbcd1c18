// SPDX-License-Identifier: Apache-2.0
// A fresh simulated device for each test, and short helpers.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "base/bits.hpp"
#include "device/sim/sim.hpp"

namespace gpupool::internal {

inline constexpr uint64_t kChunk = 2 * kMiB;

class SimTest : public ::testing::Test {
 protected:
  static constexpr int32_t kOrdinal = 0;

  void SetUp() override { restart({}); }

  /// The device anew, configured so.
  void restart(gpupool_sim_config_t config) {
    device.reset();
    config.struct_size = sizeof config;
    ASSERT_EQ(sim_configure(kOrdinal, config), kSuccess) << last_error().message;
    ASSERT_EQ(open_sim(kOrdinal, device), kSuccess) << last_error().message;
  }
  void restart_without_data() {
    gpupool_sim_config_t config = {};
    config.data = 2;
    restart(config);
  }

  Address reserve(uint64_t size) {
    Address base = 0;
    EXPECT_EQ(device->reserve_addresses(size, base), kSuccess) << last_error().message;
    return base;
  }
  ChunkHandle create(uint64_t size = kChunk) {
    ChunkHandle chunk = 0;
    EXPECT_EQ(device->create_chunk(size, chunk), kSuccess) << last_error().message;
    return chunk;
  }
  void map(Address address, ChunkHandle chunk, uint64_t size = kChunk) {
    EXPECT_EQ(device->map(address, size, chunk), kSuccess) << last_error().message;
    EXPECT_EQ(device->set_access(address, size), kSuccess) << last_error().message;
  }
  /// One usable chunk at addresses of its own.
  Address usable(uint64_t size = kChunk) {
    const Address address = reserve(size);
    map(address, create(size), size);
    return address;
  }

  Event record(Stream stream) {
    Event event = 0;
    EXPECT_EQ(device->record(stream, 0, event), kSuccess) << last_error().message;
    return event;
  }
  bool passed(Event event) {
    bool result = false;
    EXPECT_EQ(device->query(event, result), kSuccess) << last_error().message;
    return result;
  }
  bool idle(Stream stream) {
    const Event event = record(stream);
    const bool result = passed(event);
    device->recycle(event);
    return result;
  }
  Status work(Stream stream, Address address, uint64_t size, uint64_t nanoseconds) {
    return sim_work(kOrdinal, stream, address, size, nanoseconds);
  }

  uint64_t free_memory() {
    uint64_t free = 0;
    EXPECT_EQ(device->free_memory(free), kSuccess);
    return free;
  }
  uint64_t fault_count() {
    uint64_t count = 0;
    EXPECT_EQ(sim_faults(kOrdinal, count, nullptr, 0), kSuccess);
    return count;
  }
  std::string last_fault() {
    uint64_t count = 0;
    char text[512] = {};
    EXPECT_EQ(sim_faults(kOrdinal, count, text, sizeof text), kSuccess);
    return text;
  }
  /// The call was refused with this number of the driver, and counted as a fault whose words contain `words`.
  void expect_fault(Status status, int32_t code, const std::string& words) {
    EXPECT_EQ(status, GPUPOOL_ERROR_DRIVER);
    EXPECT_EQ(last_error().driver_code, code) << last_error().message;
    EXPECT_EQ(fault_count(), ++faults_seen_);
    EXPECT_NE(last_fault().find(words), std::string::npos) << last_fault();
    EXPECT_NE(std::string(last_error().message).find(words), std::string::npos) << last_error().message;
  }

  /// A question about a stream that is gone is a fault, with an answer.
  void expect_not_capturing(Stream stream) {
    bool capturing = true;
    EXPECT_EQ(device->is_capturing(stream, capturing), kSuccess);
    EXPECT_FALSE(capturing);
    EXPECT_EQ(fault_count(), ++faults_seen_);
  }

  std::unique_ptr<Device> device;

 private:
  uint64_t faults_seen_ = 0;
};

}  // namespace gpupool::internal
