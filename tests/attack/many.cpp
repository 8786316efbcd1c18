// SPDX-License-Identifier: Apache-2.0
// Many at once (findings D1, D3 to D6): streams, pools, blocks that wait, that are cached or live, holes of
// nearly one size. No call costs more with many than with few.
//
// ATTACK_BLOCKS (200,000), ATTACK_HOLES (20,000): how many.
#include <memory>
#include <utility>

#include "attack/costs.hpp"

namespace attack {
namespace {

constexpr int32_t kDevice = 3;

class Many : public testing::Test {
 protected:
  void SetUp() override { configure_device(kDevice, kAddressesOnly); }

  static gpupool_stream_t new_stream(PoolUnderTest& pool) {
    gpupool_stream_t stream = 0;
    EXPECT_TRUE(ok(gpupool_stream_create(pool, &stream)));
    return stream;
  }
};

TEST_F(Many, LiveStreamsOnOneDevice) {
  PoolUnderTest pool(sim_config(kDevice));
  std::vector<gpupool_stream_t> streams;
  const auto add = [&](size_t count) {
    while (streams.size() < count && !HasFailure()) {
      streams.push_back(new_stream(pool));
      pool.free(pool.malloc(700, streams.back()), streams.back());
      pool.free(pool.malloc(3 * kMiB, streams.back()), streams.back());
    }
  };
  std::vector<std::pair<gpupool_ptr_t, gpupool_stream_t>> kept;
  const auto growth = [&] {
    const auto grow = [&](uint64_t i) {
      const gpupool_stream_t stream = streams[i % 10];
      kept.emplace_back(pool.malloc(6 * kMiB, stream), stream);
    };
    return time_of(300, grow);
  };
  const auto in_turn = [&] {
    return time_of(20'000, [&](uint64_t i) {
      const gpupool_stream_t stream = streams[i * 7 % streams.size()];
      pool.free(pool.malloc(3 * kMiB, stream), stream);
    });
  };
  add(10);
  const uint64_t few_growth = growth();
  const uint64_t few = in_turn();
  add(10'000);
  ASSERT_FALSE(HasFailure()) << "at stream " << streams.size();
  expect_like(few_growth, growth(), 4, 5'000, "a malloc that grows");
  expect_like(few, in_turn(), 5, 5'000, "a malloc and its free");
  for (const auto& [block, stream] : kept) pool.free(block, stream);
}

TEST(ManyDevices, HaveManyStreamsEach) {
  for (int32_t device = 0; device < 8; ++device) {
    configure_device(device, kAddressesOnly);
  }
  std::vector<std::unique_ptr<PoolUnderTest>> pools;
  for (int32_t device = 0; device < 8; ++device) {
    pools.push_back(std::make_unique<PoolUnderTest>(sim_config(device)));  // NOLINT: eight of them
  }
  for (int i = 0; i < 300; ++i) {
    for (auto& pool : pools) {
      gpupool_stream_t stream = 0;
      ASSERT_TRUE(ok(gpupool_stream_create(*pool, &stream)));
      pool->free(pool->malloc(3 * kMiB, stream), stream);
      pool->free(pool->malloc(1000, stream), stream);
    }
    ASSERT_FALSE(testing::Test::HasFailure()) << "at stream " << i << " of each device";
  }
}

TEST_F(Many, PoolsAtOnce) {
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<PoolUnderTest>> pools;
    std::vector<gpupool_ptr_t> blocks;
    for (int i = 0; i < 1000; ++i) {
      pools.push_back(std::make_unique<PoolUnderTest>(sim_config(kDevice)));
      blocks.push_back(pools.back()->malloc(3 * kMiB));
      blocks.push_back(pools.back()->malloc(3000));
      ASSERT_FALSE(HasFailure()) << "at pool " << i << " of round " << round;
    }
    for (size_t i = 0; i < blocks.size(); ++i) pools[i / 2]->free(blocks[i]);
  }
}

TEST_F(Many, StreamsMayUseABlock) {
  PoolUnderTest pool(sim_config(kDevice));
  std::vector<gpupool_stream_t> streams;
  const auto cost_with = [&](size_t count) {
    while (streams.size() < count && !HasFailure()) {
      streams.push_back(new_stream(pool));
      pool.free(pool.malloc(1000, streams.back()), streams.back());
    }
    std::vector<gpupool_ptr_t> blocks(200);
    for (gpupool_ptr_t& block : blocks) block = pool.malloc(1000, streams[0]);
    const uint64_t cost = time_of(blocks.size(), [&](uint64_t i) { pool.free(blocks[i], kUnknownStream); });
    pool.synchronize();
    EXPECT_EQ(pool.active(), 0u);
    return cost;
  };
  const uint64_t few = cost_with(1000);
  const uint64_t many = cost_with(10'000);
  ASSERT_FALSE(HasFailure()) << "at stream " << streams.size();
  expect_like(few, many, 3, 4'000, "a free with an unknown stream");
}

TEST_F(Many, BlocksWaitForAStream) {
  PoolUnderTest pool(sim_config(kDevice));
  ASSERT_TRUE(ok(gpupool_sim_work(kDevice, 12, 0, 0, 3'600'000'000'000)));
  std::vector<gpupool_ptr_t> blocks(100'000);
  for (gpupool_ptr_t& block : blocks) block = pool.malloc(4096, 11);
  size_t freed = 0;
  const auto free_up_to = [&](size_t count) {
    const uint64_t begin = cpu_ns();
    const size_t first = freed;
    for (; freed < count; ++freed) {
      pool.record_stream(blocks[freed], 12);
      pool.free(blocks[freed], 11);
      if (freed % 1000 == 0 && cpu_ns() - begin > kPatience) return ~uint64_t{0};
    }
    return (cpu_ns() - begin) / (freed - first);
  };
  std::vector<gpupool_ptr_t> missed;
  const auto miss = [&] {
    return time_of(200, [&](uint64_t) { missed.push_back(pool.malloc(70'000, 11)); });
  };
  const auto stats = [&] { return least_time_of(20, [&] { (void)pool.stats(); }); };
  free_up_to(4000);
  const uint64_t few = free_up_to(5000);
  const uint64_t few_miss = miss();
  const uint64_t few_stats = stats();
  ASSERT_NE(free_up_to(99'000), ~uint64_t{0}) << "lost patience with " << freed << " blocks that wait";
  expect_like(few, free_up_to(100'000), 3, 4'000, "record and free");
  expect_like(few_miss, miss(), 3, 5'000, "a malloc that misses");
  expect_like(few_stats, stats(), 3, 50'000, "stats");
  EXPECT_EQ(pool.active() - pool.allocated(), 100'000u * 4096);
  for (const gpupool_ptr_t block : missed) pool.free(block, 11);
  pool.synchronize();  // virtual time passes
  EXPECT_EQ(pool.active(), 0u);
}

/// What watching costs with n small blocks that are live, or cached.
class Watched : public Many {
 protected:
  struct Costs {
    uint64_t stats;
    uint64_t report;
    uint64_t failure;
    uint64_t reset;
  };

  static Costs costs_with(uint64_t count, bool live) {
    PoolUnderTest pool(sim_config(kDevice));
    std::vector<gpupool_ptr_t> blocks(count);
    for (gpupool_ptr_t& block : blocks) block = pool.malloc(512, 11);
    if (!live) {
      for (const gpupool_ptr_t block : blocks) pool.free(block, 11);
    }
    Costs costs{};
    costs.stats = least_time_of(20, [&] { (void)pool.stats(); });
    costs.report = least_time_of(20, [&] { (void)pool.report(); });
    costs.reset = least_time_of(20, [&] { EXPECT_TRUE(ok(gpupool_reset_peaks(pool))); });
    pool.set_limit(pool.reserved() + 64 * kMiB);
    // Nothing of a failing malloc may be paid for what is cached or live.
    costs.failure = least_time_of(10, [&] { (void)pool.try_malloc(kGiB, 11); });
    if (live) {
      for (const gpupool_ptr_t block : blocks) pool.free(block, 11);
    }
    return costs;
  }

  static void compare(bool live) {
    const Costs few = costs_with(20'000, live);
    const Costs many = costs_with(size_from("ATTACK_BLOCKS", 200'000), live);
    expect_like(few.stats, many.stats, 3, 50'000, "stats");
    expect_like(few.report, many.report, 3, 150'000, "report");
    expect_like(few.reset, many.reset, 3, 50'000, "reset_peaks");
    expect_like(few.failure, many.failure, 3, 300'000, "a malloc that fails");
  }
};

TEST_F(Watched, CachedBlocks) {
  compare(false);
}
TEST_F(Watched, LiveBlocks) {
  compare(true);
}

TEST_F(Many, BlocksCostLittleHostMemory) {
  constexpr uint64_t kBlocks = 100'000;
  PoolUnderTest pool(sim_config(kDevice));
  pool.free(pool.malloc(600, 11), 11);
  const uint64_t before = pool.stats().metadata_bytes;
  const uint64_t memory_before = memory_of_process();
  std::vector<gpupool_ptr_t> blocks(kBlocks);
  for (gpupool_ptr_t& block : blocks) block = pool.malloc(600, 11);
  EXPECT_LE(pool.stats().metadata_bytes - before, 96 * kBlocks + 64 * kKiB);
  // A little more than that, since the device and this test count as well.
  EXPECT_LE(memory_of_process() - memory_before, 120 * kBlocks + kNoise);
  for (const gpupool_ptr_t block : blocks) pool.free(block, 11);
}

/// n holes that are a little too small, then mallocs of a little more.
uint64_t cost_among_holes(uint64_t holes, uint64_t size, uint64_t more, uint64_t mallocs) {
  PoolUnderTest pool(sim_config(kDevice));
  std::vector<gpupool_ptr_t> blocks(2 * holes);
  for (gpupool_ptr_t& block : blocks) block = pool.malloc(size, 11);
  for (size_t i = 0; i < blocks.size(); i += 2) pool.free(blocks[i], 11);
  std::vector<gpupool_ptr_t> larger;
  const uint64_t begin = cpu_ns();
  while (larger.size() < mallocs && cpu_ns() - begin < kPatience)
    larger.push_back(pool.malloc(size + more, 11));
  const uint64_t cost = (cpu_ns() - begin) / larger.size();
  for (size_t i = 1; i < blocks.size(); i += 2) pool.free(blocks[i], 11);
  for (const gpupool_ptr_t block : larger) pool.free(block, 11);
  return cost;
}

TEST_F(Many, SmallHolesThatAreTooSmall) {
  const uint64_t few = cost_among_holes(2'000, 64 * 512, 512, 2000);
  const uint64_t many = cost_among_holes(size_from("ATTACK_HOLES", 20'000), 64 * 512, 512, 2000);
  expect_like(few, many, 3, 3'000, "a malloc among small holes");
}
TEST_F(Many, LargeHolesThatAreTooSmall) {
  const uint64_t few = cost_among_holes(400, 2 * kMiB, 512, 400);
  const uint64_t many = cost_among_holes(10'000, 2 * kMiB, 512, 400);
  expect_like(few, many, 3, 3'000, "a malloc among large holes");
}

}  // namespace
}  // namespace attack
