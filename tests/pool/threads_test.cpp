// SPDX-License-Identifier: Apache-2.0
// Many threads in one pool, for the thread sanitizer above all. Blocks are marked through their pointers: a
// block that two holders got at a time, or that was handed on without order, shows.
#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <random>
#include <thread>

#include "pool/pool_under_test.hpp"

namespace pool_test {
namespace {

constexpr int32_t kDevice = 0;
constexpr uint64_t kCapacity = kGiB;

class Threads : public testing::TestWithParam<gpupool_mode_t> {
 protected:
  struct Block {
    gpupool_ptr_t address = 0;
    uint64_t size = 0;
  };

  void SetUp() override {
    gpupool_sim_config_t sim{};
    sim.struct_size = sizeof sim;
    sim.capacity_bytes = kCapacity;
    ASSERT_TRUE(ok(gpupool_sim_configure(kDevice, &sim)));
  }

  void TearDown() override {
    uint64_t faults = 0;
    char text[512] = {};
    EXPECT_TRUE(ok(gpupool_sim_faults(kDevice, &faults, text, sizeof text)));
    EXPECT_EQ(faults, 0u) << text;
    EXPECT_EQ(taken_from_device(), 0u);
  }

  static gpupool_config_t config(uint64_t limit = 0) {
    gpupool_config_t config = empty_config();
    config.backend = GPUPOOL_BACKEND_SIM;
    config.mode = GetParam();
    config.limit_bytes = limit;
    return config;
  }

  static uint64_t taken_from_device() {
    gpupool_device_info_t info{};
    info.struct_size = sizeof info;
    EXPECT_TRUE(ok(gpupool_device_info(GPUPOOL_BACKEND_SIM, kDevice, &info)));
    return kCapacity - info.free_bytes;
  }

  static void run_threads(size_t count, const std::function<void(size_t)>& body) {
    std::vector<std::thread> threads;
    for (size_t i = 0; i < count; ++i) threads.emplace_back(body, i);
    for (std::thread& thread : threads) thread.join();
  }

  /// Runs bodies while another thread repeats `meanwhile`.
  static void run_beside(size_t count, const std::function<void(size_t)>& body,
                         const std::function<void()>& meanwhile) {
    std::atomic<bool> done{false};
    std::thread other([&] {
      do meanwhile();
      while (!done);
    });
    run_threads(count, body);
    done = true;
    other.join();
  }

  // Marks at both ends of a block.

  static volatile uint64_t* first_word(const Block& block) {
    return reinterpret_cast<volatile uint64_t*>(block.address);
  }
  static volatile uint64_t* last_word(const Block& block) {
    return reinterpret_cast<volatile uint64_t*>(block.address + block.size - sizeof(uint64_t));
  }
  static void mark(const Block& block) {
    *first_word(block) = block.address;
    *last_word(block) = ~block.address;
  }
  static void expect_marked(const Block& block) {
    EXPECT_EQ(*first_word(block), block.address);
    EXPECT_EQ(*last_word(block), ~block.address);
  }

  /// Random mallocs and frees on a stream, with up to 12 blocks live.
  static void churn(gpupool_t* pool, gpupool_stream_t stream, uint64_t seed, int operations) {
    std::mt19937_64 random(seed);
    std::vector<Block> live;
    const auto free_one = [&] {
      std::swap(live[random() % live.size()], live.back());
      expect_marked(live.back());
      EXPECT_TRUE(ok(gpupool_free(pool, live.back().address, stream)));
      live.pop_back();
    };
    for (int i = 0; i < operations; ++i) {
      if (live.size() >= 12 || (!live.empty() && random() % 2 == 0)) {
        free_one();
        continue;
      }
      Block block{0, 16 + (random() % 6 == 0 ? random() % (4 * kMiB) : random() % 4000) / 8 * 8};
      EXPECT_TRUE(ok(gpupool_malloc(pool, block.size, stream, &block.address)));
      mark(block);
      live.push_back(block);
    }
    while (!live.empty()) free_one();
  }

  /// Everything that looks at a pool or gives memory back.
  static void disturb(PoolUnderTest& pool, uint64_t round) {
    switch (round % 8) {
      case 0: pool.stats(); break;
      case 1: {
        // Blocks come and go between the two calls of snapshot(): here, only that it works counts.
        gpupool_segment_t segments[8];
        gpupool_block_t blocks[8];
        size_t segment_count = 0;
        size_t block_count = 0;
        EXPECT_TRUE(ok(gpupool_snapshot(pool, segments, sizeof segments[0], 8, &segment_count, blocks,
                                        sizeof blocks[0], 8, &block_count)));
        break;
      }
      case 2: pool.empty(); break;
      case 3: pool.validate(); break;
      case 4: pool.trim(8 * kMiB); break;
      case 5: pool.synchronize(); break;
      case 6: EXPECT_TRUE(ok(gpupool_reset_peaks(pool))); break;
      default: EXPECT_FALSE(gpupool_report(pool, nullptr, 0, nullptr)); break;
    }
  }

  static void expect_nothing_left(PoolUnderTest& pool) {
    pool.validate();
    pool.synchronize();
    const gpupool_stat_group_t all = pool.stats().all;
    EXPECT_EQ(all.requested_bytes.current, 0u);
    EXPECT_EQ(all.active_bytes.current, 0u);
    EXPECT_EQ(all.allocated_blocks.total_allocated, all.allocated_blocks.total_freed);
    pool.empty();
    EXPECT_EQ(pool.reserved(), 0u);
    EXPECT_EQ(taken_from_device(), 0u);
  }
};
INSTANTIATE_TEST_SUITE_P(On, Threads, testing::Values(GPUPOOL_MODE_VMM, GPUPOOL_MODE_DRIVER),
                         [](const auto& each) {
                           return each.param == GPUPOOL_MODE_VMM ? std::string("vmm") : std::string("driver");
                         });

TEST_P(Threads, OnStreamsOfTheirOwn) {
  PoolUnderTest pool(config());
  uint64_t round = 0;
  run_beside(
      4, [&](size_t i) { churn(pool, 100 + i, i, 400); }, [&] { disturb(pool, round++); });
  expect_nothing_left(pool);
  EXPECT_EQ(pool.stats().streams, 4u);
}

TEST_P(Threads, OnOneStream) {
  PoolUnderTest pool(config());
  uint64_t round = 0;
  run_beside(
      4, [&](size_t i) { churn(pool, 7, i, 400); }, [&] { disturb(pool, round++); });
  expect_nothing_left(pool);
  EXPECT_EQ(pool.stats().streams, 1u);
}

TEST_P(Threads, CountEveryBlockOnce) {
  PoolUnderTest pool(config());
  run_threads(4, [&](size_t i) {
    for (int n = 0; n < 500; ++n) pool.free(pool.malloc(700, 10 + i % 2), 10 + i % 2);
  });
  const gpupool_stats_t stats = pool.stats();
  EXPECT_EQ(stats.hits + stats.misses, 2000u);
  EXPECT_EQ(stats.all.allocated_blocks.total_allocated, 2000u);
  EXPECT_EQ(stats.all.requested_bytes.total_freed, 2000u * 700);
  EXPECT_LE(stats.all.allocated_blocks.peak, 4u);
  EXPECT_GE(stats.all.allocated_blocks.peak, 1u);
}

// What one thread has freed is not counted again when another one allocates.
TEST_P(Threads, TakeTurnsWithoutRaisingThePeak) {
  PoolUnderTest pool(config());
  constexpr uint64_t kSize = 8 << 20;
  constexpr int kBlocks = 16;
  const auto use_all = [&](gpupool_stream_t stream) {
    std::vector<gpupool_ptr_t> blocks;
    for (int n = 0; n < kBlocks; ++n) blocks.push_back(pool.malloc(kSize, stream));
    for (const gpupool_ptr_t block : blocks) pool.free(block, stream);
  };
  for (int turn = 0; turn < 3; ++turn) {
    use_all(0);
    run_threads(1, [&](size_t) { use_all(1); });
  }
  const gpupool_stat_t allocated = pool.stats().all.allocated_bytes;
  EXPECT_GE(allocated.peak, kBlocks * kSize);
  EXPECT_LE(allocated.peak, kBlocks * kSize + 2 * (16u << 20));
}

// Blocks are freed by a thread that never allocates, some of them for another stream.
TEST_P(Threads, FreeWhatOthersAllocated) {
  PoolUnderTest pool(config());
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::pair<Block, gpupool_stream_t>> queue;
  constexpr size_t kProducers = 3;
  constexpr uint64_t kEach = 300;
  run_threads(kProducers + 1, [&](size_t i) {
    if (i < kProducers) {
      std::mt19937_64 random(i);
      for (uint64_t n = 0; n < kEach; ++n) {
        Block block{0, 16 + random() % 20000 / 8 * 8};
        EXPECT_TRUE(ok(gpupool_malloc(pool, block.size, 10 + i, &block.address)));
        mark(block);
        if (n % 16 == 0) pool.record_stream(block.address, 50);
        const std::lock_guard lock(mutex);
        queue.emplace_back(block, 10 + i);
        changed.notify_one();
      }
      return;
    }
    for (uint64_t n = 0; n < kProducers * kEach; ++n) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return !queue.empty(); });
      const auto [block, stream] = queue.front();
      queue.pop_front();
      lock.unlock();
      expect_marked(block);
      pool.free(block.address, n % 10 == 0 ? 60 : n % 25 == 0 ? kUnknownStream : stream);
    }
  });
  expect_nothing_left(pool);
}

TEST_P(Threads, ComeAndGo) {
  PoolUnderTest pool(config());
  uint64_t settled = 0;
  for (uint64_t round = 0; round < 100; ++round) {
    run_threads(4, [&](size_t i) { churn(pool, 10 + i, round * 4 + i, 40); });
    if (round == 4) settled = pool.stats().metadata_bytes;
  }
  // What ended threads kept is kept on by new ones, not added to: in the end each cache has a lane for each
  // stream.
  EXPECT_LT(pool.stats().metadata_bytes, settled + 512 * kKiB);
  expect_nothing_left(pool);
}

TEST_P(Threads, FreeABlockOnceBetweenThem) {
  PoolUnderTest pool(config());
  constexpr size_t kBlocks = 200;
  for (const bool is_shared : {false, true}) {
    std::vector<gpupool_ptr_t> blocks;
    for (size_t i = 0; i < kBlocks; ++i) {
      blocks.push_back(pool.malloc(i % 10 == 0 ? 2 * kMiB : 600, 11));
      if (is_shared) pool.record_stream(blocks.back(), 12);
    }
    std::array<std::atomic<int>, kBlocks> freed{};
    run_threads(4, [&](size_t thread) {
      for (size_t i = 0; i < kBlocks; ++i) {
        const gpupool_status_t status = gpupool_free(pool, blocks[i], thread % 2 == 0 ? 1 : 3);
        if (status == GPUPOOL_SUCCESS) {
          ++freed[i];
        } else {
          EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, status));
        }
      }
    });
    for (const std::atomic<int>& count : freed) EXPECT_EQ(count, 1);
    expect_nothing_left(pool);
  }
}

TEST_P(Threads, NeverExceedTheLimit) {
  constexpr uint64_t kLimit = 40 * kMiB;
  PoolUnderTest pool(config(kLimit));
  std::atomic<uint64_t> succeeded{0};
  run_beside(
      8,
      [&](size_t i) {
        std::mt19937_64 random(i);
        for (int n = 0; n < 60; ++n) {
          Block block{0, 16 + random() % (12 * kMiB) / 8 * 8};
          const gpupool_status_t status = pool.try_malloc(block.size, 10 + i, block.address);
          if (status != GPUPOOL_SUCCESS) {
            EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, status));
            continue;
          }
          ++succeeded;
          mark(block);
          std::this_thread::yield();
          expect_marked(block);
          pool.free(block.address, 10 + i);
        }
      },
      [&] {
        EXPECT_LE(taken_from_device(), kLimit);
        EXPECT_LE(pool.reserved(), kLimit);
      });
  EXPECT_LE(pool.stats().all.reserved_bytes.peak, kLimit);
  EXPECT_GT(succeeded, 0u);
  if (GetParam() == GPUPOOL_MODE_VMM) {
    EXPECT_GT(pool.stats().stream_steals, 0u);
  }
  expect_nothing_left(pool);
}

// Once set_limit has succeeded, nothing is above the new limit, whoever allocates at that moment; and a
// set_limit that is refused leaves the others what they had.
TEST_P(Threads, KeepToALimitThatMoves) {
  PoolUnderTest pool(config(64 * kMiB));
  const gpupool_ptr_t live = pool.malloc(10 * kMiB);
  uint64_t round = 0;
  run_beside(
      4,
      [&](size_t i) {
        for (int n = 0; n < 150; ++n) {
          gpupool_ptr_t block = 0;
          if (pool.try_malloc(kMiB + i * kMiB, 10 + i, block) == GPUPOOL_SUCCESS) pool.free(block, 10 + i);
        }
      },
      [&] {
        const uint64_t limit = round++ % 2 == 0 ? 64 * kMiB : 24 * kMiB;
        if (gpupool_set_limit(pool, limit) == GPUPOOL_SUCCESS) {
          for (int n = 0; n < 3; ++n) {
            EXPECT_LE(pool.reserved(), limit);
            EXPECT_LE(taken_from_device(), limit);
          }
        }
        EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, gpupool_set_limit(pool, 8 * kMiB)));
      });
  pool.free(live);
  expect_nothing_left(pool);
}

TEST_P(Threads, BringTheirStreamsAndTakeThemAway) {
  PoolUnderTest pool(config(64 * kMiB));
  run_threads(4, [&](size_t i) {
    for (uint64_t n = 0; n < 12; ++n) {
      gpupool_stream_t stream = 0;
      EXPECT_TRUE(ok(gpupool_stream_create(pool, &stream)));
      churn(pool, stream, n * 4 + i, 20);
      const gpupool_ptr_t block = pool.malloc(3000, stream);
      EXPECT_TRUE(ok(gpupool_sim_work(kDevice, stream, block, 3000, 5000)));
      EXPECT_TRUE(ok(gpupool_stream_destroy(pool, stream)));
      pool.free(block, stream);
    }
  });
  EXPECT_EQ(pool.stats().streams, 0u);
  expect_nothing_left(pool);
}

// Some free in the fast way what others park at that moment.
TEST_P(Threads, OnStreamsThatAreParked) {
  PoolUnderTest pool(config(64 * kMiB));
  uint64_t round = 0;
  run_beside(
      4, [&](size_t i) { churn(pool, 10 + i % 2, i, 400); },
      [&] {
        EXPECT_TRUE(ok(gpupool_park_stream(pool, 10 + round % 2)));
        disturb(pool, round++);
      });
  expect_nothing_left(pool);
  EXPECT_EQ(pool.stats().streams, 2u);
}

TEST_P(Threads, EndADestroyedPoolBetweenThem) {
  for (int round = 0; round < 10; ++round) {
    PoolUnderTest pool(config());
    std::vector<gpupool_ptr_t> blocks;
    for (uint64_t i = 0; i < 40; ++i) blocks.push_back(pool.malloc(1000 + i * 100'000, 10 + i % 3));
    gpupool_t* handle = pool.give_up();
    EXPECT_TRUE(ok(gpupool_destroy(handle)));
    run_threads(4, [&](size_t thread) {
      for (size_t i = thread; i < blocks.size(); i += 4)
        EXPECT_TRUE(ok(gpupool_free(handle, blocks[i], 10 + i % 3)));
    });
    EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_free(handle, blocks[0], 0)));
    EXPECT_EQ(taken_from_device(), 0u);
  }
}

// Two pools on one device that is too small for both: each empties the other while both are at work.
TEST_P(Threads, InTwoPoolsThatEmptyEachOther) {
  PoolUnderTest first(config());
  PoolUnderTest second(config());
  gpupool_config_t others = empty_config();
  others.backend = GPUPOOL_BACKEND_SIM;
  others.mode = GPUPOOL_MODE_DRIVER;
  PoolUnderTest rest(others);
  const gpupool_ptr_t held = rest.malloc(kCapacity - 48 * kMiB);
  run_threads(4, [&](size_t i) {
    PoolUnderTest& pool = i % 2 == 0 ? first : second;
    for (uint64_t n = 0; n < 40; ++n) {
      gpupool_ptr_t block = 0;
      const gpupool_status_t status = pool.try_malloc(4 * kMiB + n % 5 * kMiB, 10 + i, block);
      if (status == GPUPOOL_SUCCESS) {
        pool.free(block, 10 + i);
      } else {
        EXPECT_TRUE(refused(GPUPOOL_ERROR_OUT_OF_MEMORY, status));
      }
    }
  });
  rest.free(held);
  rest.empty();
  first.empty();
  second.empty();
  expect_nothing_left(first);
  expect_nothing_left(second);
}

}  // namespace
}  // namespace pool_test
