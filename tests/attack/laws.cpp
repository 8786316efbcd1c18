// SPDX-License-Identifier: Apache-2.0
// Flat for ever (findings D1, D2, D7): streams, captures, threads and pools come and go, and nothing grows
// with their number: no failures, no driver calls after the first ones, constant host memory and addresses,
// and the last ones take as long as the first.
//
// ATTACK_STREAMS (100,000), ATTACK_POOLS and ATTACK_THREADS (10,000): how many come and go.
#include <algorithm>
#include <memory>
#include <thread>

#include "attack/costs.hpp"

namespace attack {
namespace {

constexpr int32_t kDevice = 3;

uint64_t streams_to_come() {
  return std::max<uint64_t>(size_from("ATTACK_STREAMS", 100'000), 8 * kSpan);
}

// ---- streams that come and go

enum class Way { destroyed, parked, captured, busy };

class Streams : public testing::Test {
 protected:
  void SetUp() override { configure_device(kDevice, kAddressesOnly); }

  /// 1 and 3 MiB on each of `together` streams at a time.
  void come_and_go(gpupool_config_t config, Way way, size_t together, uint64_t count) {
    const gpupool_config_t plain = sim_config(kDevice);
    PoolUnderTest lab(plain);
    if (way == Way::captured) config.flags = GPUPOOL_FLAG_CAPTURE_AWARE;
    PoolUnderTest pool(config);
    std::vector<gpupool_stream_t> streams(together);
    std::unique_ptr<Footprint> before;
    Spans spans;
    bool goes_on = true;
    while (goes_on && spans.steps() < count) {
      for (gpupool_stream_t& stream : streams) arrive(pool, way, stream);
      for (const gpupool_stream_t stream : streams) leave(pool, lab, way, stream);
      for (size_t i = 0; i < together && goes_on; ++i) {
        goes_on = spans.step() && !HasFailure();
        if (spans.steps() == 2 * kSpan) before = std::make_unique<Footprint>(pool);
      }
    }
    ASSERT_TRUE(goes_on) << "at stream " << spans.steps();
    const Footprint after(pool);
    expect_flat(*before, after, spans.steps(), 200);
    spans.expect_flat();
    EXPECT_TRUE(way == Way::parked || pool.stats().streams == 0);
    EXPECT_TRUE(has_no_faults(kDevice));
  }

  static void arrive(PoolUnderTest& pool, Way way, gpupool_stream_t& stream) {
    ASSERT_TRUE(ok(gpupool_stream_create(pool, &stream)));
    if (way == Way::captured) {
      ASSERT_TRUE(ok(gpupool_sim_capture(kDevice, stream, 1)));
    }
    for (const uint64_t size : {kMiB, 3 * kMiB}) {
      const gpupool_ptr_t block = pool.malloc(size, stream);
      if (block == 0) return;
      if (way == Way::busy) {
        ASSERT_TRUE(ok(gpupool_sim_work(kDevice, stream, block, size, 20'000)));
      }
      pool.free(block, stream);
    }
  }

  static void leave(PoolUnderTest& pool, PoolUnderTest& lab, Way way, gpupool_stream_t stream) {
    if (HasFailure()) return;
    if (way == Way::parked) {
      ASSERT_TRUE(ok(gpupool_park_stream(pool, stream)));
      ASSERT_TRUE(ok(gpupool_stream_destroy(lab, stream)));
      return;
    }
    if (way == Way::captured) {
      uint64_t capture = 0;
      ASSERT_TRUE(ok(gpupool_capture_id(pool, stream, &capture)));
      ASSERT_TRUE(ok(gpupool_sim_capture(kDevice, stream, 0)));
      ASSERT_TRUE(ok(gpupool_release_capture(pool, capture)));
    }
    ASSERT_TRUE(ok(gpupool_stream_destroy(pool, stream)));
  }
};

TEST_F(Streams, ComeAndGoOneAtATime) {
  come_and_go(sim_config(kDevice), Way::destroyed, 1, streams_to_come());
}
TEST_F(Streams, ComeAndGo64AtATime) {
  come_and_go(sim_config(kDevice), Way::destroyed, 64, streams_to_come());
}
TEST_F(Streams, AreParkedOneAtATime) {
  come_and_go(sim_config(kDevice), Way::parked, 1, streams_to_come());
}
TEST_F(Streams, AreParked64AtATime) {
  come_and_go(sim_config(kDevice), Way::parked, 64, streams_to_come());
}
TEST_F(Streams, CaptureOneAtATime) {
  come_and_go(sim_config(kDevice), Way::captured, 1, streams_to_come());
}
TEST_F(Streams, Capture64AtATime) {
  come_and_go(sim_config(kDevice), Way::captured, 64, streams_to_come());
}
TEST_F(Streams, ComeAndGoBusy) {
  come_and_go(sim_config(kDevice), Way::busy, 8, streams_to_come());
}
TEST_F(Streams, ComeAndGoInDriverMode) {
  gpupool_config_t config = sim_config(kDevice);
  config.mode = GPUPOOL_MODE_DRIVER;
  come_and_go(config, Way::destroyed, 1, streams_to_come());
}
// With data, addresses are the process's own.
TEST_F(Streams, UseTheAddressesOfOthers) {
  configure_device(kDevice, kWithData);
  come_and_go(sim_config(kDevice), Way::destroyed, 1, std::max<uint64_t>(streams_to_come() / 5, 8 * kSpan));
}

// ---- that there ever were

class Ever : public testing::Test {
 protected:
  void SetUp() override { configure_device(kDevice, kAddressesOnly); }
};

TEST_F(Ever, CapturesOnOneStream) {
  gpupool_config_t config = sim_config(kDevice);
  config.flags = GPUPOOL_FLAG_CAPTURE_AWARE;
  PoolUnderTest pool(config);
  pool.free(pool.malloc(5 * kMiB, 11), 11);
  gpupool_ptr_t lowest = ~gpupool_ptr_t{0};
  gpupool_ptr_t highest = 0;
  std::unique_ptr<Footprint> before;
  Spans spans;
  while (spans.steps() < streams_to_come() && !HasFailure()) {
    ASSERT_TRUE(ok(gpupool_sim_capture(kDevice, 11, 1)));
    uint64_t capture = 0;
    ASSERT_TRUE(ok(gpupool_capture_id(pool, 11, &capture)));
    pool.free(pool.malloc(kMiB, 11), 11);
    const gpupool_ptr_t large = pool.malloc(3 * kMiB, 11);
    pool.free(large, 11);
    lowest = std::min(lowest, large);
    highest = std::max(highest, large);
    ASSERT_TRUE(ok(gpupool_sim_capture(kDevice, 11, 0)));
    ASSERT_TRUE(ok(gpupool_release_capture(pool, capture)));
    if (!spans.step()) return;
    if (spans.steps() == 2 * kSpan) before = std::make_unique<Footprint>(pool);
  }
  ASSERT_FALSE(HasFailure()) << "at capture " << spans.steps();
  expect_flat(*before, Footprint(pool), spans.steps(), 0);
  spans.expect_flat();
  EXPECT_LE(highest - lowest, 4 * kGiB) << "addresses wander";
}

TEST_F(Ever, Threads) {
  PoolUnderTest pool(sim_config(kDevice));
  std::unique_ptr<Footprint> before;
  Spans spans;
  const uint64_t count = std::max<uint64_t>(size_from("ATTACK_THREADS", 10'000), 8 * kSpan);
  while (spans.steps() < count && !HasFailure()) {
    std::thread([&] {
      pool.free(pool.malloc(1000, 11), 11);
      pool.free(pool.malloc(2 * kMiB, 12), 12);
    }).join();
    if (!spans.step()) return;
    if (spans.steps() == 2 * kSpan) before = std::make_unique<Footprint>(pool);
  }
  expect_flat(*before, Footprint(pool), spans.steps(), 0);
  spans.expect_flat();
}

/// Nanoseconds of a malloc and its free in 64 live pools in turn, and of a thread that uses 8 pools.
struct PoolCosts {
  uint64_t in_turn;
  uint64_t thread;
};

TEST_F(Ever, Pools) {
  std::vector<std::unique_ptr<PoolUnderTest>> live;
  live.reserve(64);
  for (int i = 0; i < 64; ++i) live.push_back(std::make_unique<PoolUnderTest>(sim_config(kDevice)));
  const auto pair = [&](uint64_t i) {
    PoolUnderTest& pool = *live[i % live.size()];
    pool.free(pool.malloc(1000, 11), 11);
  };
  const auto costs = [&] {
    time_of(1000, pair);
    // There is no way back to few, so that the least of several stands for each.
    PoolCosts found{~uint64_t{0}, ~uint64_t{0}};
    for (int i = 0; i < 5; ++i) found.in_turn = std::min(found.in_turn, time_of(4'000, pair));
    for (int i = 0; i < 40; ++i) {
      timespec begin{};
      timespec end{};
      clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
      std::thread([&] {
        for (uint64_t k = 0; k < 8; ++k) pair(k);
      }).join();
      clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
      const auto took = (end.tv_sec - begin.tv_sec) * 1'000'000'000 + end.tv_nsec - begin.tv_nsec;
      found.thread = std::min(found.thread, static_cast<uint64_t>(took));
    }
    return found;
  };
  const auto create_and_destroy = [&](uint64_t count) {
    for (uint64_t i = 0; i < count && !HasFailure(); ++i) {
      PoolUnderTest pool(sim_config(kDevice));
      pool.free(pool.malloc(3 * kMiB, 11), 11);
    }
  };
  create_and_destroy(1000);
  const PoolCosts few = costs();
  const uint64_t memory_before = memory_of_process();
  const uint64_t count = size_from("ATTACK_POOLS", 10'000);
  const auto cost_of_creating = [&] { return least_time_of(3, [&] { create_and_destroy(kSpan); }); };
  const uint64_t few_create = cost_of_creating();
  create_and_destroy(count);
  const uint64_t memory_after = memory_of_process();
  const uint64_t many_create = cost_of_creating();
  const PoolCosts many = costs();
  expect_like(few.in_turn, many.in_turn, 3, 1'000, "a malloc and its free in 64 pools in turn");
  expect_like(few.thread, many.thread, 3, 200'000, "a thread that used 8 pools");
  expect_like(few_create, many_create, 3, 10'000'000, "1,000 pools created and destroyed");
  // A destroyed pool's handle may still be shown to the library, so that something may stay.
  EXPECT_LE(memory_after, memory_before + kNoise + (count + 3 * kSpan) * 300);
}

}  // namespace
}  // namespace attack
