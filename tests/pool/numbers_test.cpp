// SPDX-License-Identifier: Apache-2.0
// Streams whose numbers come again, and streams of other devices.
#include <random>
#include <vector>

#include "pool/contract.hpp"

namespace pool_test {
namespace {

class Numbers : public Contract {};
INSTANTIATE_TEST_SUITE_P(On, Numbers, testing::ValuesIn(variants_where([](const Variant& variant) {
                           return variant.machine == Machine::sim && variant.takes_work();
                         })),
                         name_of);

/// A block of the old stream, used by work on the new one and freed there.
TEST_P(Numbers, ThatAreFreedOnNameTheNewStream) {
  PoolUnderTest pool(config());
  constexpr gpupool_stream_t kNumber = 7777;
  const gpupool_stream_t other = new_stream();
  const gpupool_ptr_t block = pool.malloc(kBlock, kNumber);
  EXPECT_TRUE(ok(gpupool_release_stream(pool, kNumber)));
  work(kNumber, block, kBlock);
  pool.free(block, kNumber);
  const gpupool_ptr_t next = pool.malloc(kBlock, other);
  EXPECT_TRUE(ok(gpupool_sim_work(kDevice, other, next, kBlock, 10))) << "it has memory that is in use";
  pool.free(next, other);
  pool.synchronize();
  EXPECT_EQ(pool.active(), 0u);
  expect_no_faults();
}

/// Blocks whose users nobody knows wait for all streams, one of which never comes by again.
TEST_P(Numbers, ThatAreUnknownDoNotPileUp) {
  PoolUnderTest pool(config());
  const gpupool_stream_t home = new_stream();
  pool.free(pool.malloc(kBlock, new_stream()), GPUPOOL_STREAM_UNKNOWN);
  for (int i = 0; i < 200; ++i) pool.free(pool.malloc(64 * kMiB, home), GPUPOOL_STREAM_UNKNOWN);
  EXPECT_LE(pool.stats().all.reserved_bytes.peak, kGiB + 256 * kMiB);
  pool.validate();
  expect_no_faults();
}

/// Destroyed before it was released, against the rule: nobody can ask the stream, and no event covers what it
/// has freed. A wait for all work does.
TEST_P(Numbers, OfDestroyedStreamsLoseNoMemory) {
  expect_faults();  // whoever asks the stream, asks nobody
  for (const bool is_released : {false, true}) {
    SCOPED_TRACE(is_released);
    PoolUnderTest pool(config_with_limit(16 * kBlock));
    PoolUnderTest makes(config());  // which streams to create is the device's
    gpupool_stream_t gone = 0;
    ASSERT_TRUE(ok(gpupool_stream_create(makes, &gone)));
    const gpupool_ptr_t block = pool.malloc(14 * kBlock, gone);
    work(gone, block, kBlock);
    pool.free(block, gone);
    ASSERT_TRUE(ok(gpupool_stream_destroy(makes, gone)));
    if (is_released) {
      EXPECT_TRUE(ok(gpupool_release_stream(pool, gone)));
    }
    const gpupool_stream_t other = new_stream();
    pool.free(pool.malloc(14 * kBlock, other), other);
    pool.free(pool.malloc(15 * kBlock, new_stream()), GPUPOOL_STREAM_UNKNOWN);
    pool.empty();
    EXPECT_EQ(pool.reserved(), 0u);
    pool.validate();
  }
}

/// Numbers are released, parked and come again at random, and blocks outlive their streams. The simulated
/// device sees each race.
TEST_P(Numbers, ComeAgainAtRandom) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    PoolUnderTest pool(config_with_limit(16 * kBlock));
    std::mt19937 random(seed);
    struct Used {
      gpupool_ptr_t address;
      uint64_t size;
    };
    std::vector<Used> blocks;
    const auto any_stream = [&] { return gpupool_stream_t{7000 + random() % 6}; };
    for (int step = 0; step < 600; ++step) {
      const gpupool_stream_t stream = any_stream();
      switch (random() % 8) {
        case 0: EXPECT_TRUE(ok(gpupool_release_stream(pool, stream))); break;
        case 1: EXPECT_TRUE(ok(gpupool_park_stream(pool, stream))); break;
        case 2: EXPECT_TRUE(ok(gpupool_sim_advance(kDevice, random() % 3'000'000))); break;
        case 3:
        case 4:
          if (!blocks.empty()) {
            // The stream has waited, so that its work may follow that of others on the block.
            std::swap(blocks[random() % blocks.size()], blocks.back());
            const Used used = blocks.back();
            blocks.pop_back();
            EXPECT_TRUE(ok(gpupool_sim_advance(kDevice, 4'000'000)));
            EXPECT_TRUE(ok(gpupool_sim_work(kDevice, stream, used.address, used.size, random() % 2'000'000)));
            pool.free(used.address, stream);
          }
          break;
        default: {
          const uint64_t size = 1 + random() % kBlock;
          gpupool_ptr_t address = 0;
          if (gpupool_malloc(pool, size, stream, &address) != GPUPOOL_SUCCESS) break;
          ASSERT_TRUE(ok(gpupool_sim_work(kDevice, stream, address, size, random() % 2'000'000))) << seed;
          blocks.push_back({address, size});
        }
      }
    }
    EXPECT_TRUE(ok(gpupool_sim_advance(kDevice, 100'000'000)));
    for (const Used& used : blocks) pool.free(used.address, kUnknownStream);
    pool.validate();
    pool.synchronize();
    EXPECT_EQ(pool.active(), 0u);
    expect_no_faults();
  }
}

/// One small block a stream: what is idle around them serves another stream before a malloc fails.
TEST_P(Numbers, ShareChunksBeforeAMallocFails) {
  if (variant().source != Source::none) GTEST_SKIP() << "an upstream has sizes of its own";
  PoolUnderTest pool(config_with_limit(64 * kMiB));
  std::vector<std::pair<gpupool_ptr_t, gpupool_stream_t>> blocks;
  for (int i = 0; i < 200; ++i) {
    const gpupool_stream_t stream = new_stream();
    blocks.emplace_back(pool.malloc(4096, stream), stream);
    ASSERT_NE(blocks.back().first, 0u) << i;
    EXPECT_TRUE(ok(gpupool_sim_work(kDevice, stream, blocks.back().first, 4096, 1'000'000)));
  }
  pool.validate();
  for (const auto& [address, stream] : blocks) pool.free(address, stream);
  pool.synchronize();
  EXPECT_EQ(pool.active(), 0u);
  pool.validate();
  pool.empty();
  EXPECT_EQ(pool.reserved(), 0u);
  expect_no_faults();
}

/// Blocks that a busy stream of another device uses: a shortage goes on to its other steps.
class ForeignStreams : public Contract {};
INSTANTIATE_TEST_SUITE_P(On, ForeignStreams, testing::ValuesIn(controlled_variants()), name_of);

TEST_P(ForeignStreams, DoNotEndAShortage) {
  gpupool_config_t elsewhere = config();
  elsewhere.device = kDevice + 1;
  PoolUnderTest foreign(elsewhere);
  PoolUnderTest pool(config_with_limit(4 * kBlock));
  gpupool_stream_t busy = 0;
  ASSERT_TRUE(ok(gpupool_stream_create(foreign, &busy)));
  const gpupool_stream_t home = new_stream();
  const gpupool_ptr_t shared = pool.malloc(kBlock, home);
  pool.record_stream(shared, busy);
  static gpupool_ptr_t spare = 0;
  spare = pool.malloc(3 * kBlock, home);
  const auto give_spare = [](void* stream, gpupool_t* self, uint64_t, uint32_t) -> int32_t {
    if (spare == 0) return 0;
    EXPECT_TRUE(ok(gpupool_free(self, spare, *static_cast<gpupool_stream_t*>(stream))));
    spare = 0;
    return 1;
  };
  gpupool_stream_t stream = home;
  EXPECT_TRUE(ok(gpupool_set_oom_handler(pool, give_spare, &stream)));
  const gpupool_ptr_t block = pool.malloc(2 * kBlock, home);
  EXPECT_NE(block, 0u);
  EXPECT_EQ(spare, 0u) << "the handler was not asked";
  pool.free(block, home);
  pool.free(shared, home);
  pool.synchronize();
  EXPECT_EQ(pool.active(), 0u);
  EXPECT_TRUE(ok(gpupool_release_stream(pool, busy)));
  EXPECT_TRUE(ok(gpupool_stream_destroy(foreign, busy)));
}

}  // namespace
}  // namespace pool_test
