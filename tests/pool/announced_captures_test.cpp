// SPDX-License-Identifier: Apache-2.0
// Captures that whoever begins them announces: from then until they have ended, nobody leaves an event, so
// that frees may come from any thread.
#include <array>
#include <atomic>
#include <thread>

#include "pool/contract.hpp"

namespace pool_test {
namespace {

class AnnouncedCaptures : public Contract {
 protected:
  static void announce(gpupool_t* pool) { EXPECT_TRUE(ok(gpupool_announce_capture(pool, 1))); }
  static void withdraw(gpupool_t* pool) { EXPECT_TRUE(ok(gpupool_announce_capture(pool, 0))); }
  static uint64_t events(PoolUnderTest& pool) { return pool.stats().driver.event_record.count; }

  /// What leaves events: two streams that grow and free, each asking for what the other has, blocks of
  /// caches, a block with two users, memory that is reserved, and a parked stream.
  void use(PoolUnderTest& pool) {
    const std::array streams = {new_stream(), new_stream()};
    for (const gpupool_stream_t stream : streams) EXPECT_TRUE(ok(gpupool_reserve(pool, 0, stream)));
    for (uint64_t round = 1; round <= 6; ++round) {
      for (size_t i = 0; i < streams.size(); ++i) {
        const gpupool_ptr_t block = pool.malloc(round * kBlock, streams[i]);
        pool.record_stream(block, streams[1 - i]);
        pool.free(block, streams[i]);
        for (int small = 0; small < 100; ++small) pool.free(pool.malloc(kMiB, streams[i]), streams[i]);
        EXPECT_TRUE(ok(gpupool_reserve(pool, kBlock, streams[i])));
      }
    }
    EXPECT_TRUE(ok(gpupool_park_stream(pool, streams[1])));
  }
};
INSTANTIATE_TEST_SUITE_P(On, AnnouncedCaptures, testing::ValuesIn(controlled_variants()), name_of);

TEST_P(AnnouncedCaptures, NobodyLeavesEventsMeanwhile) {
  PoolUnderTest pool(config());
  use(pool);
  const uint64_t before = events(pool);
  EXPECT_GT(before, 0u);
  announce(pool);
  use(pool);
  EXPECT_EQ(events(pool), before);
  withdraw(pool);
  use(pool);
  EXPECT_GT(events(pool), before);
  pool.empty();
  EXPECT_EQ(pool.reserved(), 0u);
}

/// Who releases a stream is about to destroy it, and so is sure to be its only user.
TEST_P(AnnouncedCaptures, AReleasedStreamLeavesItsEvent) {
  PoolUnderTest pool(config());
  const gpupool_stream_t stream = new_stream();
  pool.free(pool.malloc(kBlock, stream), stream);
  announce(pool);
  const uint64_t before = events(pool);
  EXPECT_TRUE(ok(gpupool_release_stream(pool, stream)));
  EXPECT_EQ(events(pool), before + 1);
  withdraw(pool);
}

TEST_P(AnnouncedCaptures, MemoryComesBackAtAShortage) {
  PoolUnderTest pool(config_with_limit(kBlock));
  const gpupool_stream_t one = new_stream();
  const gpupool_stream_t other = new_stream();
  EXPECT_TRUE(ok(gpupool_reserve(pool, 0, other)));
  announce(pool);
  for (int round = 0; round < 3; ++round) {
    for (const gpupool_stream_t stream : {one, other}) {
      pool.free(pool.malloc(kBlock, stream), stream);
    }
  }
  EXPECT_GT(pool.stats().driver.host_wait.count, 0u);
  EXPECT_TRUE(ok(gpupool_park_stream(pool, one)));
  pool.free(pool.malloc(kBlock, one), one);
  withdraw(pool);
  pool.empty();
  EXPECT_EQ(pool.reserved(), 0u);
}

TEST_P(AnnouncedCaptures, Nest) {
  PoolUnderTest pool(config());
  announce(pool);
  EXPECT_TRUE(ok(gpupool_announce_capture(pool, -7)));
  withdraw(pool);
  use(pool);
  EXPECT_EQ(events(pool), 0u);
  withdraw(pool);
  use(pool);
  EXPECT_GT(events(pool), 0u);
}

TEST_P(AnnouncedCaptures, EndNoSoonerThanTheyBegin) {
  PoolUnderTest pool(config());
  EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_announce_capture(pool, 0)));
  announce(pool);
  withdraw(pool);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_announce_capture(pool, 0)));
  announce(pool);
  use(pool);
  EXPECT_EQ(events(pool), 0u);
  withdraw(pool);
}

TEST_P(AnnouncedCaptures, HoldForAParentAndItsChildren) {
  PoolUnderTest other(config());
  gpupool_t* parent = nullptr;
  const gpupool_config_t plain = config();
  ASSERT_TRUE(ok(gpupool_create(&plain, &parent)));
  gpupool_t* handle = nullptr;
  if (gpupool_create_child(parent, &handle) == GPUPOOL_ERROR_UNSUPPORTED) {
    EXPECT_TRUE(ok(gpupool_destroy(parent)));
    return;
  }
  PoolUnderTest before(handle);
  announce(parent);
  PoolUnderTest meanwhile(PoolUnderTest::child_of(parent));
  for (PoolUnderTest* child : {&before, &meanwhile}) {
    use(*child);
    EXPECT_EQ(events(*child), 0u);
  }
  use(other);
  EXPECT_GT(events(other), 0u);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_announce_capture(other, 0)));
  EXPECT_TRUE(ok(gpupool_destroy(parent)));
  withdraw(meanwhile);
  use(before);
  EXPECT_GT(events(before), 0u);
}

/// A free names a parked stream, which would wait for its event first.
TEST_P(AnnouncedCaptures, NoFreeMakesAStreamWait) {
  for (const bool is_announced : {false, true}) {
    PoolUnderTest pool(config());
    const gpupool_stream_t parked = new_stream();
    const gpupool_stream_t own = new_stream();
    free_busy_block(pool, parked, kBlock);
    EXPECT_TRUE(ok(gpupool_park_stream(pool, parked)));
    const gpupool_ptr_t block = pool.malloc(kMiB, own);
    if (is_announced) announce(pool);
    const uint64_t before = pool.stats().driver.stream_wait.count;
    pool.free(block, parked);
    EXPECT_EQ(pool.stats().driver.stream_wait.count, before + (is_announced ? 0 : 1));
    if (is_announced) withdraw(pool);
    finish(parked);
    pool.empty();
    EXPECT_EQ(pool.reserved(), 0u);
  }
}

/// On the device that counts each touch of a stream that another thread captures on.
class RacingCaptures : public AnnouncedCaptures {};
INSTANTIATE_TEST_SUITE_P(On, RacingCaptures, testing::ValuesIn(variants_where([](const Variant& variant) {
                           return variant.machine == Machine::sim && variant.mode != GPUPOOL_MODE_UPSTREAM;
                         })),
                         name_of);

/// One thread allocates on a stream and captures there, another one frees on it without using it.
TEST_P(RacingCaptures, AreLeftAloneByOtherThreadsThatFree) {
  PoolUnderTest pool(config());
  PoolUnderTest child(PoolUnderTest::child_of(pool));
  const gpupool_stream_t captured = new_stream();
  for (gpupool_t* each : {static_cast<gpupool_t*>(pool), static_cast<gpupool_t*>(child)}) {
    EXPECT_TRUE(ok(gpupool_reserve(each, 0, captured)));
    EXPECT_TRUE(ok(gpupool_reserve(each, 0, new_stream())));
  }
  using Place = std::atomic<gpupool_ptr_t>;
  std::array<std::array<Place, 8>, 2> places{};
  std::atomic<bool> is_over = false;
  const auto free_on = [&](PoolUnderTest& from, std::array<Place, 8>& own) {
    while (!is_over) {
      for (Place& place : own) {
        if (const gpupool_ptr_t block = place.exchange(0)) from.free(block, captured);
      }
    }
  };
  std::thread first([&] { free_on(pool, places[0]); });
  std::thread second([&] { free_on(child, places[1]); });
  for (int round = 0; round < 3000; ++round) {
    for (size_t i = 0; i < places.size(); ++i) {
      for (Place& place : places[i]) {
        if (place == 0) place = (i == 0 ? pool : child).malloc(4 * kMiB, captured);
      }
    }
    announce(pool);
    EXPECT_TRUE(ok(gpupool_sim_capture(kDevice, captured, 2)));
    EXPECT_TRUE(ok(gpupool_sim_capture(kDevice, captured, 0)));
    withdraw(pool);
  }
  is_over = true;
  first.join();
  second.join();
  for (Place& place : places[0]) pool.free(place, captured);
  for (Place& place : places[1]) child.free(place, captured);
  expect_no_faults();
}

}  // namespace
}  // namespace pool_test
