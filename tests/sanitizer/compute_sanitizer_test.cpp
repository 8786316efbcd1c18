// SPDX-License-Identifier: Apache-2.0
// What a pool tells compute-sanitizer: the blocks that are live, to the byte, and the segments that they are
// in.
#include <gpupool/gpupool.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "fake_compute_sanitizer/fake_compute_sanitizer.hpp"
#include "fake_cuda/fake_cuda.hpp"
#include "pool/pool_under_test.hpp"

namespace {

using pool_test::kMiB;
using pool_test::last_message;
using pool_test::ok;
using pool_test::refused;

class ComputeSanitizer : public testing::Test {
 protected:
  ComputeSanitizer() {
    setenv("GPUPOOL_LIBCUDA", FAKE_CUDA_LIBRARY, 1);
    setenv("NVTX_INJECTION64_PATH", FAKE_COMPUTE_SANITIZER, 1);
    unsetenv("GPUPOOL_DEBUG");
  }

  void TearDown() override {
    if (pool_ != nullptr) {
      EXPECT_TRUE(ok(gpupool_destroy(pool_)));
    }
    EXPECT_EQ(told_memory().wrong, "");
    EXPECT_TRUE(told_memory().heaps.empty());
    EXPECT_TRUE(told_memory().regions.empty());
  }

  static gpupool_config_t config() {
    gpupool_config_t config = pool_test::empty_config();
    config.backend = GPUPOOL_BACKEND_CUDA;
    return config;
  }

  gpupool_t* pool() {
    if (pool_ == nullptr) {
      const gpupool_config_t wanted = config();
      EXPECT_TRUE(ok(gpupool_create(&wanted, &pool_)));
    }
    return pool_;
  }

  gpupool_ptr_t malloc(uint64_t size, gpupool_stream_t stream = 0) {
    gpupool_ptr_t address = 0;
    EXPECT_TRUE(ok(gpupool_malloc(pool(), size, stream, &address)));
    return address;
  }

  gpupool_t* pool_ = nullptr;
};

TEST_F(ComputeSanitizer, KnowsLiveBlocksToTheByte) {
  const gpupool_ptr_t block = malloc(1000);
  const gpupool_ptr_t large = malloc(3 * kMiB + 1);
  EXPECT_EQ(told_memory().regions, (std::map<uint64_t, uint64_t>{{block, 1000}, {large, 3 * kMiB + 1}}));
  EXPECT_TRUE(ok(gpupool_free(pool(), block, 0)));
  EXPECT_EQ(told_memory().regions, (std::map<uint64_t, uint64_t>{{large, 3 * kMiB + 1}}));
  EXPECT_TRUE(ok(gpupool_free(pool(), large, 0)));
  EXPECT_FALSE(told_memory().heaps.empty());
  EXPECT_TRUE(ok(gpupool_empty(pool(), nullptr)));
  EXPECT_TRUE(told_memory().heaps.empty());
}

TEST_F(ComputeSanitizer, KnowsWhatAModelKnows) {
  std::array<gpupool_stream_t, 3> streams{};
  for (gpupool_stream_t& stream : streams) EXPECT_TRUE(ok(gpupool_stream_create(pool(), &stream)));
  std::mt19937_64 random(1);
  std::vector<std::pair<gpupool_ptr_t, uint64_t>> live;
  std::map<uint64_t, uint64_t> expected;
  for (int step = 0; step < 4000; ++step) {
    const uint64_t dice = random() % 100;
    if (dice < 50 || live.empty()) {
      const uint64_t size = 1 + random() % (uint64_t{1} << (random() % 22));
      const gpupool_ptr_t address = malloc(size, streams[random() % 3]);
      live.emplace_back(address, size);
      expected[address] = size;
    } else if (dice < 99) {
      std::swap(live[random() % live.size()], live.back());
      EXPECT_TRUE(ok(gpupool_free(pool(), live.back().first, streams[random() % 3])));
      expected.erase(live.back().first);
      live.pop_back();
    } else {
      EXPECT_TRUE(ok(gpupool_empty(pool(), nullptr)));
    }
    ASSERT_EQ(told_memory().regions, expected) << step;
    ASSERT_EQ(told_memory().wrong, "") << step;
  }
  gpupool_stats_t stats{};
  stats.struct_size = sizeof stats;
  EXPECT_TRUE(ok(gpupool_stats(pool(), &stats)));
  uint64_t heaps = 0;
  for (const auto& [address, size] : told_memory().heaps) heaps += size;
  EXPECT_EQ(heaps, stats.all.reserved_bytes.current);
  for (const auto& [address, size] : live) EXPECT_TRUE(ok(gpupool_free(pool(), address, streams[0])));
  for (const gpupool_stream_t stream : streams) EXPECT_TRUE(ok(gpupool_stream_destroy(pool(), stream)));
}

TEST_F(ComputeSanitizer, LearnsOfAFreeOnceTheWorkBeforeItIsDone) {
  gpupool_stream_t stream = 0;
  EXPECT_TRUE(ok(gpupool_stream_create(pool(), &stream)));
  const gpupool_ptr_t block = malloc(kMiB, stream);
  const uint64_t waits = fake_cuda().calls("cuMemHostUnregister");  // waits for all work of the context
  fake_cuda().hold(stream);
  EXPECT_TRUE(ok(gpupool_fill(pool(), block, 1, kMiB, stream)));
  std::thread freeing([&] { EXPECT_TRUE(ok(gpupool_free(pool(), block, stream))); });
  while (fake_cuda().calls("cuMemHostUnregister") == waits) std::this_thread::yield();
  EXPECT_EQ(told_memory().regions.count(block), 1U);
  fake_cuda().release(stream);
  freeing.join();
  EXPECT_EQ(told_memory().regions.count(block), 0U);
  EXPECT_TRUE(ok(gpupool_stream_destroy(pool(), stream)));
}

TEST_F(ComputeSanitizer, IsNotToldIfTheEnvironmentSaysOtherwise) {
  setenv("GPUPOOL_DEBUG", "", 1);
  const gpupool_ptr_t block = malloc(1000);
  EXPECT_TRUE(told_memory().heaps.empty());
  EXPECT_TRUE(ok(gpupool_free(pool(), block, 0)));
}

TEST_F(ComputeSanitizer, RefusesWhatItWouldReport) {
  for (const char* modes : {"annotate,canary", "annotate,poison"}) {
    setenv("GPUPOOL_DEBUG", modes, 1);
    const gpupool_config_t wanted = config();
    gpupool_t* none = nullptr;
    EXPECT_TRUE(refused(GPUPOOL_ERROR_UNSUPPORTED, gpupool_create(&wanted, &none))) << modes;
  }
  setenv("GPUPOOL_DEBUG", "annotate", 1);
  gpupool_config_t wanted = config();
  wanted.mode = GPUPOOL_MODE_VMM;
  gpupool_t* none = nullptr;
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNSUPPORTED, gpupool_create(&wanted, &none)));
  EXPECT_EQ(none, nullptr);
}

TEST_F(ComputeSanitizer, LeavesPoolsOfOtherMemoryAlone) {
  gpupool_config_t wanted = config();
  wanted.kind = GPUPOOL_KIND_PINNED;
  EXPECT_TRUE(ok(gpupool_create(&wanted, &pool_)));
  const gpupool_ptr_t block = malloc(1000);
  EXPECT_TRUE(told_memory().heaps.empty());
  EXPECT_TRUE(ok(gpupool_free(pool_, block, 0)));
}

TEST_F(ComputeSanitizer, LeavesWhatAGraphUsesOpen) {
  gpupool_stream_t stream = 0;
  EXPECT_TRUE(ok(gpupool_stream_create(pool(), &stream)));
  fake_cuda().begin_capture(stream, 0);
  const gpupool_ptr_t block = malloc(1000, stream);
  EXPECT_TRUE(ok(gpupool_free(pool(), block, stream)));
  EXPECT_EQ(told_memory().regions.count(block), 1U);
  EXPECT_NE(fake_cuda().end_capture(stream), 0);
  EXPECT_TRUE(ok(gpupool_empty(pool(), nullptr)));
  EXPECT_TRUE(ok(gpupool_stream_destroy(pool(), stream)));
}

}  // namespace
