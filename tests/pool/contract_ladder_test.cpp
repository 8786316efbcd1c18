// SPDX-License-Identifier: Apache-2.0
// The contract of running out: what is tried before a malloc fails, and what is said then.
#include <atomic>
#include <functional>
#include <thread>

#include "pool/contract.hpp"

namespace pool_test {
namespace {

/// Notes how a handler was asked, and answers as it is told.
struct Handler {
  struct Call {
    gpupool_t* pool;
    uint64_t size;
    uint32_t attempt;
  };
  std::vector<Call> calls;
  std::function<bool(const Call&)> answer;

  static int32_t ask(void* user, gpupool_t* pool, uint64_t size, uint32_t attempt) {
    auto& self = *static_cast<Handler*>(user);
    self.calls.push_back({pool, size, attempt});
    return self.answer(self.calls.back()) ? 7 : 0;
  }
};

class Ladder : public Contract {
 protected:
  static constexpr uint64_t kLimit = 64 * kMiB;

  static void set_handler(PoolUnderTest& pool, Handler& handler) {
    EXPECT_TRUE(ok(gpupool_set_oom_handler(pool, Handler::ask, &handler)));
  }
};
INSTANTIATE_TEST_SUITE_P(On, Ladder, testing::ValuesIn(all_variants()), name_of);

TEST_P(Ladder, AsksTheHandlerWhichMayFreeBlocks) {
  PoolUnderTest pool(config_with_limit(kLimit));
  const gpupool_ptr_t live = pool.malloc(48 * kMiB);
  Handler handler;
  handler.answer = [&](const Handler::Call&) {
    pool.free(live);
    return true;
  };
  set_handler(pool, handler);
  const gpupool_ptr_t block = pool.malloc(32 * kMiB);
  ASSERT_EQ(handler.calls.size(), 1u);
  EXPECT_EQ(handler.calls[0].pool, static_cast<gpupool_t*>(pool));
  EXPECT_EQ(handler.calls[0].size, 32 * kMiB);
  EXPECT_EQ(handler.calls[0].attempt, 1u);
  const gpupool_stats_t stats = pool.stats();
  EXPECT_EQ(stats.oom_handler_calls, 1u);
  EXPECT_EQ(stats.retries, 1u);
  EXPECT_EQ(stats.failed_mallocs, 0u);
  pool.free(block);
}

TEST_P(Ladder, AHandlerMayDestroyItsPool) {
  for (const bool has_block : {false, true}) {
    for (const bool asks_again : {false, true}) {
      PoolUnderTest pool(config_with_limit(kLimit));
      const gpupool_ptr_t live = has_block ? pool.malloc(kMiB) : 0;
      pool.free(pool.malloc(40 * kMiB));
      Handler handler;
      handler.answer = [&](const Handler::Call& call) {
        EXPECT_TRUE(ok(gpupool_destroy(call.pool)));
        EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_destroy(call.pool)));
        PoolUnderTest other(config());  // which looks for pools that have yet to end
        other.free(other.malloc(kMiB));
        return asks_again;
      };
      set_handler(pool, handler);
      gpupool_t* const handle = pool.give_up();
      gpupool_ptr_t block = 1;
      EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_malloc(handle, 2 * kLimit, 0, &block)));
      EXPECT_NE(last_message().find("its out-of-memory handler"), std::string::npos) << last_message();
      EXPECT_EQ(block, 0u);
      EXPECT_EQ(handler.calls.size(), 1u);
      if (has_block) {
        EXPECT_TRUE(ok(gpupool_free(handle, live, 0)));
      }
      if (variant().source != Source::pool) {
        expect_all_given_back();
      }
      EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_free(handle, live + 512, 0)));
    }
  }
}

TEST_P(Ladder, AMallocInAHandlerAsksOtherPoolsHandlersOnly) {
  PoolUnderTest pool(config_with_limit(kLimit));
  PoolUnderTest other(config_with_limit(kLimit));
  Handler handler;
  Handler others;
  handler.answer = [&](const Handler::Call&) {
    EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, other.try_malloc(2 * kLimit)));
    return false;
  };
  others.answer = [&](const Handler::Call&) {
    EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, pool.try_malloc(2 * kLimit))) << "and does not ask again";
    return false;
  };
  set_handler(pool, handler);
  set_handler(other, others);
  for (size_t round = 1; round <= 2; ++round) {
    EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, pool.try_malloc(2 * kLimit)));
    EXPECT_EQ(handler.calls.size(), round);
    EXPECT_EQ(others.calls.size(), round);
  }
}

TEST_P(Ladder, AsksTheHandlerAgainUntilItGivesUp) {
  PoolUnderTest pool(config_with_limit(kLimit));
  Handler handler;
  handler.answer = [](const Handler::Call& call) { return call.attempt < 3; };
  set_handler(pool, handler);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, pool.try_malloc(2 * kLimit)));
  ASSERT_EQ(handler.calls.size(), 3u);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(handler.calls[i].attempt, i + 1);
  EXPECT_EQ(pool.stats().oom_handler_calls, 3u);
  EXPECT_EQ(pool.stats().failed_mallocs, 1u);

  EXPECT_TRUE(ok(gpupool_set_oom_handler(pool, nullptr, nullptr)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, pool.try_malloc(2 * kLimit)));
  EXPECT_EQ(handler.calls.size(), 3u);
}

TEST_P(Ladder, LetsTheHandlerCallAnything) {
  PoolUnderTest pool(config_with_limit(kLimit));
  gpupool_config_t other_config = config();
  gpupool_t* other = nullptr;
  ASSERT_TRUE(ok(gpupool_create(&other_config, &other)));
  const gpupool_ptr_t block = pool.malloc(48 * kMiB);
  Handler handler;
  handler.answer = [&](const Handler::Call&) {
    EXPECT_EQ(pool.info(block).requested_bytes, 48 * kMiB);
    EXPECT_FALSE(pool.snapshot().segments.empty());
    EXPECT_FALSE(pool.report().empty());
    pool.validate();
    pool.empty();
    pool.free(pool.malloc(1000));
    EXPECT_TRUE(ok(gpupool_destroy(other)));
    // A malloc in here that fails must not hide the outer one's report.
    EXPECT_TRUE(ok(gpupool_set_oom_handler(pool, nullptr, nullptr)));
    EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, pool.try_malloc(3 * kLimit)));
    pool.set_limit(2 * kLimit);
    return true;
  };
  set_handler(pool, handler);
  const gpupool_ptr_t second = pool.malloc(48 * kMiB);
  EXPECT_EQ(handler.calls.size(), 1u);
  pool.free(block);
  pool.free(second);
}

TEST_P(Ladder, EndsInAReport) {
  PoolUnderTest pool(config_with_limit(kLimit));
  const gpupool_ptr_t live = pool.malloc(40 * kMiB);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, pool.try_malloc(30 * kMiB)));
  const std::string message = last_message();
  for (const char* part : {"31457280", "limit", "64.00 MiB", "40.00 MiB in 1 live blocks", "cached",
                           "largest free range", "wait for streams"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << " is not in: " << message;
  }
  const std::string report = pool.report();
  EXPECT_NE(message.find(report.substr(report.find("This pool"))), std::string::npos) << report;
  // A sentence of what and how much, and a fact a line below it.
  EXPECT_EQ(message.find("malloc of 31457280 bytes (30.00 MiB) failed: over the pool's limit of 64.00 MiB\n"),
            0u)
      << message;
  EXPECT_LT(message.size() + 1, sizeof gpupool_error_t::message);
  size_t begin = 0;
  const size_t holders =
      std::min(message.find("Most is held by:"), message.size());  // whose names are others'
  for (size_t end = 0; begin < holders; begin = end + 1) {
    end = std::min(message.find('\n', begin), message.size());
    EXPECT_LE(end - begin, 120u) << message.substr(begin, end - begin);
  }
  char cut[10] = {};
  size_t length = 0;
  EXPECT_TRUE(ok(gpupool_report(pool, cut, sizeof cut, &length)));
  EXPECT_EQ(std::string(cut), report.substr(0, 9));
  EXPECT_EQ(length, report.size());
  pool.free(live);
}

// A malloc that failed has changed nothing but the counts of failures: what could be tried did no harm.
TEST_P(Ladder, LeavesTheRestAlone) {
  PoolUnderTest pool(config_with_limit(kLimit));
  const gpupool_ptr_t live = pool.malloc(40 * kMiB);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, pool.try_malloc(30 * kMiB)));
    pool.validate();
  }
  const gpupool_stats_t stats = pool.stats();
  EXPECT_EQ(stats.all.allocated_blocks.total_allocated, 1u);
  EXPECT_EQ(stats.all.allocated_bytes.peak, 40 * kMiB);
  EXPECT_LE(stats.all.reserved_bytes.peak, kLimit);
  const gpupool_ptr_t fits = pool.malloc(20 * kMiB);
  pool.free(fits);
  pool.free(live);
}

// ---- where the test can fill the device

class FullDevice : public Contract {
 protected:
  static constexpr uint64_t kSmallCapacity = 256 * kMiB;

  void SetUp() override {
    Contract::SetUp();
    if (IsSkipped()) return;
    // The rest of the device belongs to somebody else.
    gpupool_config_t others = empty_config();
    others.backend = variant().backend();
    others.mode = GPUPOOL_MODE_DRIVER;
    ASSERT_TRUE(ok(gpupool_create(&others, &others_)));
    ASSERT_TRUE(ok(gpupool_malloc(others_, device_free() - kSmallCapacity, 0, &held_)));
    ASSERT_EQ(device_free(), kSmallCapacity);
  }

  void TearDown() override {
    if (others_ != nullptr) {
      EXPECT_TRUE(ok(gpupool_free(others_, held_, 0)));
      EXPECT_TRUE(ok(gpupool_destroy(others_)));
    }
    Contract::TearDown();
  }

  gpupool_t* others_ = nullptr;
  gpupool_ptr_t held_ = 0;
};
INSTANTIATE_TEST_SUITE_P(On, FullDevice, testing::ValuesIn(variants_where([](const Variant& variant) {
                           return variant.is_controlled() && variant.is_on_device() &&
                                  variant.kind == GPUPOOL_KIND_DEVICE;
                         })),
                         name_of);

TEST_P(FullDevice, IsToldWithTheDriversNumber) {
  PoolUnderTest pool(config());
  const gpupool_ptr_t live = pool.malloc(200 * kMiB);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OUT_OF_MEMORY, pool.try_malloc(100 * kMiB)));
  EXPECT_NE(last_driver_code(), 0);
  const std::string message = last_message();
  EXPECT_NE(message.find("is held outside this pool"), std::string::npos) << message;
  EXPECT_NE(message.find("without a limit"), std::string::npos) << message;
  pool.free(live);
  pool.free(pool.malloc(220 * kMiB));
}

TEST_P(FullDevice, IsEmptiedOfOtherPoolsCaches) {
  PoolUnderTest pool(config());
  PoolUnderTest other(config());
  const gpupool_ptr_t keep = other.malloc(8 * kMiB);
  other.free(other.malloc(200 * kMiB));
  ASSERT_GE(other.reserved(), 200 * kMiB);
  const gpupool_ptr_t block = pool.malloc(150 * kMiB);
  EXPECT_LE(other.reserved(), 100 * kMiB);
  EXPECT_EQ(other.info(keep).address, keep);
  EXPECT_EQ(pool.stats().failed_mallocs, 0u);
  // A pool beneath this one has its own ladder.
  EXPECT_EQ(pool.stats().retries, variant().source == Source::pool ? 0u : 1u);
  other.free(keep);
  pool.free(block);
}

TEST_P(FullDevice, MayHaveAPoolDestroyedByTheHandler) {
  PoolUnderTest pool(config());
  gpupool_config_t other_config = config();
  gpupool_t* other = nullptr;
  ASSERT_TRUE(ok(gpupool_create(&other_config, &other)));
  gpupool_ptr_t large = 0;
  ASSERT_TRUE(ok(gpupool_malloc(other, 200 * kMiB, 0, &large)));
  Handler handler;
  handler.answer = [&](const Handler::Call&) {
    EXPECT_TRUE(ok(gpupool_free(other, large, 0)));
    EXPECT_TRUE(ok(gpupool_destroy(other)));
    // What an upstream keeps is the upstream's.
    if (upstream_pool_ != nullptr) {
      EXPECT_TRUE(ok(gpupool_empty(upstream_pool_, nullptr)));
    }
    return true;
  };
  EXPECT_TRUE(ok(gpupool_set_oom_handler(pool, Handler::ask, &handler)));
  pool.free(pool.malloc(150 * kMiB));
  EXPECT_EQ(handler.calls.size(), 1u);
}

TEST_P(FullDevice, GivesWhatIsFreeInChunksOfAnySize) {
  PoolUnderTest pool(config());
  std::vector<gpupool_ptr_t> blocks;
  for (int i = 0; i < 120; ++i) blocks.push_back(pool.malloc(2 * kMiB));
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (i % 20 != 10) pool.free(blocks[i]);
  }
  if (variant().is_vmm()) {
    pool.free(pool.malloc(200 * kMiB));
  } else {
    EXPECT_TRUE(refused(GPUPOOL_ERROR_OUT_OF_MEMORY, pool.try_malloc(300 * kMiB)));
  }
  for (size_t i = 10; i < blocks.size(); i += 20) pool.free(blocks[i]);
}

// ---- waiting for memory that streams still use

class WaitingLadder : public Contract {};
INSTANTIATE_TEST_SUITE_P(On, WaitingLadder, testing::ValuesIn(controlled_variants()), name_of);

TEST_P(WaitingLadder, WaitsForFreedBlocksBeforeFailing) {
  PoolUnderTest pool(config_with_limit(64 * kMiB));
  const gpupool_stream_t home = new_stream();
  const gpupool_stream_t other = new_stream();
  const gpupool_ptr_t shared = pool.malloc(48 * kMiB, home);
  work(other, shared, 48 * kMiB);
  pool.free(shared, other);

  // On the simulated device, waiting lets time pass. The stand-in's stream is let go once it is waited for.
  const bool is_sim = variant().machine == Machine::sim;
  const uint64_t waits = is_sim ? 0 : fake_cuda().calls("cuEventSynchronize");
  std::atomic<bool> done{false};
  std::thread releaser([&] {
    if (is_sim) return;
    while (!done && fake_cuda().calls("cuEventSynchronize") == waits) std::this_thread::yield();
    finish(other);
  });
  gpupool_ptr_t block = 0;
  EXPECT_TRUE(ok(pool.try_malloc(40 * kMiB, home, block)));
  done = true;
  releaser.join();
  const gpupool_stats_t stats = pool.stats();
  EXPECT_GT(stats.driver.host_wait.count, 0u);
  EXPECT_LE(stats.all.reserved_bytes.peak, 64 * kMiB);
  EXPECT_EQ(stats.failed_mallocs, 0u);
  pool.free(block, home);
}

// On one kind of pool, since it takes a while.
TEST(LadderOfAHandlerThatAlwaysSaysYes, Ends) {
  constexpr uint64_t kMostAttempts = 100'000;  // as the header says
  gpupool_config_t config = empty_config();
  config.backend = GPUPOOL_BACKEND_SIM;
  config.limit_bytes = 64 * kMiB;
  PoolUnderTest pool(config);
  uint64_t asked = 0;
  const gpupool_oom_fn_t yes = [](void* user, gpupool_t*, uint64_t, uint32_t) {
    return ++*static_cast<uint64_t*>(user) <= kMostAttempts ? 1 : 0;  // else the test might not end
  };
  ASSERT_TRUE(ok(gpupool_set_oom_handler(pool, yes, &asked)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, pool.try_malloc(65 * kMiB)));
  EXPECT_EQ(asked, kMostAttempts);
  // So does a wake, which asks it too.
  const gpupool_ptr_t block = pool.malloc(32 * kMiB);
  ASSERT_TRUE(ok(gpupool_sleep(pool, nullptr, nullptr)));
  ASSERT_TRUE(ok(gpupool_set_limit(pool, 16 * kMiB)));
  asked = 0;
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, gpupool_wake(pool, nullptr, nullptr)));
  EXPECT_EQ(asked, kMostAttempts);
  ASSERT_TRUE(ok(gpupool_set_limit(pool, 64 * kMiB)));
  ASSERT_TRUE(ok(gpupool_wake(pool, nullptr, nullptr)));
  pool.free(block);
}

}  // namespace
}  // namespace pool_test
