// SPDX-License-Identifier: Apache-2.0
// The contract of peers: which devices may touch a pool's memory. Device 1 tries to, by a fill on a stream of
// its own, which is a kernel to the simulated device and checked by the stand-in's virtual memory.
#include "pool/contract.hpp"

namespace pool_test {
namespace {

constexpr uint64_t kPeerBlock = 12 * kMiB;

class Peers : public Contract {
 protected:
  static constexpr int32_t kPeer = 1;

  void SetUp() override {
    Contract::SetUp();
    if (IsSkipped()) return;
    if (variant().machine == Machine::sim) configure_device(kPeer, 0, kCapacity);
    gpupool_config_t other = empty_config();
    other.device = kPeer;
    other.backend = variant().backend();
    ASSERT_TRUE(ok(gpupool_create(&other, &peer_lab_)));
    ASSERT_TRUE(ok(gpupool_stream_create(peer_lab_, &peer_stream_)));
    stream_ = new_stream();
  }

  void TearDown() override {
    if (peer_lab_ != nullptr) {
      EXPECT_TRUE(ok(gpupool_stream_destroy(peer_lab_, peer_stream_)));
      EXPECT_TRUE(ok(gpupool_destroy(peer_lab_)));
    }
    Contract::TearDown();
  }

  /// Whether device 1 may write to the block. If not, that is an illegal address, as CUDA's.
  bool peer_may_touch(gpupool_ptr_t block, uint64_t size) {
    const gpupool_status_t status = gpupool_fill(peer_lab_, block, 0x77, size, peer_stream_);
    if (status == GPUPOOL_SUCCESS) {
      EXPECT_TRUE(ok(gpupool_stream_synchronize(peer_lab_, peer_stream_)));
      return true;
    }
    EXPECT_TRUE(refused(GPUPOOL_ERROR_DRIVER, status));
    EXPECT_EQ(last_driver_code(), 700) << last_message();
    return false;
  }

  /// The stand-in does not know who may touch what its malloc gave.
  bool sees_access() const { return variant().machine == Machine::sim || variant().is_vmm(); }

  void enable(PoolUnderTest& pool) { EXPECT_TRUE(ok(gpupool_enable_peer(pool, kPeer))); }

  /// What the last cuMemSetAccess named.
  void expect_last_access(uint32_t devices) {
    if (variant().machine != Machine::stand_in || !variant().is_vmm()) return;
    EXPECT_EQ(fake_cuda().seen().access_devices, devices);
  }

  /// The pool's next set_access number `occurrence` fails.
  void fail_set_access(uint64_t occurrence) {
    if (variant().machine == Machine::sim) {
      const std::string script = "set_access:" + std::to_string(occurrence);
      EXPECT_TRUE(ok(gpupool_sim_script(kDevice, script.c_str())));
    } else {
      fake_cuda().fail("cuMemSetAccess", occurrence, 999);
    }
  }
  void end_failures() {
    if (variant().machine == Machine::sim) {
      EXPECT_TRUE(ok(gpupool_sim_script(kDevice, "")));
    } else {
      fake_cuda().reset();
    }
  }

  gpupool_t* peer_lab_ = nullptr;
  gpupool_stream_t peer_stream_ = 0;
  gpupool_stream_t stream_ = 0;
};

class PeersOfDeviceMemory : public Peers {};
INSTANTIATE_TEST_SUITE_P(On, PeersOfDeviceMemory,
                         testing::ValuesIn(variants_where([](const Variant& variant) {
                           return variant.is_controlled() && variant.kind == GPUPOOL_KIND_DEVICE &&
                                  variant.source == Source::none;
                         })),
                         name_of);

class PeersOfMappings : public Peers {};
INSTANTIATE_TEST_SUITE_P(On, PeersOfMappings, testing::ValuesIn(variants_where([](const Variant& variant) {
                           return variant.is_controlled() && variant.is_vmm();
                         })),
                         name_of);

class PeersOfHostMemory : public Peers {};
INSTANTIATE_TEST_SUITE_P(On, PeersOfHostMemory, testing::ValuesIn(variants_where([](const Variant& variant) {
                           return variant.is_controlled() && variant.kind != GPUPOOL_KIND_DEVICE;
                         })),
                         name_of);

class PeersOfAnUpstream : public Peers {};
INSTANTIATE_TEST_SUITE_P(On, PeersOfAnUpstream, testing::ValuesIn(variants_where([](const Variant& variant) {
                           return variant.is_controlled() && variant.source != Source::none;
                         })),
                         name_of);

TEST_P(PeersOfDeviceMemory, MayTouchWhatThereIsAndWhatComes) {
  PoolUnderTest pool(config());
  PoolUnderTest bystander(config());
  const gpupool_ptr_t before = pool.malloc(kPeerBlock, stream_);
  const gpupool_ptr_t small = pool.malloc(700, stream_);
  const gpupool_ptr_t cached = pool.malloc(2 * kPeerBlock, stream_);
  pool.free(cached, stream_);
  if (sees_access()) {
    EXPECT_FALSE(peer_may_touch(before, kPeerBlock));
    EXPECT_FALSE(peer_may_touch(small, 700));
  }
  enable(pool);
  expect_last_access(3);
  EXPECT_TRUE(peer_may_touch(before, kPeerBlock)) << last_message();
  EXPECT_TRUE(peer_may_touch(small, 700)) << last_message();
  const gpupool_ptr_t reused = pool.malloc(2 * kPeerBlock, stream_);
  EXPECT_TRUE(peer_may_touch(reused, 2 * kPeerBlock)) << last_message();
  const gpupool_ptr_t grown = pool.malloc(4 * kPeerBlock, stream_);
  expect_last_access(3);
  EXPECT_TRUE(peer_may_touch(grown, 4 * kPeerBlock)) << last_message();

  // Twice, and the pool's own device: no error, and nothing new.
  enable(pool);
  EXPECT_TRUE(ok(gpupool_enable_peer(pool, kDevice)));
  EXPECT_TRUE(peer_may_touch(grown, 4 * kPeerBlock)) << last_message();
  work(stream_, grown, 4 * kPeerBlock);
  finish(stream_);

  if (variant().is_vmm()) {
    const gpupool_ptr_t theirs = bystander.malloc(kPeerBlock, stream_);
    EXPECT_FALSE(peer_may_touch(theirs, kPeerBlock)) << "another pool did not say so";
    expect_last_access(1);
    bystander.free(theirs, stream_);
  }
  for (const gpupool_ptr_t block : {before, small, reused, grown}) pool.free(block, stream_);
}

TEST_P(PeersOfDeviceMemory, OfTheConfigurationAreThoseFromTheStart) {
  const std::vector<int32_t> peers = {kPeer, kDevice, kPeer};
  gpupool_config_t shared = config();
  shared.peers = peers.data();
  shared.peer_count = static_cast<uint32_t>(peers.size());
  PoolUnderTest pool(shared);
  const gpupool_ptr_t block = pool.malloc(kPeerBlock, stream_);
  expect_last_access(3);
  EXPECT_TRUE(peer_may_touch(block, kPeerBlock)) << last_message();
  enable(pool);
  const gpupool_ptr_t later = pool.malloc(4 * kPeerBlock, stream_);
  EXPECT_TRUE(peer_may_touch(later, 4 * kPeerBlock)) << last_message();
  pool.free(block, stream_);
  pool.free(later, stream_);
}

TEST_P(PeersOfDeviceMemory, ThatAreRefusedChangeNothing) {
  PoolUnderTest pool(config());
  const gpupool_ptr_t block = pool.malloc(kPeerBlock, stream_);
  int32_t count = 0;
  ASSERT_TRUE(ok(gpupool_device_count(static_cast<gpupool_backend_t>(variant().backend()), &count)));
  for (const int32_t nobody : {-1, count, INT32_MAX, INT32_MIN}) {
    EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_enable_peer(pool, nobody)));
  }
  if (variant().machine == Machine::stand_in) {
    fake_cuda().set_peer_access(kPeer, kDevice, 0);
    EXPECT_TRUE(refused(GPUPOOL_ERROR_UNSUPPORTED, gpupool_enable_peer(pool, kPeer)));
  }
  const gpupool_ptr_t later = pool.malloc(4 * kPeerBlock, stream_);
  expect_last_access(1);
  if (sees_access()) {
    EXPECT_FALSE(peer_may_touch(block, kPeerBlock));
    EXPECT_FALSE(peer_may_touch(later, 4 * kPeerBlock));
  }
  pool.free(block, stream_);
  pool.free(later, stream_);
}

TEST_P(PeersOfMappings, MayTouchChunksThatMove) {
  PoolUnderTest pool(config_with_limit(4 * kPeerBlock));
  enable(pool);
  std::vector<gpupool_ptr_t> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(pool.malloc(kPeerBlock, stream_));
  for (const size_t i : {0, 2}) pool.free(blocks[i], stream_);
  const gpupool_ptr_t large = pool.malloc(2 * kPeerBlock, stream_);  // the limit leaves the freed chunks only
  EXPECT_GT(pool.stats().steals, 0u);
  expect_last_access(3);
  EXPECT_TRUE(peer_may_touch(large, 2 * kPeerBlock)) << last_message();
  for (const size_t i : {1, 3}) EXPECT_TRUE(peer_may_touch(blocks[i], kPeerBlock)) << last_message();
  pool.free(large, stream_);
  for (const size_t i : {1, 3}) pool.free(blocks[i], stream_);
}

// Work that was queued before a chunk moved still uses it where it was.
TEST_P(PeersOfMappings, MayTouchOldMappings) {
  PoolUnderTest pool(config_with_limit(4 * kPeerBlock));
  std::vector<gpupool_ptr_t> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(pool.malloc(kPeerBlock, stream_));
  work(stream_, blocks[0], kPeerBlock);
  for (const size_t i : {0, 2}) pool.free(blocks[i], stream_);
  const gpupool_ptr_t large = pool.malloc(2 * kPeerBlock, stream_);
  EXPECT_GT(pool.stats().steals, 0u);
  enable(pool);
  EXPECT_TRUE(peer_may_touch(blocks[0], kPeerBlock)) << last_message();
  EXPECT_TRUE(peer_may_touch(large, 2 * kPeerBlock)) << last_message();
  finish(stream_);
  pool.free(large, stream_);
  for (const size_t i : {1, 3}) pool.free(blocks[i], stream_);
}

TEST_P(PeersOfMappings, MayTouchWhatACaptureUses) {
  gpupool_config_t aware = config();
  aware.flags = GPUPOOL_FLAG_CAPTURE_AWARE;
  PoolUnderTest pool(aware);
  const bool is_sim = variant().machine == Machine::sim;
  const auto capture = [&](int32_t begin) {
    if (is_sim) {
      EXPECT_TRUE(ok(gpupool_sim_capture(kDevice, stream_, begin)));
    } else if (begin == 1) {
      fake_cuda().begin_capture(stream_, 0);
    } else {
      EXPECT_EQ(fake_cuda().end_capture(stream_), 1);
    }
  };
  capture(1);
  const gpupool_ptr_t first = pool.malloc(kPeerBlock, stream_);
  pool.free(first, stream_);
  enable(pool);
  const gpupool_ptr_t second = pool.malloc(2 * kPeerBlock, stream_);  // may take the first one's chunks
  capture(0);
  EXPECT_TRUE(peer_may_touch(first, kPeerBlock)) << last_message();
  EXPECT_TRUE(peer_may_touch(second, 2 * kPeerBlock)) << last_message();
  pool.free(second, stream_);
}

// Whichever of the pool's mappings the driver refuses, it has none of them for the peer afterwards.
TEST_P(PeersOfMappings, ThatTheDriverFailsToGrantGetNothing) {
  PoolUnderTest pool(config());
  std::vector<gpupool_ptr_t> blocks;
  for (const uint64_t size : {kPeerBlock, uint64_t{700}, 3 * kPeerBlock})
    blocks.push_back(pool.malloc(size, stream_));
  const uint64_t mappings = pool.stats().all.chunks.current;
  ASSERT_GE(mappings, 3u);
  for (uint64_t n = 1; n <= mappings; ++n) {
    SCOPED_TRACE(n);
    fail_set_access(n);
    EXPECT_TRUE(refused(GPUPOOL_ERROR_DRIVER, gpupool_enable_peer(pool, kPeer)));
    end_failures();
    for (const gpupool_ptr_t block : blocks) EXPECT_FALSE(peer_may_touch(block, 512));
    const gpupool_ptr_t later = pool.malloc(8 * kPeerBlock, stream_);
    EXPECT_FALSE(peer_may_touch(later, 512)) << "nor what is mapped later";
    pool.free(later, stream_);
    pool.empty();
    work(stream_, blocks[0], kPeerBlock);  // the pool's own device keeps its access
    finish(stream_);
    pool.validate();
  }
  enable(pool);
  for (const gpupool_ptr_t block : blocks) EXPECT_TRUE(peer_may_touch(block, 512)) << last_message();
  for (const gpupool_ptr_t block : blocks) pool.free(block, stream_);
}

TEST_P(PeersOfHostMemory, MayTouchItAnyway) {
  PoolUnderTest pool(config());
  const gpupool_ptr_t block = pool.malloc(kPeerBlock, stream_);
  EXPECT_TRUE(peer_may_touch(block, kPeerBlock)) << last_message();
  enable(pool);
  EXPECT_TRUE(peer_may_touch(block, kPeerBlock)) << last_message();
  pool.free(block, stream_);
}

TEST_P(PeersOfAnUpstream, AreTheUpstreamsToChoose) {
  PoolUnderTest pool(config());
  const gpupool_ptr_t block = pool.malloc(kPeerBlock, stream_);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNSUPPORTED, gpupool_enable_peer(pool, kPeer)));
  pool.validate();
  pool.free(block, stream_);
}

}  // namespace
}  // namespace pool_test
