// SPDX-License-Identifier: Apache-2.0
// Long work on a pool beside threads that need its lock: they get their turn, and lists stay right.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "pool/pool_under_test.hpp"

namespace pool_test {
namespace {

class Turns : public testing::Test {
 protected:
  void SetUp() override {
    gpupool_sim_config_t sim{};
    sim.struct_size = sizeof sim;
    sim.capacity_bytes = 4 * kGiB;
    ASSERT_TRUE(ok(gpupool_sim_configure(0, &sim)));
    gpupool_config_t config = empty_config();
    config.backend = GPUPOOL_BACKEND_SIM;
    ASSERT_TRUE(ok(gpupool_create(&config, &pool_)));
    ASSERT_TRUE(ok(gpupool_malloc(pool_, 512, 0, &kept_)));
  }
  void TearDown() override {
    EXPECT_TRUE(ok(gpupool_validate(pool_)));
    EXPECT_TRUE(ok(gpupool_free(pool_, kept_, 0)));
    free_all();
    gpupool_destroy(pool_);
  }

  void fill(size_t count) {
    while (blocks_.size() < count) {
      gpupool_ptr_t address = 0;
      ASSERT_TRUE(ok(gpupool_malloc(pool_, 4096, 0, &address)));
      blocks_.push_back(address);
    }
  }
  void free_all() {
    for (const gpupool_ptr_t address : blocks_) EXPECT_TRUE(ok(gpupool_free(pool_, address, 0)));
    blocks_.clear();
  }

  /// Does the work, while another thread needs the pool's lock every now and then. How often it got it.
  size_t count_turns(const std::function<void()>& work) {
    std::atomic<size_t> turns{0};
    std::atomic<bool> done{false};
    std::thread other([&] {
      gpupool_block_t block{};
      while (!done) {
        EXPECT_TRUE(ok(gpupool_block_info(pool_, kept_, &block, sizeof block)));
        ++turns;
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    });
    while (turns == 0) std::this_thread::yield();
    const size_t before = turns;
    work();
    const size_t after = turns;
    done = true;
    other.join();
    return after - before;
  }

  /// Work that keeps the lock to its end leaves others a turn before it and one after it. The machine may
  /// stop a thread for as long as it likes, hence some tries.
  void expect_turns(const std::function<void()>& prepare, const std::function<void()>& work) {
    size_t most = 0;
    for (int i = 0; i < 10 && most < kTurns; ++i) {
      prepare();
      most = std::max(most, count_turns(work));
    }
    EXPECT_GE(most, kTurns);
  }

  static constexpr size_t kTurns = 8;
  static constexpr size_t kBlocks = kIsSanitized ? 50'000 : 200'000;
  gpupool_t* pool_ = nullptr;
  gpupool_ptr_t kept_ = 0;
  std::vector<gpupool_ptr_t> blocks_;
};

TEST_F(Turns, WhileThePoolIsEmptied) {
  const auto prepare = [this] {
    fill(kBlocks);
    free_all();
  };
  const auto empty = [this] {
    uint64_t released = 0;
    EXPECT_TRUE(ok(gpupool_empty(pool_, &released)));
    EXPECT_GE(released, (kBlocks - 1000) * 4096);
  };
  expect_turns(prepare, empty);
}

TEST_F(Turns, WhileAMallocFails) {
  const auto prepare = [this] {
    fill(kBlocks);
    free_all();
  };
  const auto fail = [this] {
    gpupool_ptr_t address = 0;
    EXPECT_EQ(gpupool_malloc(pool_, 8 * kGiB, 0, &address), GPUPOOL_ERROR_OUT_OF_MEMORY);
  };
  expect_turns(prepare, fail);
}

TEST_F(Turns, WhileBlocksThatWaitedAreSettled) {
  constexpr gpupool_stream_t kOther = 7;
  const auto prepare = [this] {
    fill(kBlocks);
    // The other stream is behind until it is waited for.
    EXPECT_TRUE(ok(gpupool_sim_work(0, kOther, 0, 0, 1'000'000)));
    for (const gpupool_ptr_t address : blocks_)
      EXPECT_TRUE(ok(gpupool_record_stream(pool_, address, kOther)));
    free_all();
  };
  const auto settle = [this] { EXPECT_TRUE(ok(gpupool_synchronize(pool_))); };
  expect_turns(prepare, settle);
}

TEST_F(Turns, WhileAStreamIsReleased) {
  constexpr gpupool_stream_t kStream = 9;
  const auto prepare = [this] {
    std::vector<gpupool_ptr_t> blocks(kBlocks);
    // Beside no other stream, all of them stay in the thread's cache.
    EXPECT_TRUE(ok(gpupool_release_stream(pool_, 0)));
    for (gpupool_ptr_t& address : blocks) EXPECT_TRUE(ok(gpupool_malloc(pool_, 4096, kStream, &address)));
    for (const gpupool_ptr_t address : blocks) EXPECT_TRUE(ok(gpupool_free(pool_, address, kStream)));
  };
  const auto release = [this] { EXPECT_TRUE(ok(gpupool_release_stream(pool_, kStream))); };
  expect_turns(prepare, release);
}

/// A list is right beside threads that allocate and free, as far as it can be: no two entries overlap, and
/// what lives all the time is in it once.
TEST_F(Turns, ListsAreRightBesideOtherThreads) {
  fill(20'000);
  std::atomic<bool> done{false};
  std::vector<std::thread> others;
  for (unsigned seed = 11; seed <= 12; ++seed) {
    others.emplace_back([&, seed] {
      std::mt19937 random(seed);
      std::vector<gpupool_ptr_t> own;
      while (!done || !own.empty()) {
        if (!done && own.size() < 500 && random() % 2 == 0) {
          gpupool_ptr_t address = 0;
          EXPECT_TRUE(ok(gpupool_malloc(pool_, 512 + random() % (256 * kKiB), seed, &address)));
          own.push_back(address);
        } else if (!own.empty()) {
          std::swap(own[random() % own.size()], own.back());
          EXPECT_TRUE(ok(gpupool_free(pool_, own.back(), seed)));
          own.pop_back();
        }
      }
    });
  }
  for (int round = 0; round < 20; ++round) {
    std::vector<gpupool_segment_t> segments(4096);
    std::vector<gpupool_block_t> blocks(40'000);
    size_t segment_count = 0;
    size_t block_count = 0;
    ASSERT_TRUE(
        ok(gpupool_snapshot(pool_, segments.data(), sizeof segments[0], segments.size(), &segment_count,
                            blocks.data(), sizeof blocks[0], blocks.size(), &block_count)));
    ASSERT_LE(segment_count, segments.size());
    ASSERT_LE(block_count, blocks.size());
    std::map<gpupool_ptr_t, gpupool_block_t> found;
    for (size_t i = 0; i < block_count; ++i) {
      if (i != 0) {
        EXPECT_LE(blocks[i - 1].address + blocks[i - 1].allocated_bytes, blocks[i].address);
      }
      found[blocks[i].address] = blocks[i];
    }
    for (size_t i = 1; i < segment_count; ++i)
      EXPECT_LE(segments[i - 1].address + segments[i - 1].size_bytes, segments[i].address);
    for (const gpupool_ptr_t address : blocks_) {
      const auto at = found.find(address);
      ASSERT_NE(at, found.end());
      EXPECT_EQ(at->second.state, GPUPOOL_BLOCK_LIVE);
      EXPECT_EQ(at->second.requested_bytes, 4096u);
    }
    uint64_t released = 0;
    if (round % 4 == 0) {
      EXPECT_TRUE(ok(gpupool_empty(pool_, &released)));
    }
  }
  done = true;
  for (std::thread& other : others) other.join();
}

}  // namespace
}  // namespace pool_test
