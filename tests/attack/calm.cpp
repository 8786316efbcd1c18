// SPDX-License-Identifier: Apache-2.0
// A repeating workload comes to rest: after eight periods there are no more driver calls, whatever the order
// of the streams, as long as there is room. Nor does memory change hands between streams, if they need no
// more than 64 MiB beyond what is in use at once; streams that need more take it from each other where it is.
#include <algorithm>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "attack/lab.hpp"

namespace attack {
namespace {

constexpr int32_t kDevice = 6;
constexpr int kPeriods = 8;
constexpr uint64_t kMillisecond = 1'000'000;

uint64_t driver_calls(const gpupool_stats_t& stats) {
  const gpupool_driver_stats_t& driver = stats.driver;
  return driver.create.count + driver.release.count + driver.map.count + driver.set_access.count +
         driver.unmap.count + driver.malloc.count + driver.free.count + driver.stream_wait.count +
         driver.host_wait.count;
}

uint64_t driver_ns(const gpupool_stats_t& stats) {
  const gpupool_driver_stats_t& driver = stats.driver;
  return driver.create.nanoseconds + driver.release.nanoseconds + driver.map.nanoseconds +
         driver.set_access.nanoseconds + driver.unmap.nanoseconds;
}

class Calm : public testing::TestWithParam<uint32_t> {
 protected:
  void SetUp() override { configure_device(kDevice, kAddressesOnly); }

  /// Plays a period until it should have come to rest, and then some more, which must find it resting.
  /// `apart`: the bytes that all streams need if none takes anything from another.
  static void expect_rest(PoolUnderTest& pool, uint64_t apart, const std::function<void(int)>& period) {
    int played = 0;
    const auto play = [&](int periods) {
      for (int i = 0; i < periods; ++i, ++played) {
        period(played);
        ASSERT_TRUE(ok(gpupool_sim_advance(kDevice, 20 * kMillisecond)));
      }
    };
    play(kPeriods);
    const gpupool_stats_t before = pool.stats();
    play(2 * kPeriods);
    const gpupool_stats_t after = pool.stats();
    EXPECT_EQ(driver_calls(after), driver_calls(before));
    if (apart <= after.all.allocated_bytes.peak + 64 * kMiB) {
      EXPECT_EQ(after.steals, before.steals);
      EXPECT_EQ(after.stream_steals, before.stream_steals);
    }
    pool.validate();
  }
};

/// Streams that take turns with one block each.
TEST_P(Calm, StreamsInTurn) {
  for (const uint64_t bytes : {64 * kKiB, kMiB, 16 * kMiB, 100 * kMiB}) {
    PoolUnderTest pool(sim_config(kDevice));
    expect_rest(pool, GetParam() * std::max(bytes, 2 * kMiB), [&](int) {
      for (gpupool_stream_t stream = 11; stream < 11 + GetParam(); ++stream) {
        pool.free(pool.malloc(bytes, stream), stream);
      }
    });
  }
}

/// Batches that side streams bring while a main stream works: some live into the next period.
TEST_P(Calm, Prefetching) {
  PoolUnderTest pool(sim_config(kDevice));
  std::vector<std::pair<gpupool_ptr_t, gpupool_stream_t>> batches;
  expect_rest(pool, 0, [&](int) {
    std::vector<std::pair<gpupool_ptr_t, gpupool_stream_t>> next;
    for (gpupool_stream_t stream = 21; stream < 21 + GetParam(); ++stream) {
      next.emplace_back(pool.malloc(24 * kMiB, stream), stream);
    }
    std::vector<gpupool_ptr_t> activations;
    for (uint64_t layer = 1; layer <= 12; ++layer) activations.push_back(pool.malloc(layer * 3 * kMiB, 11));
    for (const gpupool_ptr_t each : activations) pool.free(each, 11);
    for (const auto& [ptr, stream] : batches) pool.free(ptr, stream);
    batches = std::move(next);
  });
  for (const auto& [ptr, stream] : batches) pool.free(ptr, stream);
}

/// Layers gathered on side streams, used, and dropped, with a work buffer on the main one.
TEST_P(Calm, SideStreams) {
  PoolUnderTest pool(sim_config(kDevice));
  expect_rest(pool, (86 + GetParam() * 12) * kMiB, [&](int) {
    const gpupool_ptr_t work = pool.malloc(80 * kMiB, 11);
    for (uint64_t layer = 0; layer < 24; ++layer) {
      const gpupool_stream_t side = 21 + layer % GetParam();
      const gpupool_ptr_t gathered = pool.malloc((8 + layer % 5) * kMiB, side);
      const gpupool_ptr_t used = pool.malloc(6 * kMiB, 11);
      pool.free(gathered, side);
      pool.free(used, 11);
    }
    pool.free(work, 11);
  });
}

INSTANTIATE_TEST_SUITE_P(With, Calm, testing::Values(2u, 3u, 8u, 64u),
                         [](const auto& with) { return std::to_string(with.param) + "_streams"; });

/// A buffer that grows: each next one is twice as large, and what it replaces is freed then. The burst within
/// a stream is spent first (policy::kBurstWithinNs).
TEST(Growing, ComesToRest) {
  for (const uint64_t bytes : {64 * kMiB, 512 * kMiB, 4 * kGiB}) {
    configure_device(kDevice, kAddressesOnly);
    PoolUnderTest pool(sim_config(kDevice));
    const auto grow = [&] {
      const gpupool_ptr_t first = pool.malloc(bytes, 0);
      const gpupool_ptr_t second = pool.malloc(2 * bytes, 0);
      pool.free(first, 0);
      const gpupool_ptr_t third = pool.malloc(4 * bytes, 0);
      pool.free(second, 0);
      pool.free(third, 0);
      ASSERT_TRUE(ok(gpupool_sim_advance(kDevice, 3 * kMillisecond)));
    };
    for (int i = 0; i < 200; ++i) grow();
    const gpupool_stats_t before = pool.stats();
    for (int i = 0; i < 20; ++i) grow();
    EXPECT_EQ(driver_calls(pool.stats()), driver_calls(before)) << bytes;
    EXPECT_LE(pool.reserved(), before.all.allocated_bytes.peak * 5 / 4) << bytes;
  }
}

/// Near the limit the pool moves what there is, as if it had been told to be tight.
TEST(Scarce, NothingIsCreatedThatCouldBeMoved) {
  configure_device(kDevice, kAddressesOnly);
  gpupool_config_t config = sim_config(kDevice);
  config.limit_bytes = 36 * kMiB;
  PoolUnderTest pool(config);
  for (int i = 0; i < 100; ++i) {
    for (gpupool_stream_t stream = 11; stream < 15; ++stream)
      pool.free(pool.malloc(32 * kMiB, stream), stream);
  }
  EXPECT_LE(pool.stats().all.reserved_bytes.peak, 36 * kMiB);
  pool.validate();
}

/// What streams that ended their work had for themselves goes back.
TEST(Calmer, GivesSurplusBack) {
  configure_device(kDevice, kAddressesOnly);
  PoolUnderTest pool(sim_config(kDevice));
  for (int i = 0; i < 50; ++i) {
    for (gpupool_stream_t stream = 11; stream < 19; ++stream) {
      pool.free(pool.malloc(8 * kMiB, stream), stream);
      ASSERT_TRUE(ok(gpupool_sim_advance(kDevice, kMillisecond)));
    }
  }
  EXPECT_GE(pool.stats().all.reserved_bytes.current, 8 * 8 * kMiB);
  // One stream goes on, and grows now and then.
  for (uint64_t i = 0; i < 400; ++i) {
    pool.free(pool.malloc((10 + i / 8) * kMiB, 11), 11);
    ASSERT_TRUE(ok(gpupool_sim_advance(kDevice, 1000 * kMillisecond)));
  }
  EXPECT_LE(pool.stats().all.reserved_bytes.current, (10 + 400 / 8 + 64 / 2) * kMiB);
  pool.validate();
}

/// Each request runs on the next of some streams: it takes blocks of sizes that come again, and frees them.
/// What one stream had serves the next one where it is.
class Turns : public testing::TestWithParam<uint32_t> {
 protected:
  static constexpr int kBlocks = 20;

  static void request(PoolUnderTest& pool, gpupool_stream_t stream, uint64_t bytes) {
    std::vector<gpupool_ptr_t> blocks;
    for (int i = 1; i <= kBlocks; ++i)
      blocks.push_back(pool.malloc(2 * bytes / kBlocks * i / (kBlocks + 1), stream));
    for (const gpupool_ptr_t block : blocks) {
      ASSERT_TRUE(ok(gpupool_sim_work(kDevice, stream, block, 512, 1000)));
      pool.free(block, stream);
    }
    ASSERT_TRUE(ok(gpupool_sim_advance(kDevice, 500 * kMillisecond)));
  }
};

TEST_P(Turns, NeedNoMoreThanOneOfThem) {
  configure_device(kDevice, kAddressesOnly);
  PoolUnderTest pool(sim_config(kDevice));
  const auto serve = [&](uint32_t first, uint32_t end) {
    for (uint32_t at = first; at < end; ++at) request(pool, 11 + at % GetParam(), 4 * kGiB);
  };
  serve(0, 300);  // 150 seconds, in which what the first hand-over created goes back
  const gpupool_stats_t before = pool.stats();
  serve(300, 600);
  const gpupool_stats_t after = pool.stats();
  EXPECT_LE(driver_ns(after) - driver_ns(before), 300 * 500 * kMillisecond / 1000);
  EXPECT_LE(after.all.reserved_bytes.current, after.all.allocated_bytes.peak * 5 / 4);
  pool.validate();
}

/// The same with one block at a time, of sizes that differ, under a limit that hardly leaves room.
TEST_P(Turns, TakeEachOthersPiecesWhereTheyAre) {
  configure_device(kDevice, kAddressesOnly);
  gpupool_config_t config = sim_config(kDevice);
  config.limit_bytes = 4 * kGiB / 100 * 102;
  PoolUnderTest pool(config);
  uint32_t turn = 0;
  const auto period = [&] {
    for (int i = 0; i < 240; ++i, ++turn) {
      const gpupool_stream_t stream = 11 + turn % GetParam();
      pool.free(pool.malloc(4 * kGiB * (i * 7 % 12 + 1) / 12, stream), stream);
      ASSERT_TRUE(ok(gpupool_sim_advance(kDevice, kMillisecond / 5)));
    }
  };
  for (int i = 0; i < kPeriods; ++i) period();
  const gpupool_stats_t before = pool.stats();
  for (int i = 0; i < kPeriods; ++i) period();
  EXPECT_EQ(driver_calls(pool.stats()), driver_calls(before));
  pool.validate();
}

/// Each block is used on the next stream too, which passes its event by the next malloc.
TEST_P(Turns, NeedNoWaitForBlocksThatTwoOfThemUse) {
  configure_device(kDevice, kAddressesOnly);
  gpupool_config_t config = sim_config(kDevice);
  config.limit_bytes = 2 * kGiB;
  PoolUnderTest pool(config);
  uint32_t turn = 0;
  const auto period = [&] {
    for (int i = 0; i < 100; ++i, ++turn) {
      const gpupool_stream_t stream = 11 + turn % GetParam();
      const gpupool_ptr_t block = pool.malloc(kGiB, stream);
      pool.record_stream(block, 11 + (turn + 1) % GetParam());
      pool.free(block, stream);
      ASSERT_TRUE(ok(gpupool_sim_advance(kDevice, kMillisecond / 2)));
    }
  };
  for (int i = 0; i < kPeriods; ++i) period();
  const gpupool_stats_t before = pool.stats();
  for (int i = 0; i < kPeriods; ++i) period();
  EXPECT_EQ(driver_calls(pool.stats()), driver_calls(before));
  pool.validate();
}

/// First in, first out, with sizes from 3 MB to 3 GB: the more room a limit leaves, the sooner it rests.
class FirstInFirstOut : public testing::TestWithParam<uint64_t> {};

TEST_P(FirstInFirstOut, ComesToRestBelowALimit) {
  configure_device(kDevice, kAddressesOnly);
  constexpr uint64_t kSizes = 40;
  constexpr size_t kLive = 12;
  const auto size_of = [](uint64_t at) { return 3 * kMiB + 2997 * kMiB * (at % kSizes) / kSizes; };
  uint64_t peak = 0;
  for (uint64_t from = 0; from < kSizes; ++from) {
    uint64_t live = 0;
    for (uint64_t at = from; at < from + kLive; ++at) live += size_of(at);
    peak = std::max(peak, live);
  }
  gpupool_config_t config = sim_config(kDevice);
  config.limit_bytes = peak / 100 * GetParam();
  PoolUnderTest pool(config);
  std::deque<gpupool_ptr_t> live;
  uint64_t turn = 0;
  const auto play = [&](int periods) {
    for (const uint64_t end = turn + static_cast<uint64_t>(periods) * kSizes; turn < end; ++turn) {
      if (live.size() == kLive) {
        pool.free(live.front());
        live.pop_front();
      }
      live.push_back(pool.malloc(size_of(turn)));
      ASSERT_TRUE(ok(gpupool_sim_advance(kDevice, 50 * kMillisecond / kSizes)));
    }
  };
  play(200);
  const gpupool_stats_t before = pool.stats();
  play(kPeriods);
  EXPECT_EQ(driver_calls(pool.stats()), driver_calls(before));
  for (const gpupool_ptr_t block : live) pool.free(block);
  pool.validate();
}

INSTANTIATE_TEST_SUITE_P(At, FirstInFirstOut, testing::Values(110u, 120u, 130u, 150u, 200u),
                         [](const auto& tested) { return std::to_string(tested.param) + "_percent"; });

/// A segment is all that it will ever be: one that is too small for a request stays where it is.
TEST(Segments, StayWhereTheyCannotHelp) {
  configure_device(kDevice, kAddressesOnly);
  gpupool_config_t config = sim_config(kDevice);
  config.mode = GPUPOOL_MODE_DRIVER;
  config.limit_bytes = 450 * kMiB;
  PoolUnderTest pool(config);
  pool.free(pool.malloc(100 * kMiB, 11), 11);
  pool.synchronize();
  const gpupool_ptr_t large = pool.malloc(300 * kMiB, 12);
  pool.free(pool.malloc(100 * kMiB, 11), 11);
  EXPECT_EQ(pool.stats().stream_steals, 0u);
  pool.free(large, 12);
}

/// Segments may be smaller than a granule; a malloc looks at them and ends.
TEST(Segments, MayBeSmall) {
  configure_device(kDevice, kAddressesOnly);
  gpupool_config_t config = sim_config(kDevice);
  config.mode = GPUPOOL_MODE_DRIVER;
  config.limit_bytes = 5 * kMiB / 2;
  PoolUnderTest pool(config);
  std::vector<gpupool_ptr_t> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(pool.malloc(512 * kKiB, 11));
  pool.free(pool.malloc(256 * kKiB, 11), 11);
  pool.free(pool.malloc(300 * kKiB, 12), 12);
  for (const gpupool_ptr_t block : blocks) pool.free(block, 11);
}

INSTANTIATE_TEST_SUITE_P(Of, Turns, testing::Values(3u, 4u, 8u, 32u),
                         [](const auto& of) { return std::to_string(of.param) + "_streams"; });

}  // namespace
}  // namespace attack
