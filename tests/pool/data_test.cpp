// SPDX-License-Identifier: Apache-2.0
// No block's content is ever disturbed: random work on several streams, while chunks move beneath tight caps.
#include <algorithm>
#include <array>
#include <random>

#include "pool/contract.hpp"

namespace pool_test {
namespace {

class Data : public Contract {
 protected:
  static constexpr uint64_t kSample = 64;

  struct Block {
    gpupool_ptr_t address;
    uint64_t size;
    gpupool_stream_t stream;
    uint8_t value;
  };

  /// What was read from a block, when its stream has come to it.
  struct Reading {
    std::vector<uint8_t> bytes;
    uint8_t value;
    uint64_t size;
  };

  void SetUp() override {
    Contract::SetUp();
    if (IsSkipped()) return;
    for (gpupool_stream_t& stream : streams_) stream = new_stream();
  }

  uint64_t random(uint64_t below) { return std::uniform_int_distribution<uint64_t>(0, below - 1)(random_); }

  /// Small ones mostly, and a few of several chunks.
  uint64_t random_size() {
    switch (random(4)) {
      case 0: return 1 + random(4 * kKiB);
      case 1: return 1 + random(kMiB);
      case 2: return kMiB + random(4 * kMiB);
      default: return 1 + random(12 * kMiB);
    }
  }

  void write(PoolUnderTest& pool, Block& block) {
    block.value = static_cast<uint8_t>(1 + next_value_++ % 251);
    EXPECT_TRUE(ok(gpupool_fill(pool, block.address, block.value, block.size, block.stream)));
  }

  /// Queues reading samples of a block: its ends, and both sides of every granule's border.
  void read(PoolUnderTest& pool, const Block& block, gpupool_stream_t stream) {
    std::vector<uint64_t> offsets = {0, block.size - std::min(block.size, kSample)};
    const uint64_t first_border = (block.address / kGranule + 1) * kGranule - block.address;
    for (uint64_t border = first_border; border + kSample < block.size; border += kGranule) {
      offsets.push_back(border - std::min(border, kSample / 2));
    }
    const uint64_t length = std::min(block.size, kSample);
    readings_.push_back({std::vector<uint8_t>(offsets.size() * length), block.value, block.size});
    auto host = reinterpret_cast<uintptr_t>(readings_.back().bytes.data());
    for (const uint64_t offset : offsets) {
      EXPECT_TRUE(ok(gpupool_copy(pool, host, block.address + offset, length, stream)));
      host += length;
    }
  }

  /// Waits for everything, and looks at what was read.
  void check(PoolUnderTest& pool) {
    for (const gpupool_stream_t stream : streams_) {
      EXPECT_TRUE(ok(gpupool_stream_synchronize(pool, stream)));
    }
    for (const Reading& reading : readings_) {
      const bool same = std::all_of(reading.bytes.begin(), reading.bytes.end(),
                                    [&](uint8_t byte) { return byte == reading.value; });
      ASSERT_TRUE(same) << "a block of " << reading.size << " bytes of " << int{reading.value};
    }
    readings_.clear();
  }

  /// Other streams may use a block when its own has passed.
  void read_elsewhere(PoolUnderTest& pool, Block& block, gpupool_stream_t other) {
    EXPECT_TRUE(ok(gpupool_stream_synchronize(pool, block.stream)));
    read(pool, block, other);
    if (random(2) == 0) {
      pool.record_stream(block.address, other);
    } else {
      free_on_ = random(2) == 0 ? other : kUnknownStream;
    }
  }

  void free(PoolUnderTest& pool, Block& block) {
    read(pool, block, block.stream);
    free_on_ = block.stream;
    if (random(4) == 0) read_elsewhere(pool, block, streams_[random(streams_.size())]);
    pool.free(block.address, free_on_);
  }

  /// Makes streams busy for a while, where that can be told to them.
  void delay(gpupool_stream_t stream) {
    if (variant().machine == Machine::sim) {
      EXPECT_TRUE(ok(gpupool_sim_work(kDevice, stream, 0, 0, 1 + random(300'000))));
    }
  }

  void run(PoolUnderTest& pool, uint64_t most_live, int operations);

  std::mt19937_64 random_{20240611};
  std::array<gpupool_stream_t, 3> streams_{};
  std::vector<Block> live_;
  std::vector<Reading> readings_;
  uint64_t next_value_ = 0;
  uint64_t live_bytes_ = 0;
  gpupool_stream_t free_on_ = 0;
};

/// Random mallocs and frees with about `most_live` bytes live; the cap decides how chunks must move for that.
void Data::run(PoolUnderTest& pool, uint64_t most_live, int operations) {
  for (int i = 0; i < operations; ++i) {
    Block block{0, random_size(), streams_[random(streams_.size())], 0};
    while (live_bytes_ + block.size > most_live) {
      const size_t chosen = random(live_.size());
      free(pool, live_[chosen]);
      live_bytes_ -= live_[chosen].size;
      live_[chosen] = live_.back();
      live_.pop_back();
    }
    delay(block.stream);
    ASSERT_TRUE(ok(pool.try_malloc(block.size, block.stream, block.address)));
    write(pool, block);
    live_.push_back(block);
    live_bytes_ += block.size;
    if (random(8) == 0) write(pool, live_[random(live_.size())]);
    if (random(100) == 0) pool.trim(most_live);
    if (i % 64 == 63) check(pool);
    if (i % 64 == 63) pool.validate();
    if (HasFatalFailure()) return;
  }
  for (Block& block : live_) free(pool, block);
  live_.clear();
  live_bytes_ = 0;
  check(pool);
  pool.synchronize();
  EXPECT_EQ(pool.active(), 0u);
}

INSTANTIATE_TEST_SUITE_P(On, Data, testing::ValuesIn(variants_where([](const Variant& variant) {
                           return variant.takes_work() && variant.kind == GPUPOOL_KIND_DEVICE;
                         })),
                         name_of);

TEST_P(Data, IsUndisturbedWithRoom) {
  PoolUnderTest pool(config());
  run(pool, 64 * kMiB, 600);
}

TEST_P(Data, IsUndisturbedUnderATightCap) {
  // Segments cannot be moved: they need room for what they waste.
  PoolUnderTest pool(config_with_limit(variant().is_vmm() ? 96 * kMiB : 512 * kMiB));
  run(pool, 64 * kMiB, 1000);
  if (variant().is_vmm()) {
    EXPECT_GT(pool.stats().steals, 0u);
    EXPECT_GT(pool.stats().stream_steals, 0u);
    EXPECT_LE(pool.stats().all.reserved_bytes.peak, 96 * kMiB);
  }
}

// What a chunk held under another address must not show through, nor be overwritten through an old one.
TEST_P(Data, IsUndisturbedByNeighboursThatMove) {
  constexpr uint64_t kBlock = 8 * kMiB;
  constexpr uint64_t kPinned = 20 * kKiB;
  PoolUnderTest pool(config_with_limit(variant().is_vmm() ? 80 * kMiB : 512 * kMiB));
  std::vector<Block> pinned;
  for (uint64_t round = 0; round < 12; ++round) {
    std::vector<Block> blocks;
    for (uint64_t i = 0; i < 6; ++i) {
      const gpupool_stream_t stream = streams_[(i + round) % streams_.size()];
      blocks.push_back({pool.malloc(kBlock + i * kMiB / 4, stream), kBlock + i * kMiB / 4, stream, 0});
      write(pool, blocks.back());
      if (i % 3 == round % 3 && pinned.size() < 24) {
        pinned.push_back({pool.malloc(kPinned, stream), kPinned, stream, 0});
        write(pool, pinned.back());
      }
    }
    for (Block& block : blocks) free(pool, block);
    for (Block& block : pinned) read(pool, block, block.stream);
    check(pool);
    if (HasFatalFailure()) return;
  }
  for (Block& block : pinned) free(pool, block);
  check(pool);
}

// The host sees blocks of the simulated device, and of the stand-in, through the pointers themselves.
TEST_P(Data, CanBeReadThroughThePointer) {
  if (!variant().is_controlled()) GTEST_SKIP() << "a GPU's memory is not the host's";
  PoolUnderTest pool(config_with_limit(variant().is_vmm() ? 24 * kMiB : 0));
  for (int round = 0; round < 4; ++round) {
    const gpupool_stream_t stream = streams_[static_cast<size_t>(round) % streams_.size()];
    const gpupool_ptr_t block = pool.malloc(20 * kMiB + 4, stream);
    auto* bytes = reinterpret_cast<uint8_t*>(block);
    std::memset(bytes, 0x50 + round, 20 * kMiB + 4);
    EXPECT_TRUE(ok(gpupool_fill(pool, block + kMiB, 0xaa, 100, stream)));
    EXPECT_TRUE(ok(gpupool_stream_synchronize(pool, stream)));
    EXPECT_EQ(bytes[kMiB - 1], 0x50 + round);
    EXPECT_EQ(bytes[kMiB], 0xaa);
    EXPECT_EQ(bytes[kMiB + 99], 0xaa);
    EXPECT_EQ(bytes[kMiB + 100], 0x50 + round);
    EXPECT_EQ(bytes[20 * kMiB + 3], 0x50 + round);
    pool.free(block, stream);
  }
}

}  // namespace
}  // namespace pool_test
