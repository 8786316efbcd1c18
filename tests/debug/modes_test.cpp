// SPDX-License-Identifier: Apache-2.0
// Debug modes apart from their findings: the mode strings, memory costs, shortages, threads, the pool's end.
#include <gpupool/gpupool.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "pool/pool_under_test.hpp"

namespace {

using pool_test::kKiB;
using pool_test::kMiB;
using pool_test::last_message;
using pool_test::ok;
using pool_test::PoolUnderTest;
using pool_test::refused;

void make_device(uint64_t capacity = 0, uint32_t data = 1) {
  gpupool_sim_config_t device{};
  device.struct_size = sizeof device;
  device.capacity_bytes = capacity;
  device.data = data;
  ASSERT_TRUE(ok(gpupool_sim_configure(0, &device)));
}

gpupool_config_t config_with(uint64_t limit = 0) {
  gpupool_config_t config = pool_test::empty_config();
  config.backend = GPUPOOL_BACKEND_SIM;
  config.limit_bytes = limit;
  return config;
}

std::string why(gpupool_ptr_t address) {
  std::string text(8192, '\0');
  size_t length = 0;
  EXPECT_TRUE(ok(gpupool_why(address, text.data(), text.size(), &length)));
  EXPECT_LT(length, text.size());
  text.resize(length);
  return text;
}

uint64_t damage(gpupool_t* pool, std::string& text) {
  text.assign(8192, '\0');
  uint64_t count = 0;
  EXPECT_TRUE(ok(gpupool_check(pool, &count, text.data(), text.size())));
  text.resize(std::strlen(text.c_str()));
  return count;
}

uint64_t faults() {
  uint64_t count = 0;
  EXPECT_TRUE(ok(gpupool_sim_faults(0, &count, nullptr, 0)));
  return count;
}

class Debug : public testing::Test {
 protected:
  void SetUp() override { make_device(); }
  void TearDown() override {
    unsetenv("GPUPOOL_DEBUG");
    EXPECT_TRUE(ok(gpupool_set_debug("")));
  }
};

TEST_F(Debug, WordsThatAreNoModesAreNamed) {
  for (const auto& [text, word] : {std::pair{"poison,fense", "fense"},
                                   {"", nullptr},
                                   {"Poison", "Poison"},
                                   {"poison,", "\"\""},
                                   {",poison", "\"\""},
                                   {"poison=1", "poison=1"},
                                   {"quarantine", "quarantine"},
                                   {"quarantine=", "quarantine="},
                                   {"quarantine=40%", "share"},
                                   {"fence=-1", "fence=-1"},
                                   {"poison ", "poison "}}) {
    if (word == nullptr) {
      EXPECT_TRUE(ok(gpupool_set_debug(text)));
      continue;
    }
    EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_set_debug(text))) << text;
    EXPECT_NE(last_message().find(word), std::string::npos) << last_message();
  }
}

TEST_F(Debug, AWrongWordInTheEnvironmentRefusesThePoolAndIsNamed) {
  ASSERT_TRUE(ok(gpupool_set_debug(nullptr)));
  setenv("GPUPOOL_DEBUG", "poisson", 1);
  const gpupool_config_t config = config_with();
  gpupool_t* pool = nullptr;
  EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_create(&config, &pool)));
  EXPECT_NE(last_message().find("GPUPOOL_DEBUG"), std::string::npos);
  EXPECT_NE(last_message().find("poisson"), std::string::npos);
  setenv("GPUPOOL_DEBUG", "poison,quarantine=1MiB", 1);
  PoolUnderTest good(config);
  const gpupool_ptr_t block = good.malloc(1000);
  EXPECT_EQ(*reinterpret_cast<uint32_t*>(block), 0x7fff7fffU);
  good.free(block);
  EXPECT_EQ(*reinterpret_cast<uint32_t*>(block), 0xfffefffeU);
}

TEST_F(Debug, PoisonNeedsADeviceThatKeepsData) {
  make_device(0, 2);
  for (const char* modes : {"poison", "canary"}) {
    ASSERT_TRUE(ok(gpupool_set_debug(modes)));
    const gpupool_config_t config = config_with();
    gpupool_t* pool = nullptr;
    EXPECT_TRUE(refused(GPUPOOL_ERROR_UNSUPPORTED, gpupool_create(&config, &pool)));
  }
  ASSERT_TRUE(ok(gpupool_set_debug("fence,guard,quarantine=1MiB")));
  PoolUnderTest pool(config_with());
  pool.free(pool.malloc(1000));
}

TEST_F(Debug, CanariesAreLookedAtWhileBlocksLiveAndToldOnce) {
  ASSERT_TRUE(ok(gpupool_set_debug("canary")));
  PoolUnderTest pool(config_with());
  ASSERT_TRUE(ok(gpupool_tag_push("grads")));
  const gpupool_ptr_t block = pool.malloc(1000);
  ASSERT_TRUE(ok(gpupool_tag_pop()));
  std::string text;
  EXPECT_EQ(damage(pool, text), 0U);
  std::memset(reinterpret_cast<void*>(block + 1000), 0, 3);
  EXPECT_EQ(damage(pool, text), 1U);
  EXPECT_NE(text.find("3 bytes were written beyond the end of a block, from +1000 to +1002: 00 00 00"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\"grads\""), std::string::npos) << text;
  pool.free(block);
  EXPECT_EQ(damage(pool, text), 1U);
}

TEST_F(Debug, WhatQuarantineHoldsIsLookedAtToo) {
  for (const char* modes : {"poison,quarantine=64MiB", "poison,quarantine=64MiB,canary", "canary"}) {
    SCOPED_TRACE(modes);
    const bool inside = std::strcmp(modes, "canary") != 0;
    ASSERT_TRUE(ok(gpupool_set_debug(modes)));
    PoolUnderTest pool(config_with());
    std::string text;
    const gpupool_ptr_t block = pool.malloc(kMiB - 512);
    char* const bytes = reinterpret_cast<char*>(block);
    if (!inside) bytes[kMiB - 512] = 1;
    pool.free(block);
    pool.synchronize();
    if (inside) bytes[8] = bytes[kMiB - 600] = 3;
    EXPECT_EQ(damage(pool, text), 1U) << text;
    EXPECT_NE(text.find(inside ? "after" : "beyond the end"), std::string::npos) << text;
    // It is told once, also when its quarantine ends.
    EXPECT_EQ(damage(pool, text), 1U) << text;
    for (int i = 0; i < 40; ++i) pool.free(pool.malloc(4 * kMiB));
    EXPECT_EQ(damage(pool, text), 1U) << text;
  }
}

TEST_F(Debug, AProgramThatEndsIsToldWhatItsPoolsHold) {
  struct Case {
    const char* modes;
    bool is_destroyed;  // with a live block
  };
  for (const Case& each : {Case{"poison,quarantine=64MiB", false}, Case{"canary", false},
                           Case{"poison,quarantine=64MiB", true}, Case{"canary", true}}) {
    const char* const modes = each.modes;
    SCOPED_TRACE(std::string(modes) + (each.is_destroyed ? ", destroyed" : ""));
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      dup2(ends[1], STDERR_FILENO);
      gpupool_t* pool = nullptr;
      gpupool_ptr_t block = 0;
      const gpupool_config_t config = config_with();
      if (gpupool_set_debug(modes) != GPUPOOL_SUCCESS || gpupool_create(&config, &pool) != GPUPOOL_SUCCESS ||
          gpupool_malloc(pool, 1000, 0, &block) != GPUPOOL_SUCCESS)
        _exit(1);
      const uint64_t at = std::strcmp(modes, "canary") == 0 ? 1000 : 8;
      if (at == 1000) reinterpret_cast<char*>(block)[at] = 1;
      gpupool_ptr_t kept = 0;
      if (each.is_destroyed && gpupool_malloc(pool, 1000, 0, &kept) != GPUPOOL_SUCCESS) _exit(1);
      // A canary is looked at while its block lives, or when it is freed.
      const bool is_freed = at != 1000 || !each.is_destroyed;
      if (is_freed && gpupool_free(pool, block, 0) != GPUPOOL_SUCCESS) _exit(1);
      if (gpupool_synchronize(pool) != GPUPOOL_SUCCESS) _exit(1);
      if (at != 1000) reinterpret_cast<char*>(block)[at] = 1;
      if (each.is_destroyed && gpupool_destroy(pool) != GPUPOOL_SUCCESS) _exit(1);
      std::exit(0);
    }
    close(ends[1]);
    std::string said;
    char piece[512];
    for (ssize_t n = 0; (n = read(ends[0], piece, sizeof piece)) > 0;)
      said.append(piece, static_cast<size_t>(n));
    close(ends[0]);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    EXPECT_NE(said.find("1 byte was written"), std::string::npos) << said;
  }
}

TEST_F(Debug, FencesGiveTheirMemoryBackAndKeepTheirAddresses) {
  ASSERT_TRUE(ok(gpupool_set_debug("fence")));
  PoolUnderTest pool(config_with());
  const gpupool_ptr_t first = pool.malloc(3 * kMiB);
  EXPECT_EQ((first + 3 * kMiB) % pool_test::kGranule, 0U) << "the block ends where its mapping ends";
  EXPECT_EQ(pool.reserved(), 4 * kMiB);
  EXPECT_EQ(pool.info(first).requested_bytes, 3 * kMiB);
  pool.validate();
  pool.free(first);
  EXPECT_EQ(pool.reserved(), 0U);
  for (int i = 0; i < 100; ++i) {
    const gpupool_ptr_t block = pool.malloc(3 * kMiB);
    EXPECT_NE(block, first);
    pool.free(block);
  }
  EXPECT_EQ(pool.reserved(), 0U);
  EXPECT_EQ(faults(), 0U);
}

TEST_F(Debug, AFenceStaysUntilItsStreamHasPassed) {
  ASSERT_TRUE(ok(gpupool_set_debug("fence")));
  PoolUnderTest pool(config_with());
  gpupool_stream_t stream = 0;
  ASSERT_TRUE(ok(gpupool_stream_create(pool, &stream)));
  const gpupool_ptr_t block = pool.malloc(3 * kMiB, stream);
  ASSERT_TRUE(ok(gpupool_sim_work(0, stream, block, 3 * kMiB, 1'000'000'000)));
  pool.free(block, stream);
  EXPECT_EQ(pool.reserved(), 4 * kMiB) << "work that was queued before may use it";
  pool.synchronize();
  pool.free(pool.malloc(kMiB));
  EXPECT_EQ(pool.reserved(), 0U);
  EXPECT_EQ(faults(), 0U);
  ASSERT_TRUE(ok(gpupool_stream_destroy(pool, stream)));
}

TEST_F(Debug, FencesKeepAlignments) {
  ASSERT_TRUE(ok(gpupool_set_debug("fence")));
  PoolUnderTest pool(config_with());
  for (uint64_t alignment = 512; alignment <= 2 * kMiB; alignment *= 2) {
    gpupool_ptr_t block = 0;
    ASSERT_TRUE(ok(gpupool_malloc_aligned(pool, 700 * kKiB, alignment, 0, &block)));
    EXPECT_EQ(block % alignment, 0U);
    pool.validate();
    pool.free(block);
  }
}

TEST_F(Debug, SmallBlocksMayBeLeftWithoutFences) {
  ASSERT_TRUE(ok(gpupool_set_debug("fence=1MiB")));
  PoolUnderTest pool(config_with());
  const gpupool_ptr_t small = pool.malloc(1000);
  const gpupool_ptr_t large = pool.malloc(kMiB);
  ASSERT_TRUE(ok(gpupool_fill(pool, small, 0, 4096, 0))) << "in a chunk with room for others";
  EXPECT_NE(gpupool_fill(pool, large, 0, kMiB + 1, 0), GPUPOOL_SUCCESS);
  pool.free(small);
  pool.free(large);
}

TEST_F(Debug, WhereMemoryIsShortBlocksComeWithoutFencesAndOutOfTheQuarantine) {
  ASSERT_TRUE(ok(gpupool_set_debug("fence=1MiB,quarantine=1GiB")));
  PoolUnderTest pool(config_with(6 * kMiB));
  std::vector<gpupool_ptr_t> blocks = {pool.malloc(600 * kKiB)};
  for (int i = 0; i < 3; ++i) blocks.push_back(pool.malloc(kMiB));
  EXPECT_EQ(pool.reserved(), 6 * kMiB) << "two fences, and the third block beside the first";
  std::string text;
  EXPECT_EQ(damage(pool, text), 0U);
  EXPECT_NE(text.find("1 blocks have no fence"), std::string::npos) << text;
  for (const gpupool_ptr_t block : blocks) pool.free(block);
  const gpupool_ptr_t fenced = pool.malloc(4 * kMiB);
  const gpupool_ptr_t other = pool.malloc(2 * kMiB);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, pool.try_malloc(2 * kMiB)));
  pool.free(fenced);
  pool.free(other);
}

/// Two streams of a device, and a block of one that the other still works on after its free.
struct FreedAndInUse {
  explicit FreedAndInUse(PoolUnderTest& pool, uint64_t size) : pool_(pool) {
    for (gpupool_stream_t& stream : streams) EXPECT_TRUE(ok(gpupool_stream_create(pool, &stream)));
    const gpupool_ptr_t block = pool.malloc(size, streams[0]);
    pool.record_stream(block, streams[1]);
    EXPECT_TRUE(ok(gpupool_stream_synchronize(pool, streams[0])));
    EXPECT_TRUE(ok(gpupool_sim_work(0, streams[1], block, size, 5'000'000)));
    pool.free(block, streams[0]);
  }
  FreedAndInUse(const FreedAndInUse&) = delete;
  FreedAndInUse& operator=(const FreedAndInUse&) = delete;
  ~FreedAndInUse() {
    for (const gpupool_stream_t stream : streams) EXPECT_TRUE(ok(gpupool_stream_destroy(pool_, stream)));
  }

  gpupool_stream_t streams[2]{};

 private:
  PoolUnderTest& pool_;
};

/// A recorded block is mapped until the other stream has passed too, and no longer: the pool looks at each
/// call, though every block has a mapping of its own and no heap is asked.
TEST_F(Debug, AFenceGoesOnceRecordedStreamsHavePassedToo) {
  ASSERT_TRUE(ok(gpupool_set_debug("fence")));
  PoolUnderTest pool(config_with());
  for (int i = 0; i < 100; ++i) {
    const FreedAndInUse freed(pool, 4 * kMiB);  // a fault of the device if it had gone already
    EXPECT_TRUE(ok(gpupool_stream_synchronize(pool, freed.streams[1])));
  }
  EXPECT_LE(pool.stats().all.reserved_bytes.peak, 12 * kMiB);
}

// What a mode queues when it sees a free block is work that the memory waits for once more.

TEST_F(Debug, EmptyingLeavesNothingWhateverTheModeHasQueued) {
  for (const char* modes : {"poison", "canary", "poison,canary"}) {
    SCOPED_TRACE(modes);
    ASSERT_TRUE(ok(gpupool_set_debug(modes)));
    PoolUnderTest pool(config_with());
    const FreedAndInUse freed(pool, 5 * kMiB);
    pool.empty();
    EXPECT_EQ(pool.reserved(), 0U);
  }
}

TEST_F(Debug, ALowerLimitWaitsForWhateverTheModeHasQueued) {
  for (const char* modes : {"poison", "canary", "poison,canary"}) {
    SCOPED_TRACE(modes);
    ASSERT_TRUE(ok(gpupool_set_debug(modes)));
    PoolUnderTest pool(config_with(8 * kMiB));
    const FreedAndInUse freed(pool, 5 * kMiB);
    pool.set_limit(2 * kMiB);
    EXPECT_LE(pool.reserved(), 2 * kMiB);
  }
}

TEST_F(Debug, ASleepWaitsForWhateverTheModeHasQueued) {
  for (const char* modes : {"poison", "canary", "poison,canary", "poison,quarantine=1GiB"}) {
    SCOPED_TRACE(modes);
    ASSERT_TRUE(ok(gpupool_set_debug(modes)));
    PoolUnderTest pool(config_with());
    const FreedAndInUse freed(pool, 5 * kMiB);
    EXPECT_TRUE(ok(gpupool_sleep(pool, nullptr, nullptr)));
    EXPECT_EQ(pool.reserved(), 0U);
    EXPECT_TRUE(ok(gpupool_wake(pool, nullptr, nullptr)));
    std::string text;
    EXPECT_EQ(damage(pool, text), 0U) << text;
    EXPECT_EQ(faults(), 0U);
  }
}

/// What a sleep drops, and what a wake fills, the canaries behind blocks included, is no damage; what is
/// written there afterwards is.
TEST_F(Debug, ASleepThatDropsLeavesCanariesAsTheyWere) {
  ASSERT_TRUE(ok(gpupool_set_debug("canary")));
  for (const bool alone : {false, true}) {
    SCOPED_TRACE(alone ? "one block" : "the pool");
    PoolUnderTest pool(config_with());
    gpupool_stream_t stream = 0;
    ASSERT_TRUE(ok(gpupool_stream_create(pool, &stream)));
    const gpupool_ptr_t blocks[] = {pool.malloc(20 * kMiB), pool.malloc(20 * kMiB, stream),
                                    pool.malloc(1000)};
    gpupool_sleep_options_t sleep{};
    sleep.struct_size = sizeof sleep;
    sleep.mode = GPUPOOL_SLEEP_MODE_DROP;
    gpupool_sleep_options_t wake{};
    wake.struct_size = sizeof wake;
    wake.flags = GPUPOOL_SLEEP_FLAG_FILL;
    wake.fill = 7;
    for (int i = 0; i < 2; ++i) {
      if (alone) {
        ASSERT_TRUE(ok(gpupool_sleep_block(pool, blocks[1], &sleep, nullptr)));
        ASSERT_TRUE(ok(gpupool_wake_block(pool, blocks[1], &wake, nullptr)));
      } else {
        ASSERT_TRUE(ok(gpupool_sleep(pool, &sleep, nullptr)));
        ASSERT_TRUE(ok(gpupool_wake(pool, &wake, nullptr)));
      }
      std::string text;
      EXPECT_EQ(damage(pool, text), 0U) << text;
    }
    EXPECT_TRUE(ok(gpupool_fill(pool, blocks[1], 0, 20 * kMiB + 1, stream)));
    pool.free(blocks[0]);
    pool.free(blocks[1], stream);
    pool.free(blocks[2]);
    std::string text;
    EXPECT_EQ(damage(pool, text), 1U) << text;
  }
}

TEST_F(Debug, AShortageWaitsForWhateverTheModeHasQueued) {
  for (const char* modes : {"poison", "canary", "poison,canary", "poison,quarantine=1GiB"}) {
    SCOPED_TRACE(modes);
    ASSERT_TRUE(ok(gpupool_set_debug(modes)));
    PoolUnderTest pool(config_with(8 * kMiB));
    const FreedAndInUse freed(pool, 5 * kMiB);
    const gpupool_ptr_t block = pool.malloc(7 * kMiB, freed.streams[1]);
    EXPECT_NE(block, 0U);
    pool.free(block, freed.streams[1]);
  }
}

TEST_F(Debug, AGraphMayGoOnUsingWhatWasFreed) {
  for (const char* modes : {"poison,canary", "poison,quarantine=1GiB", "annotate"}) {
    SCOPED_TRACE(modes);
    ASSERT_TRUE(ok(gpupool_set_debug(modes)));
    PoolUnderTest pool(config_with());
    gpupool_stream_t streams[2];
    for (gpupool_stream_t& stream : streams) ASSERT_TRUE(ok(gpupool_stream_create(pool, &stream)));
    ASSERT_TRUE(ok(gpupool_sim_capture(0, streams[0], 1)));
    uint64_t capture = 0;
    ASSERT_TRUE(ok(gpupool_capture_id(pool, streams[0], &capture)));
    const gpupool_ptr_t block = pool.malloc(kMiB, streams[0]);
    ASSERT_TRUE(ok(gpupool_fill(pool, block, 7, kMiB, streams[0])));
    ASSERT_TRUE(ok(gpupool_sim_capture(0, streams[0], 0)));
    pool.free(block, streams[0]);
    // At once, on another stream: no fill of the pool's may be in the way, or come later.
    EXPECT_TRUE(ok(gpupool_sim_launch(0, capture, streams[1])));
    pool.synchronize();
    EXPECT_EQ(*reinterpret_cast<uint8_t*>(block), 7U);
    std::string text;
    EXPECT_EQ(damage(pool, text), 0U) << text;
    EXPECT_EQ(faults(), 0U);
    for (const gpupool_stream_t stream : streams) EXPECT_TRUE(ok(gpupool_stream_destroy(pool, stream)));
  }
}

TEST_F(Debug, ASecondFreeTellsTheStory) {
  ASSERT_TRUE(ok(gpupool_set_debug("quarantine=1MiB")));
  PoolUnderTest pool(config_with());
  const gpupool_ptr_t block = pool.malloc(1000);
  pool.free(block);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, gpupool_free(pool, block, 0)));
  EXPECT_NE(last_message().find("freed already: block 1 of 1000 bytes"), std::string::npos) << last_message();
  EXPECT_NE(last_message().find("freed by"), std::string::npos) << last_message();
}

TEST_F(Debug, AChildOfForkNamesItsOwnThread) {
  const auto thread_in_story = [](const gpupool_config_t& config) {
    PoolUnderTest pool(config);
    const gpupool_ptr_t block = pool.malloc(1000);
    const std::string story = why(block);
    const std::string words = "by thread " + std::to_string(getpid()) + " ";
    pool.free(block);
    return story.find(words) != std::string::npos;
  };
  ASSERT_TRUE(ok(gpupool_set_debug("canary")));
  EXPECT_TRUE(thread_in_story(config_with()));
  const pid_t child = fork();
  if (child == 0) _exit(thread_in_story(config_with()) ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(Debug, ModesTogetherWithManyThreadsAndStreams) {
  ASSERT_TRUE(ok(gpupool_set_debug("poison,canary,fence=1MiB,guard,quarantine=4MiB")));
  PoolUnderTest pool(config_with(256 * kMiB));
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&pool, t] {
      gpupool_stream_t stream = 0;
      EXPECT_TRUE(ok(gpupool_stream_create(pool, &stream)));
      std::vector<gpupool_ptr_t> blocks;
      for (unsigned i = 0; i < 150; ++i) {
        blocks.push_back(pool.malloc((i * 7919U + t) % (3 * kMiB) + 1, stream));
        if (blocks.size() < 6) continue;
        pool.free(blocks.front(), i % 3 == 0 ? 0 : stream);
        blocks.erase(blocks.begin());
      }
      for (const gpupool_ptr_t block : blocks) pool.free(block, stream);
      EXPECT_TRUE(ok(gpupool_stream_synchronize(pool, stream)));
      EXPECT_TRUE(ok(gpupool_stream_destroy(pool, stream)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  pool.validate();
  std::string text;
  EXPECT_EQ(damage(pool, text), 0U) << text;
  EXPECT_EQ(faults(), 0U);
}

TEST_F(Debug, SleepIsRefusedWithFencesAndWorksWithTheRest) {
  ASSERT_TRUE(ok(gpupool_set_debug("fence")));
  {
    PoolUnderTest pool(config_with());
    EXPECT_TRUE(refused(GPUPOOL_ERROR_UNSUPPORTED, gpupool_sleep(pool, nullptr, nullptr)));
  }
  ASSERT_TRUE(ok(gpupool_set_debug("poison,canary,quarantine=4MiB")));
  PoolUnderTest pool(config_with());
  const gpupool_ptr_t kept = pool.malloc(3 * kMiB);
  std::memset(reinterpret_cast<void*>(kept), 7, 3 * kMiB);
  pool.free(pool.malloc(2 * kMiB));
  ASSERT_TRUE(ok(gpupool_sleep(pool, nullptr, nullptr)));
  ASSERT_TRUE(ok(gpupool_wake(pool, nullptr, nullptr)));
  EXPECT_EQ(*reinterpret_cast<unsigned char*>(kept + 3 * kMiB - 1), 7);
  std::string text;
  EXPECT_EQ(damage(pool, text), 0U) << text;
  pool.free(kept);
}

// ---- protected blocks

TEST_F(Debug, ProtectedBlocksAreReadAndNotWritten) {
  gpupool_config_t config = config_with();
  config.max_chunk_bytes = 2 * kMiB;
  PoolUnderTest pool(config);
  gpupool_ptr_t block = 0;
  ASSERT_TRUE(ok(gpupool_malloc_aligned(pool, 4 * kMiB, 2 * kMiB, 0, &block)));
  const gpupool_ptr_t neighbour = pool.malloc(kMiB);
  std::vector<unsigned char> host(4096);
  const auto to = reinterpret_cast<gpupool_ptr_t>(host.data());
  ASSERT_TRUE(ok(gpupool_fill(pool, block, 5, 4 * kMiB, 0)));
  ASSERT_TRUE(ok(gpupool_protect(pool, block, GPUPOOL_ACCESS_READ)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNSUPPORTED, gpupool_sleep(pool, nullptr, nullptr)));
  ASSERT_TRUE(ok(gpupool_copy(pool, to, block, host.size(), 0)));
  ASSERT_TRUE(ok(gpupool_fill(pool, neighbour, 1, kMiB, 0)));
  EXPECT_EQ(faults(), 0U);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_DRIVER, gpupool_fill(pool, block + kMiB, 6, 1, 0)));
  EXPECT_EQ(faults(), 1U);
  ASSERT_TRUE(ok(gpupool_protect(pool, block, GPUPOOL_ACCESS_NONE)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_DRIVER, gpupool_copy(pool, to, block, 4, 0)));
  ASSERT_TRUE(ok(gpupool_protect(pool, block, GPUPOOL_ACCESS_WRITE)));
  ASSERT_TRUE(ok(gpupool_fill(pool, block, 6, 4 * kMiB, 0)));
  ASSERT_TRUE(ok(gpupool_protect(pool, block, GPUPOOL_ACCESS_READ)));
  pool.free(block);
  pool.free(neighbour);
  const gpupool_ptr_t next = pool.malloc(4 * kMiB);
  ASSERT_TRUE(ok(gpupool_fill(pool, next, 7, 4 * kMiB, 0))) << "what is free again may be written";
  pool.free(next);
}

TEST_F(Debug, BlocksThatShareAChunkAreNotProtected) {
  PoolUnderTest pool(config_with());
  const gpupool_ptr_t block = pool.malloc(1000);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNSUPPORTED, gpupool_protect(pool, block, GPUPOOL_ACCESS_READ)));
  EXPECT_NE(last_message().find("shares a chunk"), std::string::npos);
  EXPECT_TRUE(
      refused(GPUPOOL_ERROR_UNKNOWN_POINTER, gpupool_protect(pool, block + 512, GPUPOOL_ACCESS_READ)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT,
                      gpupool_protect(pool, block, static_cast<gpupool_access_t>(3))));
  ASSERT_TRUE(ok(gpupool_fill(pool, block, 1, 1000, 0)));
  pool.free(block);
}

TEST_F(Debug, FencedBlocksCanAlwaysBeProtected) {
  ASSERT_TRUE(ok(gpupool_set_debug("fence")));
  PoolUnderTest pool(config_with());
  const gpupool_ptr_t block = pool.malloc(1000);
  ASSERT_TRUE(ok(gpupool_protect(pool, block, GPUPOOL_ACCESS_READ)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_DRIVER, gpupool_fill(pool, block, 6, 1, 0)));
  pool.free(block);
}

// ---- why

TEST_F(Debug, WhyNamesBlocksAndTheirNeighbours) {
  ASSERT_TRUE(ok(gpupool_set_debug("quarantine=64MiB")));
  PoolUnderTest pool(config_with());
  ASSERT_TRUE(ok(gpupool_tag_push("grads")));
  const gpupool_ptr_t block = pool.malloc(3 * kMiB);
  ASSERT_TRUE(ok(gpupool_tag_pop()));
  const gpupool_ptr_t other = pool.malloc(3 * kMiB);
  const std::string live = why(block + kMiB);
  EXPECT_NE(live.find("1048576 bytes into a live block of 3145728 bytes"), std::string::npos) << live;
  EXPECT_NE(live.find("\"grads\""), std::string::npos) << live;
  EXPECT_NE(live.find("allocated"), std::string::npos) << live;
  EXPECT_NE(live.find("behind, "), std::string::npos) << live;
  pool.free(block);
  const std::string gone = why(block);
  EXPECT_NE(gone.find("0 bytes into a freed block"), std::string::npos) << gone;
  EXPECT_NE(gone.find("freed 0."), std::string::npos) << gone;
  EXPECT_NE(why(other + 3 * kMiB - 1).find("3145727 bytes into a live block"), std::string::npos);
  pool.free(other);
}

TEST_F(Debug, WhyWithoutDebugModesSaysWhatItKnows) {
  PoolUnderTest pool(config_with());
  const gpupool_ptr_t block = pool.malloc(1000);
  EXPECT_NE(why(block + 999).find("999 bytes into a live block of 1000 bytes"), std::string::npos);
  EXPECT_NE(why(block + 4096).find("in free memory"), std::string::npos) << why(block + 4096);
  EXPECT_NE(why(12345).find("is not in any pool"), std::string::npos);
  pool.free(block);
}

}  // namespace
