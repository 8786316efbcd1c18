// SPDX-License-Identifier: Apache-2.0
// Work of one device on another's memory: which devices may touch what, and how long it is in use.
#include <string>
#include <vector>

#include "sim_fixture.hpp"

namespace gpupool::internal {
namespace {

/// Device 0 owns the memory (SimTest's device), device 1 is the neighbour that touches it.
class SimPeersTest : public SimTest {
 protected:
  static constexpr int32_t kPeer = 1;

  void SetUp() override { both({}); }
  void TearDown() override { peer.reset(); }

  void both(gpupool_sim_config_t config) {
    restart(config);
    restart_peer(config);
  }
  void restart_peer(gpupool_sim_config_t config) {
    peer.reset();
    config.struct_size = sizeof config;
    ASSERT_EQ(sim_configure(kPeer, config), kSuccess) << last_error().message;
    ASSERT_EQ(open_sim(kPeer, peer), kSuccess) << last_error().message;
  }

  void share() { EXPECT_EQ(device->add_peer(kPeer, false), kSuccess) << last_error().message; }
  Address shared_chunk() {
    share();
    return usable();
  }

  Status peer_work(Address address, uint64_t size, uint64_t nanoseconds = 10) {
    return sim_work(kPeer, 7, address, size, nanoseconds);
  }
  uint64_t peer_faults() {
    uint64_t count = 0;
    EXPECT_EQ(sim_faults(kPeer, count, nullptr, 0), kSuccess);
    return count;
  }
  /// Refused as an illegal address of the peer's work, in words that say who, whose and where.
  void expect_no_access(Status status, Address address) {
    EXPECT_EQ(status, GPUPOOL_ERROR_DRIVER);
    EXPECT_EQ(last_error().driver_code, 700) << last_error().message;
    const std::string words = last_error().message;
    char where[32];
    std::snprintf(where, sizeof where, "%#llx", static_cast<unsigned long long>(address));
    for (const std::string& word :
         std::vector<std::string>{"no access", "of device 1", "of device 0", "gives it none", where}) {
      EXPECT_NE(words.find(word), std::string::npos) << words;
    }
    EXPECT_EQ(peer_faults(), ++peer_faults_seen_);
    EXPECT_EQ(fault_count(), 0U) << "it is not the owner's fault";
  }

  std::unique_ptr<Device> peer;

 private:
  uint64_t peer_faults_seen_ = 0;
};

TEST_F(SimPeersTest, KernelsNeedAccess) {
  const Address base = usable();
  expect_no_access(peer_work(base, kChunk), base);
  expect_no_access(peer_work(base + 512, 1), base + 512);
  expect_no_access(peer->fill(base, 1, 512, 7), base);
  share();
  expect_no_access(peer_work(base, kChunk), base);  // a mapping has what it was given
  EXPECT_EQ(device->set_access(base, kChunk), kSuccess);
  EXPECT_EQ(peer_work(base, kChunk), kSuccess) << last_error().message;
  EXPECT_EQ(peer->fill(base, 0x5c, kChunk, 7), kSuccess) << last_error().message;
  EXPECT_EQ(reinterpret_cast<uint8_t*>(base)[kChunk - 1], 0x5c);
  EXPECT_EQ(sim_work(2, 7, base, 1, 1), GPUPOOL_ERROR_DRIVER) << "no other device was meant";
  device->remove_peer(kPeer);
  EXPECT_EQ(peer_work(base, kChunk), kSuccess);
  EXPECT_EQ(device->set_access(base, kChunk), kSuccess);
  expect_no_access(peer_work(base, kChunk), base);
  EXPECT_EQ(work(1, base, kChunk, 10), kSuccess) << "the owner keeps it";
}

TEST_F(SimPeersTest, EveryPartNeedsAccess) {
  const Address base = reserve(3 * kChunk);
  map(base, create());
  share();
  map(base + kChunk, create());
  EXPECT_EQ(peer_work(base + kChunk, kChunk), kSuccess);
  expect_no_access(peer_work(base, 2 * kChunk), base);
  EXPECT_EQ(peer_work(base + kChunk, kChunk + 1), GPUPOOL_ERROR_DRIVER);
  EXPECT_NE(std::string(last_error().message).find("unmapped address"), std::string::npos);
}

TEST_F(SimPeersTest, AccessIsOneWay) {
  const Address base = usable();
  EXPECT_EQ(peer->add_peer(kOrdinal, false), kSuccess);
  expect_no_access(peer_work(base, 1), base);
}

TEST_F(SimPeersTest, AllocatedMemoryIsSharedAsAContextShares) {
  Address block = 0;
  Address pinned = 0;
  Address managed = 0;
  ASSERT_EQ(device->allocate(Kind::device, kChunk, 0, block), kSuccess);
  ASSERT_EQ(device->allocate(Kind::pinned, kChunk, 0, pinned), kSuccess);
  ASSERT_EQ(device->allocate(Kind::managed, kChunk, 0, managed), kSuccess);
  EXPECT_EQ(peer_work(pinned, kChunk), kSuccess) << "every device's";
  EXPECT_EQ(peer_work(managed, kChunk), kSuccess) << "every device's";
  expect_no_access(peer_work(block, 1), block);
  EXPECT_EQ(device->add_peer(kPeer, true), kSuccess);
  EXPECT_EQ(peer_work(block, kChunk), kSuccess);
  Address later = 0;
  ASSERT_EQ(device->allocate(Kind::device, kChunk, 0, later), kSuccess);
  EXPECT_EQ(peer_work(later, kChunk), kSuccess);
}

TEST_F(SimPeersTest, CopiesNeedNoAccess) {
  const Address here = usable();
  Address there = 0;
  ASSERT_EQ(peer->allocate(Kind::device, kChunk, 0, there), kSuccess);
  std::memset(reinterpret_cast<void*>(here), 3, kChunk);
  EXPECT_EQ(device->copy(there, here, kChunk, 1), kSuccess) << last_error().message;
  EXPECT_EQ(reinterpret_cast<uint8_t*>(there)[kChunk - 1], 3);
  std::memset(reinterpret_cast<void*>(there), 4, kChunk);
  EXPECT_EQ(peer->copy(here, there, kChunk, 1), kSuccess) << last_error().message;
  EXPECT_EQ(reinterpret_cast<uint8_t*>(here)[0], 4);
  uint8_t host[16] = {};
  EXPECT_EQ(device->copy(reinterpret_cast<Address>(host), there, sizeof host, 1), kSuccess);
  EXPECT_EQ(host[15], 4);
  EXPECT_EQ(fault_count() + peer_faults(), 0U);
  EXPECT_EQ(peer->copy(here + kChunk, there, 1, 1), GPUPOOL_ERROR_DRIVER)
      << "reserved by nobody, or not mapped";
}

TEST_F(SimPeersTest, CopiesNeedDataOnBothSides) {
  gpupool_sim_config_t without = {};
  without.data = 2;
  restart_peer(without);
  const Address here = usable();
  Address there = 0;
  ASSERT_EQ(peer->allocate(Kind::device, kChunk, 0, there), kSuccess);
  EXPECT_EQ(device->copy(there, here, 512, 1), GPUPOOL_ERROR_UNSUPPORTED);
  EXPECT_EQ(peer->copy(here, there, 512, 1), GPUPOOL_ERROR_UNSUPPORTED);
  EXPECT_EQ(device->add_peer(kPeer, false), kSuccess);
  EXPECT_EQ(device->set_access(here, kChunk), kSuccess);
  EXPECT_EQ(peer->fill(here, 6, 512, 1), kSuccess) << "the data is the owner's";
  EXPECT_EQ(reinterpret_cast<uint8_t*>(here)[511], 6);
}

TEST_F(SimPeersTest, ThePeersWorkKeepsAMappingInUse) {
  const Address base = shared_chunk();
  EXPECT_EQ(peer_work(base, kChunk, 1'000'000), kSuccess);
  expect_fault(device->unmap(base, kChunk), 700, "unmapped while in use");
  EXPECT_NE(last_fault().find("used by device 1"), std::string::npos) << last_fault();
  EXPECT_EQ(sim_advance(kOrdinal, 1'000'000'000), kSuccess);
  expect_fault(device->unmap(base, kChunk), 700, "unmapped while in use");  // the owner's time says nothing
  EXPECT_EQ(peer->synchronize_stream(7), kSuccess);
  EXPECT_EQ(device->unmap(base, kChunk), kSuccess) << last_error().message;
}

TEST_F(SimPeersTest, ThePeersCopyKeepsABlockInUse) {
  Address block = 0;
  ASSERT_EQ(device->allocate(Kind::device, kChunk, 0, block), kSuccess);
  Address there = 0;
  ASSERT_EQ(peer->allocate(Kind::device, kChunk, 0, there), kSuccess);
  EXPECT_EQ(peer->copy(there, block, kChunk, 1), kSuccess);
  expect_fault(device->deallocate(Kind::device, block, kChunk, 0), 700, "deallocated while in use");
  EXPECT_EQ(peer->synchronize_stream(1), kSuccess);
  EXPECT_EQ(device->deallocate(Kind::device, block, kChunk, 0), kSuccess);
}

TEST_F(SimPeersTest, ADeviceMadeAnewUsesNothing) {
  const Address base = shared_chunk();
  EXPECT_EQ(peer_work(base, kChunk, ~uint64_t{0}), kSuccess);
  restart_peer({});
  EXPECT_EQ(device->unmap(base, kChunk), kSuccess) << last_error().message;
}

TEST_F(SimPeersTest, GraphsAreCheckedToo) {
  const Address base = shared_chunk();
  ASSERT_EQ(sim_capture(kPeer, 7, true), kSuccess);
  uint64_t capture = 0;
  ASSERT_EQ(peer->capture_id(7, capture), kSuccess);
  EXPECT_EQ(peer->fill(base, 9, 512, 7), kSuccess);
  ASSERT_EQ(sim_capture(kPeer, 7, false), kSuccess);
  EXPECT_EQ(sim_launch(kPeer, capture, 7), kSuccess) << last_error().message;
  EXPECT_EQ(reinterpret_cast<uint8_t*>(base)[511], 9);
  device->remove_peer(kPeer);
  EXPECT_EQ(device->set_access(base, kChunk), kSuccess);
  expect_no_access(sim_launch(kPeer, capture, 7), base);
}

}  // namespace
}  // namespace gpupool::internal
