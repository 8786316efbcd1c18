// SPDX-License-Identifier: Apache-2.0
// Looks of debug modes: many in one call, and never too late.
#include <gpupool/gpupool.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "fake_cuda/fake_cuda.hpp"
#include "pool/pool_under_test.hpp"
#include "pool/variants.hpp"

namespace {

using pool_test::kKiB;
using pool_test::kMiB;
using pool_test::ok;
using pool_test::PoolUnderTest;

gpupool_config_t simulated(uint64_t limit = 0) {
  gpupool_config_t config = pool_test::empty_config();
  config.backend = GPUPOOL_BACKEND_SIM;
  config.limit_bytes = limit;
  return config;
}

uint64_t findings(gpupool_t* pool, std::string* words = nullptr) {
  std::string text(8192, '\0');
  uint64_t count = 0;
  EXPECT_TRUE(ok(gpupool_check(pool, &count, text.data(), text.size())));
  if (words != nullptr) *words = text.c_str();
  return count;
}

std::string fault_words() {
  std::string text(1024, '\0');
  uint64_t count = 0;
  EXPECT_TRUE(ok(gpupool_sim_faults(0, &count, text.data(), text.size())));
  return count == 0 ? "" : text.c_str();
}

uint64_t queued(gpupool_t* pool) {
  gpupool_stats_t stats{};
  stats.struct_size = sizeof stats;
  EXPECT_TRUE(ok(gpupool_stats(pool, &stats)));
  return stats.copy.count;
}

class Looks : public testing::Test {
 protected:
  void SetUp() override {
    pool_test::configure_device(0, 1);
    ASSERT_TRUE(ok(gpupool_set_debug("canary")));
  }
  void TearDown() override { ASSERT_TRUE(ok(gpupool_set_debug(""))); }

  static void write(gpupool_t* pool, gpupool_ptr_t at, uint64_t size, gpupool_stream_t stream) {
    EXPECT_TRUE(ok(gpupool_fill(pool, at, 0, size, stream)));
  }

  /// A new stream, whose only block was damaged and freed.
  static gpupool_stream_t stream_with_damage(PoolUnderTest& pool) {
    gpupool_stream_t stream = 0;
    EXPECT_TRUE(ok(gpupool_stream_create(pool, &stream)));
    const gpupool_ptr_t block = pool.malloc(kMiB, stream);
    write(pool, block, kMiB + 1, stream);
    pool.free(block, stream);
    return stream;
  }
};

TEST_F(Looks, OneCallOfTheDriverForEachMallocAndForThirtyFrees) {
  PoolUnderTest pool(simulated());
  const uint64_t before = queued(pool);
  for (int i = 0; i < 300; ++i) pool.free(pool.malloc(kMiB));
  EXPECT_EQ(queued(pool) - before, 300U + 10U);
}

TEST_F(Looks, BlocksWaitForThemInASmallPartOfTheMemory) {
  PoolUnderTest pool(simulated());
  const gpupool_ptr_t most = pool.malloc(12 * pool_test::kGiB);
  const uint64_t reserved = pool.reserved();
  for (int i = 0; i < 100; ++i) pool.free(pool.malloc(40 * kMiB));
  EXPECT_LE(pool.reserved() - reserved, (12 * pool_test::kGiB) / 64 + 100 * kMiB);
  pool.free(most);
  uint64_t released = 0;
  ASSERT_TRUE(ok(gpupool_empty(pool, &released)));
  EXPECT_EQ(pool.reserved(), 0U);
}

TEST_F(Looks, ManyFreesTakeAFewCalls) {
  PoolUnderTest pool(simulated());
  std::vector<gpupool_ptr_t> blocks(100);
  for (gpupool_ptr_t& block : blocks) block = pool.malloc(10 * kKiB);
  const uint64_t before = queued(pool);
  for (const gpupool_ptr_t block : blocks) pool.free(block);
  EXPECT_EQ(queued(pool) - before, 3U);
  EXPECT_EQ(findings(pool), 0U);
  EXPECT_EQ(queued(pool) - before, 4U);
}

TEST_F(Looks, DamageIsFoundBeforeAnotherStreamGetsTheMemory) {
  testing::internal::CaptureStderr();
  PoolUnderTest pool(simulated(16 * kMiB));
  gpupool_stream_t other = 0;
  ASSERT_TRUE(ok(gpupool_stream_create(pool, &other)));
  for (int i = 0; i < 50; ++i) {
    const gpupool_ptr_t block = pool.malloc(9 * kMiB);
    write(pool, block, 9 * kMiB + (i % 2), 0);
    pool.free(block);
    // All of the pool's memory: what the first stream freed moves over, with or without a wait.
    const gpupool_ptr_t moved = pool.malloc(9 * kMiB, other);
    write(pool, moved, 9 * kMiB, other);
    pool.free(moved, other);
  }
  EXPECT_EQ(findings(pool), 25U);
  EXPECT_EQ(fault_words(), "");
  testing::internal::GetCapturedStderr();
  ASSERT_TRUE(ok(gpupool_stream_destroy(pool, other)));
}

TEST_F(Looks, AMallocEndsTheWaitRatherThanFail) {
  PoolUnderTest pool(simulated(64 * kMiB));
  const gpupool_ptr_t block = pool.malloc(40 * kMiB);
  ASSERT_TRUE(ok(gpupool_sim_work(0, 0, block, 40 * kMiB, 1'000'000'000)));  // whoever waits, waits for this
  pool.free(block);
  const uint64_t waits = pool.stats().driver.host_wait.count;
  pool.free(pool.malloc(40 * kMiB));
  EXPECT_EQ(pool.stats().driver.host_wait.count, waits);
  EXPECT_EQ(findings(pool), 0U);
}

TEST_F(Looks, AreDoneBeforeTheStreamIsReleased) {
  PoolUnderTest pool(simulated());
  const gpupool_stream_t stream = stream_with_damage(pool);
  ASSERT_TRUE(ok(gpupool_stream_destroy(pool, stream)));
  testing::internal::CaptureStderr();
  EXPECT_EQ(findings(pool), 1U);
  testing::internal::GetCapturedStderr();
}

TEST_F(Looks, AStreamThatIsNotReleasedKeepsThem) {
  PoolUnderTest pool(simulated());
  const gpupool_stream_t stream = stream_with_damage(pool);
  ASSERT_TRUE(ok(gpupool_sim_capture(0, stream, 1)));
  EXPECT_TRUE(pool_test::refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_release_stream(pool, stream)));
  ASSERT_TRUE(ok(gpupool_sim_capture(0, stream, 0)));
  testing::internal::CaptureStderr();
  EXPECT_EQ(findings(pool), 1U);
  testing::internal::GetCapturedStderr();
  ASSERT_TRUE(ok(gpupool_stream_destroy(pool, stream)));
}

TEST_F(Looks, ACaptureThatGetsTheMemoryRaisesNoAlarm) {
  PoolUnderTest pool(simulated());
  gpupool_stream_t stream = 0;
  ASSERT_TRUE(ok(gpupool_stream_create(pool, &stream)));
  pool.free(pool.malloc(kMiB, stream), stream);
  ASSERT_TRUE(ok(gpupool_sim_capture(0, stream, 1)));
  const gpupool_ptr_t captured = pool.malloc(2 * kMiB, stream);
  write(pool, captured, 2 * kMiB, stream);
  uint64_t capture = 0;
  ASSERT_TRUE(ok(gpupool_capture_id(pool, stream, &capture)));
  ASSERT_TRUE(ok(gpupool_sim_capture(0, stream, 0)));
  ASSERT_TRUE(ok(gpupool_sim_launch(0, capture, stream)));
  std::string words;
  EXPECT_EQ(findings(pool, &words), 0U) << words;
  EXPECT_EQ(fault_words(), "");
  pool.free(captured, stream);
  ASSERT_TRUE(ok(gpupool_stream_synchronize(pool, stream)));
  ASSERT_TRUE(ok(gpupool_stream_destroy(pool, stream)));
}

TEST_F(Looks, DamageWithoutAPlaceIsCounted) {
  PoolUnderTest pool(simulated());
  constexpr uint64_t kBlocks = 1100;
  std::vector<gpupool_ptr_t> blocks(kBlocks);
  for (gpupool_ptr_t& block : blocks) block = pool.malloc(512);
  for (const gpupool_ptr_t block : blocks) write(pool, block, 513, 0);
  testing::internal::CaptureStderr();
  EXPECT_EQ(findings(pool), kBlocks);
  testing::internal::GetCapturedStderr();
  for (const gpupool_ptr_t block : blocks) pool.free(block);
}

TEST_F(Looks, AreLeftOutWhereTheDriverRefusesThem) {
  PoolUnderTest pool(simulated());
  for (int i = 0; i < 20; ++i) pool.free(pool.malloc(kMiB));
  const gpupool_ptr_t block = pool.malloc(kMiB);
  ASSERT_TRUE(ok(gpupool_sim_script(0, "copy:*")));
  for (int i = 0; i < 20; ++i) pool.free(pool.malloc(2 * kMiB));
  pool.free(block);
  ASSERT_TRUE(ok(gpupool_sim_script(0, "")));
  std::string words;
  EXPECT_EQ(findings(pool, &words), 0U) << words;
  EXPECT_NE(words.find("were left out"), std::string::npos) << words;
  EXPECT_EQ(fault_words(), "");
}

/// A program whose blocks move between streams for want of memory, with and without bugs.
class Program {
 public:
  Program(gpupool_t* pool, uint32_t seed, bool has_bugs) : pool_(pool), random_(seed), has_bugs_(has_bugs) {
    for (gpupool_stream_t& stream : streams_) EXPECT_TRUE(ok(gpupool_stream_create(pool_, &stream)));
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) step();
    while (!blocks_.empty()) give();
    // Settles what waits for other streams: nothing is looked at on a stream that is gone.
    (void)findings(pool_);
    for (const gpupool_stream_t stream : streams_) EXPECT_TRUE(ok(gpupool_stream_destroy(pool_, stream)));
  }
  uint64_t bugs() const { return bugs_; }

 private:
  struct Block {
    gpupool_ptr_t address;
    uint64_t size;
    gpupool_stream_t stream;
    bool is_damaged;
  };

  uint32_t below(uint32_t end) { return static_cast<uint32_t>(random_() % end); }
  gpupool_stream_t any_stream() { return streams_[below(4)]; }

  void step() {
    const uint32_t dice = below(100);
    if (dice < 45) return take();
    if (dice < 85) return give();
    if (dice < 92) return use_elsewhere();
    if (dice < 95 && !has_bugs_) return capture();  // looks may be left out
    gpupool_status_t status = GPUPOOL_SUCCESS;
    if (dice < 97) {
      status = gpupool_empty(pool_, nullptr);
    } else if (dice < 99) {
      status = gpupool_stream_synchronize(pool_, any_stream());
    } else {
      status = gpupool_sim_advance(0, 1'000'000);
    }
    EXPECT_TRUE(ok(status));
  }

  void take() {
    const uint64_t size = below(2) != 0 ? 1 + below(200'000) : 1 + below(8 << 20);
    Block block{0, size, any_stream(), has_bugs_ && below(20) == 0};
    if (gpupool_malloc(pool_, size, block.stream, &block.address) != GPUPOOL_SUCCESS) return;
    const uint64_t beyond = block.is_damaged ? 1 + below(400) : 0;
    EXPECT_TRUE(ok(gpupool_fill(pool_, block.address, 0, size + beyond, block.stream)));
    if (block.is_damaged) ++bugs_;
    blocks_.push_back(block);
  }

  void give() {
    if (blocks_.empty()) return;
    std::swap(blocks_[below(static_cast<uint32_t>(blocks_.size()))], blocks_.back());
    EXPECT_TRUE(ok(gpupool_free(pool_, blocks_.back().address, blocks_.back().stream)));
    blocks_.pop_back();
  }

  void use_elsewhere() {
    if (blocks_.empty()) return;
    const Block& block = blocks_[below(static_cast<uint32_t>(blocks_.size()))];
    const gpupool_stream_t stream = any_stream();
    if (stream == block.stream) return;
    // Its own stream must have written it, as far as this one can tell.
    EXPECT_TRUE(ok(gpupool_stream_synchronize(pool_, block.stream)));
    EXPECT_TRUE(ok(gpupool_record_stream(pool_, block.address, stream)));
    EXPECT_TRUE(ok(gpupool_sim_work(0, stream, block.address, block.size, below(50'000))));
    EXPECT_TRUE(ok(gpupool_stream_synchronize(pool_, stream)));
  }

  void capture() {
    const gpupool_stream_t stream = any_stream();
    EXPECT_TRUE(ok(gpupool_sim_capture(0, stream, 1)));
    gpupool_ptr_t block = 0;
    if (gpupool_malloc(pool_, 1 + below(300'000), stream, &block) == GPUPOOL_SUCCESS) {
      EXPECT_TRUE(ok(gpupool_free(pool_, block, stream)));
    }
    EXPECT_TRUE(ok(gpupool_sim_capture(0, stream, 0)));
  }

  gpupool_t* pool_;
  std::mt19937 random_;
  bool has_bugs_;
  std::array<gpupool_stream_t, 4> streams_{};
  std::vector<Block> blocks_;
  uint64_t bugs_ = 0;
};

TEST_F(Looks, FindEachBugOnceAndNothingElse) {
  testing::internal::CaptureStderr();
  for (const char* modes : {"canary", "canary,poison,quarantine=4MiB"}) {
    ASSERT_TRUE(ok(gpupool_set_debug(modes)));
    for (uint32_t seed = 1; seed <= 10; ++seed) {
      SCOPED_TRACE(std::string(modes) + ", seed " + std::to_string(seed));
      PoolUnderTest pool(simulated(24 * kMiB));
      Program program(pool, seed, seed % 2 == 0);
      program.run(400);
      std::string words;
      EXPECT_EQ(findings(pool, &words), program.bugs()) << words;
      EXPECT_EQ(fault_words(), "");
    }
  }
  testing::internal::GetCapturedStderr();
}

// ---- through the CUDA backend, on the stand-in driver

TEST(LooksOnCuda, AreDoneWhenTheStreamComesToThem) {
  if (const std::string why = pool_test::why_not(pool_test::Machine::stand_in); !why.empty())
    GTEST_SKIP() << why;
  ASSERT_TRUE(ok(gpupool_set_debug("canary,poison,quarantine=4MiB")));
  const FakeCudaLive before = fake_cuda().live();
  testing::internal::CaptureStderr();
  {
    gpupool_config_t config = pool_test::empty_config();
    config.backend = GPUPOOL_BACKEND_CUDA;
    PoolUnderTest pool(config);
    EXPECT_EQ(fake_cuda().live().modules, before.modules + 1);
    gpupool_stream_t stream = 0;
    ASSERT_TRUE(ok(gpupool_stream_create(pool, &stream)));
    const gpupool_ptr_t damaged = pool.malloc(1001, stream);
    const gpupool_ptr_t right = pool.malloc(1001, stream);
    fake_cuda().hold(stream);
    EXPECT_TRUE(ok(gpupool_fill(pool, damaged, 0, 1002, stream)));
    EXPECT_TRUE(ok(gpupool_fill(pool, right, 0, 1001, stream)));
    pool.free(damaged, stream);
    pool.free(right, stream);
    for (uint64_t i = 0; i < 40; ++i) pool.free(pool.malloc(1001 + i, stream), stream);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    testing::internal::CaptureStderr();
    fake_cuda().release(stream);
    std::string words;
    EXPECT_EQ(findings(pool, &words), 1U) << words;
    EXPECT_NE(words.find("1 byte was written beyond the end of a block, from +1001 to +1001: 00; block 1 of"),
              std::string::npos)
        << words;
    ASSERT_TRUE(ok(gpupool_stream_destroy(pool, stream)));
  }
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(fake_cuda().live().modules, before.modules);
  EXPECT_EQ(fake_cuda().live().allocations, before.allocations);
  EXPECT_EQ(fake_cuda().faults(), 0U);
  ASSERT_TRUE(ok(gpupool_set_debug("")));
}

TEST(LooksOnCuda, WhateverTheDriverRefusesIsAnErrorOrLeftOut) {
  if (const std::string why = pool_test::why_not(pool_test::Machine::stand_in); !why.empty())
    GTEST_SKIP() << why;
  ASSERT_TRUE(ok(gpupool_set_debug("canary")));
  const FakeCudaLive before = fake_cuda().live();
  for (const char* function : {"cuModuleLoadData", "cuModuleGetFunction", "cuMemHostAlloc"}) {
    SCOPED_TRACE(function);
    fake_cuda().fail(function, 1, 999);
    gpupool_config_t config = pool_test::empty_config();
    config.backend = GPUPOOL_BACKEND_CUDA;
    gpupool_t* pool = nullptr;
    EXPECT_TRUE(pool_test::refused(GPUPOOL_ERROR_DRIVER, gpupool_create(&config, &pool)));
    EXPECT_NE(pool_test::last_message().find("999"), std::string::npos) << pool_test::last_message();
    fake_cuda().reset();
    EXPECT_EQ(fake_cuda().live().modules, before.modules);
    EXPECT_EQ(fake_cuda().live().allocations, before.allocations);
  }
  ASSERT_TRUE(ok(gpupool_set_debug("")));
}

}  // namespace
