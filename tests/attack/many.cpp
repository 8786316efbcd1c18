// SPDX-License-Identifier: Apache-2.0
// Many at once (findings D1, D3 to D6): streams, pools, pending, cached and live blocks, holes of nearly
// equal size. No call costs more with many than with few.
//
// ATTACK_BLOCKS (200,000), ATTACK_HOLES (20,000): how many.
#include <algorithm>
#include <initializer_list>
#include <memory>
#include <random>
#include <utility>

#include "attack/costs.hpp"

namespace attack {
namespace {

constexpr int32_t kDevice = 3;

class Many : public testing::Test {
 protected:
  void SetUp() override { configure_device(kDevice, kAddressesOnly); }
};

/// A pool with streams, on which every one has been used.
class WithStreams {
 public:
  WithStreams(const gpupool_config_t& config, size_t count, std::initializer_list<uint64_t> sizes)
      : pool_(config) {
    while (streams_.size() < count && !testing::Test::HasFailure()) {
      gpupool_stream_t stream = 0;
      EXPECT_TRUE(ok(gpupool_stream_create(pool_, &stream)));
      streams_.push_back(stream);
      for (const uint64_t size : sizes) pool_.free(pool_.malloc(size, stream), stream);
    }
  }

  /// A malloc and its free, of 3 MiB on each stream in turn.
  uint64_t in_turn() {
    return time_of(20'000, [&](uint64_t i) {
      const gpupool_stream_t stream = streams_[i * 7 % streams_.size()];
      pool_.free(pool_.malloc(3 * kMiB, stream), stream);
    });
  }
  /// A malloc that grows.
  uint64_t growth() {
    std::vector<gpupool_ptr_t> blocks(200);
    const uint64_t cost =
        time_of(blocks.size(), [&](uint64_t i) { blocks[i] = pool_.malloc(6 * kMiB, streams_[i % 10]); });
    for (size_t i = 0; i < blocks.size(); ++i) pool_.free(blocks[i], streams_[i % 10]);
    pool_.empty();
    return cost;
  }
  /// A free by a stream that is not known.
  uint64_t unknown_free() {
    std::vector<gpupool_ptr_t> blocks(200);
    for (gpupool_ptr_t& block : blocks) block = pool_.malloc(1000, streams_[0]);
    const uint64_t cost = time_of(blocks.size(), [&](uint64_t i) { pool_.free(blocks[i], kUnknownStream); });
    pool_.synchronize();
    EXPECT_EQ(pool_.active(), 0u);
    return cost;
  }

 private:
  PoolUnderTest pool_;
  std::vector<gpupool_stream_t> streams_;
};

TEST_F(Many, LiveStreamsOnOneDevice) {
  WithStreams few(sim_config(kDevice), 10, {700, 3 * kMiB});
  WithStreams many(sim_config(kDevice), 10'000, {700, 3 * kMiB});
  expect_like_in_turn([&] { return few.growth(); }, [&] { return many.growth(); }, 4, 5'000,
                      "a malloc that grows");
  // Streams in turn take each other's memory, so that 10,000 do not hold 10,000 times what one needs.
  WithStreams some(sim_config(kDevice), 1'000, {700, 3 * kMiB});
  expect_like_in_turn([&] { return some.in_turn(); }, [&] { return many.in_turn(); }, 5, 5'000,
                      "a malloc and its free");
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
  WithStreams few(sim_config(kDevice), 1000, {1000});
  WithStreams many(sim_config(kDevice), 10'000, {1000});
  expect_like_in_turn([&] { return few.unknown_free(); }, [&] { return many.unknown_free(); }, 3, 4'000,
                      "a free with an unknown stream");
}

/// A pool with blocks of stream 11 that wait for stream 12, which is busy.
class WithWaiting {
 public:
  WithWaiting(const gpupool_config_t& config, size_t count) : pool_(config) {
    const uint64_t begin = cpu_ns();
    while (waiting_ < count && cpu_ns() - begin < kPatience) add();
    EXPECT_GE(waiting_, count) << "lost patience";
  }
  ~WithWaiting() {
    for (const gpupool_ptr_t block : missed_) pool_.free(block, 11);
    pool_.synchronize();  // virtual time passes
    EXPECT_EQ(pool_.active(), 0u);
  }
  WithWaiting(const WithWaiting&) = delete;
  WithWaiting& operator=(const WithWaiting&) = delete;

  void expect_all_to_wait() { EXPECT_EQ(pool_.active() - pool_.allocated(), waiting_ * 4096); }

  uint64_t add() {
    std::vector<gpupool_ptr_t> blocks(1000);
    for (gpupool_ptr_t& block : blocks) block = pool_.malloc(4096, 11);
    waiting_ += blocks.size();
    return time_of(blocks.size(), [&](uint64_t i) {
      pool_.record_stream(blocks[i], 12);
      pool_.free(blocks[i], 11);
    });
  }
  uint64_t miss() {
    return time_of(200, [&](uint64_t) { missed_.push_back(pool_.malloc(70'000, 11)); });
  }
  uint64_t stats() {
    return least_time_of(20, [&] { (void)pool_.stats(); });
  }

 private:
  PoolUnderTest pool_;
  uint64_t waiting_ = 0;
  std::vector<gpupool_ptr_t> missed_;
};

TEST_F(Many, BlocksWaitForAStream) {
  ASSERT_TRUE(ok(gpupool_sim_work(kDevice, 12, 0, 0, 3'600'000'000'000)));
  WithWaiting few(sim_config(kDevice), 4'000);
  WithWaiting many(sim_config(kDevice), 99'000);
  expect_like_in_turn([&] { return few.add(); }, [&] { return many.add(); }, 3, 4'000, "record and free");
  expect_like_in_turn([&] { return few.miss(); }, [&] { return many.miss(); }, 3, 5'000,
                      "a malloc that misses");
  expect_like_in_turn([&] { return few.stats(); }, [&] { return many.stats(); }, 3, 50'000, "stats");
  few.expect_all_to_wait();
  many.expect_all_to_wait();
}

/// A pool with small blocks that are live, or cached.
class WithBlocks {
 public:
  WithBlocks(const gpupool_config_t& config, uint64_t count, bool live) : pool_(config), blocks_(count) {
    for (gpupool_ptr_t& block : blocks_) block = pool_.malloc(512, 11);
    if (!live) free_all();
  }
  ~WithBlocks() { free_all(); }
  WithBlocks(const WithBlocks&) = delete;
  WithBlocks& operator=(const WithBlocks&) = delete;

  uint64_t stats() {
    return least_time_of(20, [&] { (void)pool_.stats(); });
  }
  uint64_t report() {
    return least_time_of(20, [&] { (void)pool_.report(); });
  }
  uint64_t reset() {
    return least_time_of(20, [&] { EXPECT_TRUE(ok(gpupool_reset_peaks(pool_))); });
  }
  /// Nothing of a failing malloc may be paid for what is cached or live.
  uint64_t failure() {
    pool_.set_limit(pool_.reserved() + 64 * kMiB);
    return least_time_of(10, [&] { (void)pool_.try_malloc(kGiB, 11); });
  }

 private:
  void free_all() {
    for (const gpupool_ptr_t block : blocks_) pool_.free(block, 11);
    blocks_.clear();
  }

  PoolUnderTest pool_;
  std::vector<gpupool_ptr_t> blocks_;
};

class Watched : public Many {
 protected:
  static void compare(bool live) {
    WithBlocks few(sim_config(kDevice), 20'000, live);
    WithBlocks many(sim_config(kDevice), size_from("ATTACK_BLOCKS", 200'000), live);
    const auto compare_in_turn = [&](uint64_t (WithBlocks::*cost)(), uint64_t floor, const char* what) {
      expect_like_in_turn([&] { return (few.*cost)(); }, [&] { return (many.*cost)(); }, 3, floor, what);
    };
    compare_in_turn(&WithBlocks::stats, 50'000, "stats");
    compare_in_turn(&WithBlocks::report, 150'000, "report");
    compare_in_turn(&WithBlocks::reset, 50'000, "reset_peaks");
    compare_in_turn(&WithBlocks::failure, 300'000, "a malloc that fails");
  }
};

TEST_F(Watched, CachedBlocks) {
  compare(false);
}
TEST_F(Watched, LiveBlocks) {
  compare(true);
}

/// What one malloc drains, if a little more memory serves it as well.
constexpr uint64_t kMostDrained = 4096;

/// A pool whose thread has freed many small blocks in random order.
class WithCached {
 public:
  static constexpr uint64_t kSize = 64 * kKiB;

  explicit WithCached(uint64_t size = kSize, size_t blocks = size_from("ATTACK_BLOCKS", 200'000) / 2)
      : pool_(sim_config(kDevice)), blocks_(blocks) {
    for (gpupool_ptr_t& block : blocks_) block = pool_.malloc(size, 11);
    std::shuffle(blocks_.begin(), blocks_.end(), std::mt19937(1));
  }
  /// All but one in so many.
  void free_all_but(size_t part) {
    std::vector<gpupool_ptr_t> live;
    for (size_t i = 0; i < blocks_.size(); ++i) {
      if (part != 0 && i % part == 0)
        live.push_back(blocks_[i]);
      else
        pool_.free(blocks_[i], 11);
    }
    blocks_ = std::move(live);
  }
  /// Blocks that a malloc turns into holes.
  uint64_t drained_by(uint64_t size, gpupool_stream_t stream) {
    const uint64_t before = cached();
    mallocs_.push_back(pool_.malloc(size, stream));
    return before - std::min(before, cached());
  }
  /// The same. It creates no memory, which there is.
  uint64_t drained_without_growth_by(uint64_t size, gpupool_stream_t stream) {
    const uint64_t reserved = pool_.reserved();
    const uint64_t drained = drained_by(size, stream);
    EXPECT_EQ(pool_.reserved(), reserved);
    return drained;
  }
  /// Takes long among many small holes.
  void expect_valid() { EXPECT_TRUE(ok(gpupool_validate(pool_))); }
  void end() {
    free_all_but(0);
    for (const gpupool_ptr_t block : mallocs_) pool_.free(block, 11);
    pool_.empty();
    EXPECT_EQ(pool_.reserved(), 0u);
    expect_valid();
  }
  PoolUnderTest& pool() { return pool_; }

 private:
  uint64_t cached() {
    const auto blocks = pool_.snapshot().blocks;
    return static_cast<uint64_t>(std::count_if(blocks.begin(), blocks.end(), [](const gpupool_block_t& each) {
      return each.state == GPUPOOL_BLOCK_CACHED;
    }));
  }

  PoolUnderTest pool_;
  std::vector<gpupool_ptr_t> blocks_;
  std::vector<gpupool_ptr_t> mallocs_;
};

// Of what a thread has freed, one malloc merges what it needs, with a chunk more than that, and not all.
TEST_F(Many, CachedBlocksAreDrainedByTheChunk) {
  WithCached some;
  some.free_all_but(0);
  for (int i = 0; i < 5; ++i)
    EXPECT_LE(some.drained_without_growth_by(64 * kMiB, 11), (64 + 16) * kMiB / WithCached::kSize);
  some.expect_valid();
  some.end();
}
TEST_F(Many, CachedBlocksBesideLiveOnesAreDrainedByTheChunk) {
  WithCached some;
  some.free_all_but(500);
  EXPECT_LE(some.drained_without_growth_by(64 * kMiB, 11), 64 + (64 + 16) * kMiB / WithCached::kSize);
  some.expect_valid();
  some.end();
}
// A malloc of the same heap drains more of them first, and lets the rest serve hits.
TEST_F(Many, CachedBlocksMakeRoomForALargerOne) {
  WithCached some(kKiB);
  some.free_all_but(0);
  for (int i = 0; i < 3; ++i)
    EXPECT_LE(some.drained_without_growth_by(kMiB, 11), kMostDrained + 4 * kMiB / kKiB);
  some.end();
}
// A little more memory serves a malloc sooner than all that was freed. It stays little.
TEST_F(Many, CachedBlocksBetweenLiveOnesAreNotAllDrainedAtOnce) {
  WithCached small(WithCached::kSize, 30'000);
  small.free_all_but(10);
  EXPECT_LE(small.drained_by(64 * kMiB, 11), 2 * kMostDrained);
  small.expect_valid();
  small.end();
  WithCached large(2 * kMiB, 30'000);
  large.free_all_but(10);
  const uint64_t before = large.pool().reserved();
  EXPECT_LE(large.drained_by(64 * kMiB, 11), 2 * kMostDrained);
  for (int i = 0; i < 40; ++i) (void)large.drained_by(64 * kMiB, 11);
  EXPECT_LE(large.pool().reserved(), before + before / 16);
  large.expect_valid();
  large.end();
}
TEST_F(Many, CachedBlocksAreAllDrainedForAMallocThatNeedsThem) {
  WithCached all;
  all.free_all_but(0);
  EXPECT_LE(all.drained_without_growth_by(64 * kMiB, 11), (64 + 16) * kMiB / WithCached::kSize);
  all.pool().set_limit(all.pool().reserved());
  (void)all.drained_without_growth_by(all.pool().reserved() - 80 * kMiB, 11);
  all.expect_valid();
  all.end();
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
  expect_like_in_turn([] { return cost_among_holes(2'000, 64 * 512, 512, 2000); },
                      [] { return cost_among_holes(size_from("ATTACK_HOLES", 20'000), 64 * 512, 512, 2000); },
                      3, 6'000, "a malloc among small holes");
}
TEST_F(Many, LargeHolesThatAreTooSmall) {
  expect_like_in_turn([] { return cost_among_holes(400, 2 * kMiB, 512, 400); },
                      [] { return cost_among_holes(10'000, 2 * kMiB, 512, 400); }, 3, 6'000,
                      "a malloc among large holes");
}

}  // namespace
}  // namespace attack
