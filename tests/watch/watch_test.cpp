// SPDX-License-Identifier: Apache-2.0
// Samples, tags and stacks: who holds the memory, and that nobody pays for it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "core/counters.hpp"
#include "gpupool/gpupool.h"

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

/// A pool on a simulated device without data, and what the tests ask of it.
class Watch : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(gpupool_set_sampling(kMiB), GPUPOOL_SUCCESS);
    gpupool_sim_config_t sim{};
    sim.struct_size = sizeof sim;
    sim.data = 2;
    ASSERT_EQ(gpupool_sim_configure(0, &sim), GPUPOOL_SUCCESS);
    make(0);
  }

  void TearDown() override {
    EXPECT_EQ(gpupool_set_stack_fn(nullptr, nullptr), GPUPOOL_SUCCESS);
    EXPECT_EQ(gpupool_validate(pool_), GPUPOOL_SUCCESS);
    for (const gpupool_ptr_t block : blocks_) EXPECT_EQ(gpupool_free(pool_, block, 0), GPUPOOL_SUCCESS);
    EXPECT_EQ(gpupool_destroy(pool_), GPUPOOL_SUCCESS);
  }

  void make(uint64_t limit) {
    if (pool_ != nullptr) {
      ASSERT_EQ(gpupool_destroy(pool_), GPUPOOL_SUCCESS);
    }
    gpupool_config_t config;
    ASSERT_EQ(gpupool_config_init(&config, sizeof config), GPUPOOL_SUCCESS);
    config.backend = GPUPOOL_BACKEND_SIM;
    config.limit_bytes = limit;
    ASSERT_EQ(gpupool_create(&config, &pool_), GPUPOOL_SUCCESS);
  }

  gpupool_ptr_t take(uint64_t bytes) {
    gpupool_ptr_t block = 0;
    EXPECT_EQ(gpupool_malloc(pool_, bytes, 0, &block), GPUPOOL_SUCCESS);
    return block;
  }

  void hold(const char* tag, uint64_t bytes, int count) {
    EXPECT_EQ(gpupool_tag_push(tag), GPUPOOL_SUCCESS);
    for (int i = 0; i < count; ++i) blocks_.push_back(take(bytes));
    EXPECT_EQ(gpupool_tag_pop(), GPUPOOL_SUCCESS);
  }

  std::vector<gpupool_holder_t> holders() {
    size_t count = 0;
    EXPECT_EQ(gpupool_holders(pool_, nullptr, sizeof(gpupool_holder_t), 0, &count), GPUPOOL_SUCCESS);
    std::vector<gpupool_holder_t> all(count);
    EXPECT_EQ(gpupool_holders(pool_, all.data(), sizeof(gpupool_holder_t), all.size(), &count),
              GPUPOOL_SUCCESS);
    return all;
  }

  /// Estimated bytes of all holders of a tag.
  double held(const char* tag) {
    double bytes = 0;
    for (const gpupool_holder_t& holder : holders()) {
      if (std::strcmp(holder.tag, tag) == 0) bytes += static_cast<double>(holder.live_bytes);
    }
    return bytes;
  }

  gpupool_t* pool_ = nullptr;
  std::vector<gpupool_ptr_t> blocks_;
};

TEST_F(Watch, LargeHoldersAreWithinTenPerCent) {
  hold("weights", 64 * kMiB, 10);
  hold("activations", 3 * kMiB, 100);
  hold("kv cache", 256 * 1024, 800);
  EXPECT_NEAR(held("weights"), 640.0 * kMiB, 64.0 * kMiB);
  EXPECT_NEAR(held("activations"), 300.0 * kMiB, 90.0 * kMiB);
  EXPECT_NEAR(held("kv cache"), 200.0 * kMiB, 100.0 * kMiB);
  EXPECT_STREQ(holders()[0].tag, "weights");
}

TEST_F(Watch, WhatIsServedFromTheCacheIsSampledToo) {
  // Warm: from here on, all mallocs are hits.
  std::vector<gpupool_ptr_t> warm;
  for (int i = 0; i < 300; ++i) warm.push_back(take(kMiB));
  for (const gpupool_ptr_t block : warm) ASSERT_EQ(gpupool_free(pool_, block, 0), GPUPOOL_SUCCESS);
  EXPECT_TRUE(holders().empty());
  for (int round = 0; round < 20; ++round) {
    hold("hits", kMiB, 300);
    EXPECT_NEAR(held("hits"), 300.0 * kMiB, 120.0 * kMiB);
    for (const gpupool_ptr_t block : blocks_) ASSERT_EQ(gpupool_free(pool_, block, 0), GPUPOOL_SUCCESS);
    blocks_.clear();
    EXPECT_TRUE(holders().empty());
  }
  gpupool_stats_t stats{};
  stats.struct_size = sizeof stats;
  ASSERT_EQ(gpupool_stats(pool_, &stats), GPUPOOL_SUCCESS);
  EXPECT_GT(stats.hits, 20U * 300 * 8 / 10);
}

TEST_F(Watch, LongLivedBlocksAmongShortLivedOnesAreSampled) {
  // A little stays of each step, below what comes and goes.
  for (int step = 0; step < 200; ++step) {
    hold("stays", 2 * kMiB, 1);
    std::vector<gpupool_ptr_t> goes;
    for (int i = 0; i < 40; ++i) goes.push_back(take(4 * kMiB));
    for (const gpupool_ptr_t block : goes) ASSERT_EQ(gpupool_free(pool_, block, 0), GPUPOOL_SUCCESS);
  }
  EXPECT_NEAR(held("stays"), 400.0 * kMiB, 120.0 * kMiB);
}

TEST_F(Watch, ReplacingBlockByBlockKeepsTheShareOfSamples) {
  hold("first", kMiB, 400);
  for (int round = 0; round < 20; ++round) {
    EXPECT_EQ(gpupool_tag_push("later"), GPUPOOL_SUCCESS);
    for (gpupool_ptr_t& block : blocks_) {
      ASSERT_EQ(gpupool_free(pool_, block, 0), GPUPOOL_SUCCESS);
      block = take(kMiB);
    }
    EXPECT_EQ(gpupool_tag_pop(), GPUPOOL_SUCCESS);
    EXPECT_EQ(held("first"), 0);
    EXPECT_NEAR(held("later"), 400.0 * kMiB, 160.0 * kMiB);
  }
}

TEST_F(Watch, FreesByOtherThreadsAndStreamsEndSamples) {
  hold("here", 4 * kMiB, 50);
  std::thread([&] {
    for (size_t i = 0; i < blocks_.size(); ++i) {
      EXPECT_EQ(gpupool_free(pool_, blocks_[i], i % 2 == 0 ? 0 : 7), GPUPOOL_SUCCESS);
    }
  }).join();
  blocks_.clear();
  EXPECT_TRUE(holders().empty());
}

TEST_F(Watch, ARefusedFreeLeavesTheSampleThere) {
  blocks_.push_back(take(256 * kMiB));
  ASSERT_EQ(holders().size(), 1U);
  EXPECT_EQ(gpupool_free(pool_, blocks_[0], 2), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpupool_free(pool_, blocks_[0] + 512, 0), GPUPOOL_ERROR_UNKNOWN_POINTER);
  EXPECT_EQ(holders().size(), 1U);
}

TEST_F(Watch, MarksAndUsesStandBesideEachOther) {
  blocks_ = {take(256 * kMiB), take(256 * kMiB)};
  ASSERT_EQ(holders().empty(), false);
  for (const gpupool_ptr_t block : blocks_) {
    EXPECT_EQ(gpupool_set_keep(pool_, block, 1), GPUPOOL_SUCCESS);
    EXPECT_EQ(gpupool_record_stream(pool_, block, 7), GPUPOOL_SUCCESS);
    EXPECT_EQ(gpupool_set_keep(pool_, block, 0), GPUPOOL_SUCCESS);
  }
  EXPECT_EQ(held(""), 512.0 * kMiB);
  EXPECT_EQ(gpupool_validate(pool_), GPUPOOL_SUCCESS);
  for (const gpupool_ptr_t block : blocks_) EXPECT_EQ(gpupool_free(pool_, block, 0), GPUPOOL_SUCCESS);
  blocks_.clear();
  EXPECT_TRUE(holders().empty());
}

TEST_F(Watch, TheFailureSaysWho) {
  make(256 * kMiB);
  hold("kv cache", 20 * kMiB, 10);
  gpupool_ptr_t block = 0;
  ASSERT_EQ(gpupool_malloc(pool_, 100 * kMiB, 0, &block), GPUPOOL_ERROR_OVER_LIMIT);
  gpupool_error_t error{};
  error.struct_size = sizeof error;
  ASSERT_EQ(gpupool_last_error(&error), GPUPOOL_SUCCESS);
  EXPECT_NE(std::strstr(error.message, "\nMost is held by:\n  "), nullptr) << error.message;
  EXPECT_NE(std::strstr(error.message, "of \"kv cache\" from "), nullptr) << error.message;
  size_t length = 0;
  char text[4096];
  ASSERT_EQ(gpupool_report(pool_, text, sizeof text, &length), GPUPOOL_SUCCESS);
  EXPECT_NE(std::strstr(text, "of \"kv cache\""), nullptr) << text;
}

TEST_F(Watch, WithoutSamplesNothingIsSaid) {
  ASSERT_EQ(gpupool_set_sampling(0), GPUPOOL_SUCCESS);
  hold("nothing", 64 * kMiB, 10);
  EXPECT_TRUE(holders().empty());
  ASSERT_EQ(gpupool_set_sampling(kMiB), GPUPOOL_SUCCESS);
  hold("something", 64 * kMiB, 2);
  ASSERT_EQ(holders().size(), 1U);
  EXPECT_STREQ(holders()[0].tag, "something");
}

size_t say_where(void* user, char* text, size_t capacity) {
  // A callback may use the pool; what it allocates has no stack, and so does not come here again.
  auto* pool = static_cast<gpupool_t*>(user);
  gpupool_ptr_t block = 0;
  EXPECT_EQ(gpupool_malloc(pool, 512 * kMiB, 0, &block), GPUPOOL_SUCCESS);
  EXPECT_EQ(gpupool_free(pool, block, 0), GPUPOOL_SUCCESS);
  static constexpr char kText[] = "load (model.py:12)\nmain (serve.py:3)\n";
  EXPECT_GE(capacity, sizeof kText);
  std::memcpy(text, kText, sizeof kText - 1);
  return sizeof kText - 1;
}

TEST_F(Watch, TheCallersLanguageComesFirst) {
  ASSERT_EQ(gpupool_set_stack_fn(say_where, pool_), GPUPOOL_SUCCESS);
  blocks_.push_back(take(256 * kMiB));
  const auto all = holders();
  ASSERT_EQ(all.size(), 1U);
  const std::string stack = all[0].stack;
  EXPECT_EQ(stack.rfind("load (model.py:12)\nmain (serve.py:3)\n", 0), 0U) << stack;
  EXPECT_NE(stack.find("watch_tests"), std::string::npos) << stack;
}

TEST_F(Watch, TagsNestAndRefuseWhatIsWrong) {
  EXPECT_EQ(gpupool_tag_pop(), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpupool_tag_push(""), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpupool_tag_push(nullptr), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpupool_tag_push(std::string(64, 'x').c_str()), GPUPOOL_ERROR_INVALID_ARGUMENT);
  for (int depth = 0; depth < 64; ++depth) {
    ASSERT_EQ(gpupool_tag_push(depth == 63 ? "inner" : "outer"), GPUPOOL_SUCCESS);
  }
  EXPECT_EQ(gpupool_tag_push("one more"), GPUPOOL_ERROR_INVALID_ARGUMENT);
  blocks_.push_back(take(64 * kMiB));
  EXPECT_EQ(gpupool_tag_pop(), GPUPOOL_SUCCESS);
  blocks_.push_back(take(96 * kMiB));
  for (int depth = 0; depth < 63; ++depth) ASSERT_EQ(gpupool_tag_pop(), GPUPOOL_SUCCESS);
  EXPECT_EQ(gpupool_tag_pop(), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_NEAR(held("inner"), 64.0 * kMiB, kMiB);
  EXPECT_NEAR(held("outer"), 96.0 * kMiB, kMiB);
}

TEST_F(Watch, RecordingsRefuseWhatIsWrong) {
  EXPECT_EQ(gpupool_record_stop(), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpupool_record_start(nullptr, 0), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpupool_record_start("", 0), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpupool_record_start("/nonexistent/folder/file", 0), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpupool_record_start("/tmp/unused", 4), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpupool_mark(""), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpupool_mark(nullptr), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpupool_mark("without a recording"), GPUPOOL_SUCCESS);
  size_t count = 0;
  EXPECT_EQ(gpupool_holders(pool_, nullptr, sizeof(gpupool_holder_t), 1, &count),
            GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpupool_holders(pool_, nullptr, 0, 0, &count), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpupool_holders(pool_, nullptr, sizeof(gpupool_holder_t), 0, nullptr),
            GPUPOOL_ERROR_INVALID_ARGUMENT);
}

// ---- the parts by themselves

TEST(Counters, AWatchBelowChangesNoPeak) {
  using gpupool::internal::CounterShard;
  using gpupool::internal::SizeGroup;
  CounterShard shard;
  EXPECT_TRUE(shard.add(SizeGroup::small, 512, 512) || shard.mallocs() == 1);
  shard.watch_for(false, 1024);
  EXPECT_FALSE(shard.is_above_level());
  shard.count(SizeGroup::small, 1000, 1024);
  EXPECT_TRUE(shard.is_above_level());
  shard.subtract(SizeGroup::small, 1000, 1024);
  EXPECT_FALSE(shard.is_above_level());
  shard.watch_for(true, UINT64_MAX);
  // Everything is asked for, and nothing of it is a peak.
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(shard.count(SizeGroup::small, 0, 0));
    EXPECT_FALSE(shard.raise(SizeGroup::small));
  }
}

}  // namespace
