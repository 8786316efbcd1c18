// SPDX-License-Identifier: Apache-2.0
// Failures of other libraries that put memory to sleep, with one test for each number. Those that only a GPU,
// a framework or several processes can show are elsewhere: docs/sleep.md has a table of all.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <thread>

#include "sleep_fixture.hpp"

namespace sleep_test {
namespace {

TEST_F(Sleep, S3_BlocksAreFreedAsleep) {
  PoolUnderTest pool(sim_config());
  std::array<gpupool_ptr_t, 16> blocks{};
  for (size_t i = 0; i < blocks.size(); ++i) {
    blocks[i] = pool.malloc(4 * kMiB);
    write_pattern(blocks[i], 4 * kMiB, i);
  }
  const uint64_t reserved = pool.reserved();
  fall_asleep(pool);
  for (size_t i = 0; i < blocks.size(); i += 2) pool.free(blocks[i]);
  pool.validate();
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, gpupool_free(pool, blocks[0], 0)));
  const gpupool_sleep_result_t woken = wake(pool);
  EXPECT_EQ(woken.saved_bytes, 8 * 4 * kMiB);
  EXPECT_LE(pool.reserved(), reserved / 2 + 8 * kGranule);
  for (size_t i = 1; i < blocks.size(); i += 2) {
    EXPECT_TRUE(has_pattern(blocks[i], 4 * kMiB, i)) << i;
    pool.free(blocks[i]);
  }
}

TEST_F(Sleep, S4_TwiceIsNoErrorAndMovesNothing) {
  PoolUnderTest pool(sim_config());
  ASSERT_TRUE(ok(gpupool_set_name(pool, "weights")));
  const gpupool_ptr_t block = pool.malloc(8 * kMiB);
  write_pattern(block, 8 * kMiB, 1);
  gpupool_sleep_result_t result = wake(pool);
  EXPECT_EQ(result.pools, 0u);
  EXPECT_EQ(result.created_bytes, 0u);
  EXPECT_EQ(fall_asleep(pool).pools, 1u);
  const gpupool_driver_stats_t before = pool.stats().driver;
  result = fall_asleep(pool, GPUPOOL_SLEEP_MODE_DROP);
  EXPECT_EQ(result.pools, 0u);
  EXPECT_EQ(result.released_bytes, 0u);
  EXPECT_EQ(count_calls(pool.stats().driver), count_calls(before));
  EXPECT_EQ(wake(pool).pools, 1u);
  EXPECT_TRUE(has_pattern(block, 8 * kMiB, 1));
  result = empty_result();
  EXPECT_TRUE(ok(gpupool_sleep_tag("no such tag", nullptr, &result)));
  EXPECT_EQ(result.pools, 0u);
  EXPECT_TRUE(ok(gpupool_wake_tag("weights", nullptr, &result)));
  EXPECT_EQ(result.pools, 0u);
  pool.free(block);
}

uint64_t resident_bytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  unsigned long total = 0;
  unsigned long resident = 0;
  EXPECT_EQ(std::fscanf(file, "%lu %lu", &total, &resident), 2);
  std::fclose(file);
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

TEST_F(Sleep, S6_TenThousandCyclesLeaveNothingAndNeedNoMoreMemory) {
  restart(2);
  PoolUnderTest pool(sim_config());
  const gpupool_ptr_t large = pool.malloc(80 * kMiB);
  const gpupool_ptr_t small = pool.malloc(3000);
  uint64_t metadata = 0;
  uint64_t resident = 0;
  for (int cycle = 0; cycle < 10'000; ++cycle) {
    ASSERT_TRUE(ok(try_sleep(pool, cycle % 3 == 0 ? GPUPOOL_SLEEP_MODE_DROP : GPUPOOL_SLEEP_MODE_SAVE)));
    ASSERT_EQ(pool.reserved(), 0u);
    ASSERT_EQ(device_free(), kCapacity);
    ASSERT_TRUE(ok(try_wake(pool)));
    const gpupool_ptr_t passing = pool.malloc(7 * kMiB);
    pool.free(passing);
    if (cycle == 1000) {
      metadata = pool.stats().metadata_bytes;
      resident = resident_bytes();
    }
  }
  EXPECT_EQ(pool.stats().metadata_bytes, metadata);
  // A sanitizer keeps what is freed for a while.
  if (!kIsSanitized) {
    EXPECT_LE(resident_bytes(), resident + kMiB);
  }
  EXPECT_EQ(pool.stats().sleeps, 10'000u);
  EXPECT_EQ(pool.stats().wakes, 10'000u);
  pool.free(large);
  pool.free(small);
}

TEST_F(Sleep, S8_PinnedMemoryIsGivenBackOrKept) {
  PoolUnderTest pool(sim_config());
  const gpupool_ptr_t block = pool.malloc(20 * kMiB);
  fall_asleep(pool);
  EXPECT_GE(pool.stats().backup_bytes, 20 * kMiB);
  EXPECT_LE(pool.stats().backup_bytes, 22 * kMiB);
  wake(pool);
  EXPECT_EQ(pool.stats().backup_bytes, 0u);
  fall_asleep(pool);
  wake(pool, GPUPOOL_SLEEP_FLAG_RETAIN_BACKUP);
  const uint64_t kept = pool.stats().backup_bytes;
  EXPECT_GE(kept, 20 * kMiB);
  const uint64_t pinned = pool.stats().driver.malloc.count;
  for (int i = 0; i < 3; ++i) {
    fall_asleep(pool);
    wake(pool);
    EXPECT_EQ(pool.stats().backup_bytes, kept);
  }
  EXPECT_EQ(pool.stats().driver.malloc.count, pinned);
  EXPECT_TRUE(ok(gpupool_prepare_backup(pool, 0)));
  EXPECT_EQ(pool.stats().backup_bytes, 0u);
  pool.free(block);
}

TEST_F(Sleep, S10_S11_DropKeepsMarkedBlocksAndFillsTheOthers) {
  PoolUnderTest pool(sim_config());
  const gpupool_ptr_t dropped = pool.malloc(6 * kMiB);
  const gpupool_ptr_t kept = pool.malloc(40 * kKiB);
  const gpupool_ptr_t beside = pool.malloc(40 * kKiB);
  write_pattern(dropped, 6 * kMiB, 1);
  write_pattern(kept, 40 * kKiB, 2);
  write_pattern(beside, 40 * kKiB, 3);
  EXPECT_TRUE(ok(gpupool_set_keep(pool, kept, 1)));
  EXPECT_TRUE(ok(gpupool_set_keep(pool, beside, 1)));
  EXPECT_TRUE(ok(gpupool_set_keep(pool, beside, 0)));
  const gpupool_sleep_result_t result = fall_asleep(pool, GPUPOOL_SLEEP_MODE_DROP);
  EXPECT_EQ(result.saved_bytes, 40 * kKiB);
  EXPECT_EQ(result.dropped_bytes, 6 * kMiB + 40 * kKiB);
  wake(pool, GPUPOOL_SLEEP_FLAG_FILL, 0xff);
  EXPECT_TRUE(is_filled(dropped, 6 * kMiB, 0xff));
  EXPECT_TRUE(is_filled(beside, 40 * kKiB, 0xff));
  EXPECT_TRUE(has_pattern(kept, 40 * kKiB, 2));
  // The mark goes with the block.
  pool.free(kept);
  const gpupool_ptr_t again = pool.malloc(40 * kKiB);
  EXPECT_EQ(fall_asleep(pool, GPUPOOL_SLEEP_MODE_DROP).saved_bytes, 0u);
  wake(pool, GPUPOOL_SLEEP_FLAG_FILL, 0);
  EXPECT_TRUE(is_filled(again, 40 * kKiB, 0));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, gpupool_set_keep(pool, dropped + 512, 1)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_set_keep(pool, dropped, 2)));
  for (const gpupool_ptr_t block : {dropped, beside, again}) pool.free(block);
}

/// What a block from a cache was linked to there is no list of its users.
TEST_F(Sleep, MarkedBlocksFromACacheAreFreedLikeAny) {
  PoolUnderTest pool(sim_config());
  std::vector<gpupool_ptr_t> blocks;
  for (int round = 0; round < 2; ++round) {
    blocks.clear();
    for (int i = 0; i < 4; ++i) blocks.push_back(pool.malloc(40 * kKiB));
    if (round == 1) break;
    for (const gpupool_ptr_t block : blocks) pool.free(block);
  }
  for (const gpupool_ptr_t block : blocks) EXPECT_TRUE(ok(gpupool_set_keep(pool, block, 1)));
  EXPECT_TRUE(ok(gpupool_set_keep(pool, blocks[0], 0)));
  for (const gpupool_ptr_t block : blocks) pool.free(block);
  EXPECT_EQ(pool.stats().all.active_bytes.current, 0u);
  pool.validate();
}

TEST_F(Sleep, S13_MemoryThatSomebodyHoldsIsReported) {
  PoolUnderTest pool(sim_config());
  const gpupool_ptr_t block = pool.malloc(2 * kMiB);
  const gpupool_ptr_t other = pool.malloc(2 * kMiB);
  EXPECT_EQ(fall_asleep(pool).retained_bytes, 0u);
  wake(pool);
  ASSERT_TRUE(ok(gpupool_sim_hold(kDevice, block)));
  const gpupool_sleep_result_t result = fall_asleep(pool);
  EXPECT_GE(result.retained_bytes, 2 * kMiB);
  EXPECT_EQ(result.retained_bytes, kCapacity - device_free());
  wake(pool);
  ASSERT_TRUE(ok(gpupool_sim_hold(kDevice, 0)));
  pool.free(block);
  pool.free(other);
}

TEST_F(Sleep, S17_S18_TagsInAnyOrder) {
  PoolUnderTest weights(sim_config());
  PoolUnderTest more_weights(sim_config());
  PoolUnderTest cache(sim_config());
  PoolUnderTest graph(sim_config());
  const std::array<std::pair<gpupool_t*, const char*>, 4> named{
      {{weights, "weights"}, {more_weights, "weights"}, {cache, "kv_cache"}, {graph, "cuda_graph"}}};
  std::array<gpupool_ptr_t, 4> blocks{};
  for (size_t i = 0; i < named.size(); ++i) {
    ASSERT_TRUE(ok(gpupool_set_name(named[i].first, named[i].second)));
    ASSERT_TRUE(ok(gpupool_malloc(named[i].first, 8 * kMiB, 0, &blocks[i])));
    write_pattern(blocks[i], 8 * kMiB, i);
  }
  const uint64_t awake = device_free();
  std::array<const char*, 3> tags{"cuda_graph", "kv_cache", "weights"};
  const auto bytes_of = [](const char* tag) {
    return std::strcmp(tag, "weights") == 0 ? 16 * kMiB : 8 * kMiB;
  };
  do {
    uint64_t free = awake;
    for (const char* tag : tags) {
      gpupool_sleep_result_t result = empty_result();
      ASSERT_TRUE(ok(gpupool_sleep_tag(tag, nullptr, &result)));
      EXPECT_EQ(result.pools, bytes_of(tag) / (8 * kMiB));
      EXPECT_EQ(device_free(), free += bytes_of(tag));
    }
    for (const char* tag : tags) {
      ASSERT_TRUE(ok(gpupool_wake_tag(tag, nullptr, nullptr)));
      EXPECT_EQ(device_free(), free -= bytes_of(tag));
      // New weights between two waves.
      if (std::strcmp(tag, "weights") == 0) write_pattern(blocks[0], 8 * kMiB, 9);
    }
    EXPECT_TRUE(has_pattern(blocks[0], 8 * kMiB, 9));
    for (size_t i = 1; i < blocks.size(); ++i) EXPECT_TRUE(has_pattern(blocks[i], 8 * kMiB, i));
  } while (std::next_permutation(tags.begin(), tags.end(),
                                 [](const char* a, const char* b) { return std::strcmp(a, b) < 0; }));
  gpupool_sleep_result_t result = empty_result();
  ASSERT_TRUE(ok(gpupool_sleep_tag(nullptr, nullptr, &result)));
  EXPECT_EQ(result.pools, 4u);
  ASSERT_TRUE(ok(gpupool_wake_tag(nullptr, nullptr, nullptr)));
  for (size_t i = 0; i < named.size(); ++i) EXPECT_TRUE(ok(gpupool_free(named[i].first, blocks[i], 0)));
}

TEST_F(Sleep, ATagIsAllOrNothing) {
  PoolUnderTest first(sim_config());
  PoolUnderTest second(sim_config());
  ASSERT_TRUE(ok(gpupool_set_name(first, "tag")));
  ASSERT_TRUE(ok(gpupool_set_name(second, "tag")));
  const gpupool_ptr_t a = first.malloc(4 * kMiB);
  const gpupool_ptr_t b = second.malloc(4 * kMiB, 5);
  write_pattern(a, 4 * kMiB, 1);
  ASSERT_TRUE(ok(gpupool_sim_capture(kDevice, 5, 1)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNAVAILABLE, gpupool_sleep_tag("tag", nullptr, nullptr)));
  EXPECT_EQ(state_of(first), GPUPOOL_SLEEP_STATE_AWAKE);
  EXPECT_EQ(state_of(second), GPUPOOL_SLEEP_STATE_AWAKE);
  ASSERT_TRUE(ok(gpupool_sim_capture(kDevice, 5, 0)));
  EXPECT_TRUE(has_pattern(a, 4 * kMiB, 1));
  ASSERT_TRUE(ok(gpupool_sleep_tag("tag", nullptr, nullptr)));
  ASSERT_TRUE(ok(gpupool_set_limit(second, 2 * kMiB)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, gpupool_wake_tag("tag", nullptr, nullptr)));
  EXPECT_EQ(state_of(first), GPUPOOL_SLEEP_STATE_ASLEEP);
  EXPECT_EQ(state_of(second), GPUPOOL_SLEEP_STATE_ASLEEP);
  ASSERT_TRUE(ok(gpupool_set_limit(second, 0)));
  ASSERT_TRUE(ok(gpupool_wake_tag("tag", nullptr, nullptr)));
  EXPECT_TRUE(has_pattern(a, 4 * kMiB, 1));
  first.free(a);
  second.free(b, 5);
}

TEST_F(Sleep, S19_UseAsleepIsAFaultThatNamesTheTag) {
  PoolUnderTest pool(sim_config());
  ASSERT_TRUE(ok(gpupool_set_name(pool, "kv_cache")));
  const gpupool_ptr_t block = pool.malloc(8 * kMiB);
  fall_asleep(pool);
  for (int i = 0; i < 3; ++i) {
    const gpupool_status_t status = i == 0   ? gpupool_sim_work(kDevice, 3, block + 512, 512, 10)
                                    : i == 1 ? gpupool_fill(pool, block, 0, 512, 3)
                                             : gpupool_copy(pool, block, block + kMiB, 512, 3);
    EXPECT_TRUE(refused(GPUPOOL_ERROR_DRIVER, status));
    EXPECT_NE(last_message().find("asleep in pool 'kv_cache'"), std::string::npos) << last_message();
    ++expected_faults_;
  }
  wake(pool);
  EXPECT_TRUE(ok(gpupool_sim_work(kDevice, 3, block, 512, 10)));
  pool.free(block, 3);
}

TEST_F(Sleep, S19_OnTheHostUseAsleepTraps) {
  testing::FLAGS_gtest_death_test_style = "fast";
  PoolUnderTest pool(sim_config());
  const gpupool_ptr_t block = pool.malloc(8 * kMiB);
  fall_asleep(pool);
  EXPECT_DEATH(*reinterpret_cast<volatile char*>(block) = 1, "");
  wake(pool);
  *reinterpret_cast<volatile char*>(block) = 1;
  pool.free(block);
}

TEST_F(Sleep, S20_TheResultSaysWhatWasDone) {
  PoolUnderTest pool(sim_config());
  EXPECT_EQ(fall_asleep(pool).released_bytes, 0u);
  EXPECT_EQ(wake(pool).created_bytes, 0u);
  const gpupool_ptr_t block = pool.malloc(10 * kMiB);
  pool.free(pool.malloc(30 * kMiB, 4), 4);
  const uint64_t reserved = pool.reserved();
  const gpupool_sleep_result_t slept = fall_asleep(pool);
  EXPECT_EQ(slept.released_bytes, reserved);
  EXPECT_EQ(slept.saved_bytes, 10 * kMiB);
  EXPECT_GT(slept.nanoseconds, 0u);
  gpupool_stats_t stats = pool.stats();
  EXPECT_EQ(stats.all.reserved_bytes.current, 0u);
  EXPECT_EQ(stats.all.allocated_bytes.current, 10 * kMiB);
  EXPECT_GE(stats.asleep_bytes, 10 * kMiB);
  EXPECT_LT(stats.asleep_bytes, 16 * kMiB);
  EXPECT_EQ(stats.cached_bytes, 0u);
  EXPECT_EQ(stats.releasable_bytes, 0u);
  EXPECT_NE(pool.report().find("It is asleep"), std::string::npos) << pool.report();
  EXPECT_TRUE(pool.snapshot().segments.empty());
  EXPECT_EQ(pool.empty(), 0u);
  const uint64_t asleep = stats.asleep_bytes;
  EXPECT_EQ(wake(pool).created_bytes, asleep);
  EXPECT_EQ(pool.reserved(), asleep);
  EXPECT_EQ(pool.stats().asleep_bytes, 0u);
  pool.free(block);
}

TEST_F(Sleep, S23_S37_WakeWithTooLittleRoomChangesNothing) {
  PoolUnderTest pool(sim_config());
  PoolUnderTest other(sim_config());
  const gpupool_ptr_t block = pool.malloc(360 * kMiB);
  write_pattern(block, 360 * kMiB, 5);
  fall_asleep(pool);
  gpupool_ptr_t outside = other.malloc(360 * kMiB);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OUT_OF_MEMORY, try_wake(pool)));
  EXPECT_EQ(state_of(pool), GPUPOOL_SLEEP_STATE_ASLEEP);
  other.free(outside);
  pool.set_limit(100 * kMiB);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, try_wake(pool)));
  pool.set_limit(0);
  // What the other pool has cached is no reason to fail.
  EXPECT_TRUE(ok(try_wake(pool)));
  EXPECT_TRUE(has_pattern(block, 360 * kMiB, 5));
  fall_asleep(pool);
  outside = other.malloc(360 * kMiB);
  std::thread giver([&] {
    usleep(30'000);
    other.free(outside);
  });
  EXPECT_TRUE(ok(try_wake(pool, 60'000'000'000)));
  giver.join();
  EXPECT_TRUE(has_pattern(block, 360 * kMiB, 5));
  pool.free(block);
}

// What a graph frees within its capture it uses again at each launch: kernels, copies and fills.
TEST_F(Sleep, S16_GraphsRunAfterAHundredCycles) {
  for (const bool in_child : {false, true}) {
    PoolUnderTest parent(sim_config());
    gpupool_t* pool = parent;
    if (in_child) {
      ASSERT_TRUE(ok(gpupool_create_child(parent, &pool)));
    }
    gpupool_ptr_t input = 0;
    gpupool_ptr_t output = 0;
    gpupool_ptr_t passing = 0;
    uint64_t capture = 0;
    const gpupool_stream_t stream = 11;
    ASSERT_TRUE(ok(gpupool_malloc(pool, 3 * kMiB, stream, &input)));
    ASSERT_TRUE(ok(gpupool_malloc(pool, 3 * kMiB, stream, &output)));
    ASSERT_TRUE(ok(gpupool_sim_capture(kDevice, stream, 1)));
    ASSERT_TRUE(ok(gpupool_capture_id(pool, stream, &capture)));
    ASSERT_TRUE(ok(gpupool_malloc(pool, 6 * kMiB, stream, &passing)));
    ASSERT_TRUE(ok(gpupool_fill(pool, passing, 1, 6 * kMiB, stream)));
    ASSERT_TRUE(ok(gpupool_copy(pool, passing, input, 3 * kMiB, stream)));
    ASSERT_TRUE(ok(gpupool_sim_work(kDevice, stream, passing, 6 * kMiB, 100)));
    ASSERT_TRUE(ok(gpupool_copy(pool, output, passing, 3 * kMiB, stream)));
    ASSERT_TRUE(ok(gpupool_free(pool, passing, stream)));
    ASSERT_TRUE(ok(gpupool_sim_capture(kDevice, stream, 0)));
    for (uint64_t cycle = 0; cycle < 100; ++cycle) {
      fall_asleep(pool);
      EXPECT_EQ(device_free(), kCapacity);
      wake(pool);
      write_pattern(input, 3 * kMiB, cycle);
      ASSERT_TRUE(ok(gpupool_sim_launch(kDevice, capture, stream)));
      ASSERT_TRUE(ok(gpupool_synchronize(pool)));
      ASSERT_TRUE(has_pattern(output, 3 * kMiB, cycle)) << cycle;
    }
    EXPECT_TRUE(ok(gpupool_release_capture(pool, capture)));
    EXPECT_TRUE(ok(gpupool_free(pool, input, stream)));
    EXPECT_TRUE(ok(gpupool_free(pool, output, stream)));
    if (in_child) {
      EXPECT_TRUE(ok(gpupool_destroy(pool)));
    }
  }
}

TEST_F(Sleep, S27_TheStateOfPoolAndBlocksCanBeRead) {
  PoolUnderTest pool(sim_config());
  const gpupool_ptr_t block = pool.malloc(3 * kMiB);
  EXPECT_EQ(state_of(pool), GPUPOOL_SLEEP_STATE_AWAKE);
  EXPECT_EQ(pool.info(block).state, GPUPOOL_BLOCK_LIVE);
  fall_asleep(pool);
  EXPECT_EQ(pool.info(block).state, GPUPOOL_BLOCK_ASLEEP);
  for (const gpupool_block_t& each : pool.snapshot().blocks) {
    if (each.address == block) {
      EXPECT_EQ(each.state, GPUPOOL_BLOCK_ASLEEP);
    }
  }
  pool.record_stream(block, 9);
  wake(pool);
  EXPECT_EQ(pool.info(block).state, GPUPOOL_BLOCK_LIVE);
  pool.free(block);
}

TEST_F(Sleep, S28_NotDuringACapture) {
  PoolUnderTest pool(sim_config());
  const gpupool_ptr_t block = pool.malloc(3 * kMiB, 6);
  const uint64_t reserved = pool.reserved();
  ASSERT_TRUE(ok(gpupool_sim_capture(kDevice, 6, 1)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNAVAILABLE, try_sleep(pool)));
  EXPECT_EQ(state_of(pool), GPUPOOL_SLEEP_STATE_AWAKE);
  EXPECT_EQ(pool.reserved(), reserved);
  ASSERT_TRUE(ok(gpupool_sim_capture(kDevice, 6, 0)));
  fall_asleep(pool);
  wake(pool);
  pool.free(block, 6);
}

TEST_F(Sleep, S29_S42_SavedBytesCanBeReadAsleepInPieces) {
  PoolUnderTest pool(sim_config());
  const uint64_t size = 300 * kMiB;
  const gpupool_ptr_t block = pool.malloc(size);
  const gpupool_ptr_t dropped = pool.malloc(kMiB);
  write_pattern(block, size, 4);
  const void* data = nullptr;
  uint64_t bytes = 0;
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNAVAILABLE, gpupool_backup(pool, block, &data, &bytes)));
  ASSERT_TRUE(ok(gpupool_set_keep(pool, block, 1)));
  fall_asleep(pool, GPUPOOL_SLEEP_MODE_DROP);
  uint64_t seen = 0;
  for (; seen < size; seen += bytes) {
    ASSERT_TRUE(ok(gpupool_backup(pool, block + seen, &data, &bytes)));
    ASSERT_LE(bytes, 256 * kMiB);
    const auto* words = static_cast<const uint64_t*>(data);
    for (uint64_t i = 0; i < bytes / 8; i += 4096) {
      ASSERT_EQ(words[i], 4 * 0x9E3779B97F4A7C15U + seen / 8 + i);
    }
  }
  EXPECT_EQ(seen, size);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNAVAILABLE, gpupool_backup(pool, dropped, &data, &bytes)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, gpupool_backup(pool, 4096, &data, &bytes)));
  pool.free(block);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, gpupool_backup(pool, block, &data, &bytes)));
  wake(pool);
  pool.free(dropped);
}

TEST_F(Sleep, S34_PeersHaveAccessAgain) {
  PoolUnderTest pool(sim_config());
  const gpupool_ptr_t block = pool.malloc(4 * kMiB);
  const gpupool_ptr_t early = pool.malloc(4 * kMiB);
  ASSERT_TRUE(ok(gpupool_enable_peer(pool, 1)));
  fall_asleep(pool);
  ASSERT_TRUE(ok(gpupool_enable_peer(pool, 2)));
  wake(pool);
  EXPECT_TRUE(ok(gpupool_sim_work(1, 0, block, 4 * kMiB, 0)));
  EXPECT_TRUE(ok(gpupool_sim_work(2, 0, early, 4 * kMiB, 0)));
  pool.free(block);
  pool.free(early);
}

TEST_F(Sleep, S35_OldMappingsOfStolenChunksGo) {
  PoolUnderTest pool(sim_config());
  const gpupool_ptr_t first = pool.malloc(16 * kMiB);
  const gpupool_ptr_t fence = pool.malloc(2 * kMiB);
  EXPECT_TRUE(ok(gpupool_sim_work(kDevice, 0, first, 16 * kMiB, 1'000'000'000)));
  pool.free(first);
  const gpupool_ptr_t larger = pool.malloc(24 * kMiB);  // takes the chunks, whose old mappings are still used
  EXPECT_GT(pool.stats().steals, 0u);
  const gpupool_sleep_result_t result = fall_asleep(pool);
  EXPECT_EQ(result.retained_bytes, 0u);
  EXPECT_EQ(device_free(), kCapacity);
  wake(pool);
  pool.free(larger);
  pool.free(fence);
}

TEST_F(Sleep, S36_PendingBlocksAreWaitedForAndNotSaved) {
  PoolUnderTest pool(sim_config());
  const gpupool_ptr_t pending = pool.malloc(16 * kMiB);
  const gpupool_ptr_t live = pool.malloc(4 * kMiB);
  pool.record_stream(pending, 5);
  EXPECT_TRUE(ok(gpupool_sim_work(kDevice, 5, pending, 16 * kMiB, 1'000'000'000)));
  pool.free(pending);
  EXPECT_EQ(pool.active(), 20 * kMiB);
  EXPECT_EQ(fall_asleep(pool).saved_bytes, 4 * kMiB);
  EXPECT_EQ(pool.active(), 4 * kMiB);
  wake(pool);
  pool.free(live);
}

TEST_F(Sleep, S38_APoolCanBeDestroyedAsleep) {
  for (const bool with_blocks : {false, true}) {
    gpupool_t* pool = nullptr;
    const gpupool_config_t config = sim_config();
    ASSERT_TRUE(ok(gpupool_create(&config, &pool)));
    gpupool_ptr_t a = 0;
    gpupool_ptr_t b = 0;
    ASSERT_TRUE(ok(gpupool_malloc(pool, 30 * kMiB, 0, &a)));
    ASSERT_TRUE(ok(gpupool_malloc(pool, 3000, 3, &b)));
    fall_asleep(pool);
    if (!with_blocks) {
      EXPECT_TRUE(ok(gpupool_free(pool, a, 0)));
      EXPECT_TRUE(ok(gpupool_free(pool, b, 0)));  // another stream's: it waits for it
    }
    EXPECT_TRUE(ok(gpupool_destroy(pool)));
    if (with_blocks) {
      EXPECT_TRUE(ok(gpupool_free(pool, a, 0)));
      EXPECT_TRUE(ok(gpupool_free(pool, b, 0)));
    }
    EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_free(pool, a, 0)));
    restart();  // only where nothing is left of the pool on the device
  }
}

TEST_F(Sleep, S39_S43_AHostThatIsShortRefusesTheSleep) {
  restart(1, kCapacity, 400 * kMiB);
  PoolUnderTest pool(sim_config());
  const gpupool_ptr_t block = pool.malloc(350 * kMiB);
  write_pattern(block, 350 * kMiB, 6);
  const uint64_t reserved = pool.reserved();
  EXPECT_TRUE(refused(GPUPOOL_ERROR_HOST_OUT_OF_MEMORY, try_sleep(pool)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_HOST_OUT_OF_MEMORY, gpupool_prepare_backup(pool, 350 * kMiB)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_HOST_OUT_OF_MEMORY, gpupool_prepare_backup(pool, ~uint64_t{0})));
  EXPECT_EQ(state_of(pool), GPUPOOL_SLEEP_STATE_AWAKE);
  EXPECT_EQ(pool.reserved(), reserved);
  EXPECT_EQ(pool.stats().backup_bytes, 0u);
  EXPECT_TRUE(has_pattern(block, 350 * kMiB, 6));
  EXPECT_TRUE(ok(try_sleep(pool, GPUPOOL_SLEEP_MODE_DROP)));
  wake(pool);
  pool.free(block);
}

// Several threads page-lock it: the first that fails ends all, and what the others have had goes again.
TEST_F(Sleep, S39_APieceThatCannotBePageLockedTakesTheOthersAlong) {
  constexpr uint64_t kBytes = 640 * kMiB;
  PoolUnderTest pool(sim_config());
  for (const char* script : {"malloc:1=out_of_memory", "malloc:5=out_of_memory", "malloc:10=out_of_memory"}) {
    ASSERT_TRUE(ok(gpupool_sim_script(kDevice, script)));
    EXPECT_TRUE(refused(GPUPOOL_ERROR_HOST_OUT_OF_MEMORY, gpupool_prepare_backup(pool, kBytes))) << script;
    EXPECT_EQ(pool.stats().backup_bytes, 0u) << script;
    ASSERT_TRUE(ok(gpupool_sim_script(kDevice, "")));
    ASSERT_TRUE(ok(gpupool_prepare_backup(pool, kBytes)));
    EXPECT_EQ(pool.stats().backup_bytes, kBytes);
    ASSERT_TRUE(ok(gpupool_prepare_backup(pool, 0)));
  }
}

TEST_F(Sleep, S40_HalfAMillionMappings) {
  restart(2, 3 * (uint64_t{1} << 40));
  gpupool_config_t config = sim_config();
  config.max_chunk_bytes = kGranule;
  PoolUnderTest pool(config);
  const gpupool_ptr_t block = pool.malloc(uint64_t{1} << 40);
  EXPECT_EQ(pool.stats().all.chunks.current, uint64_t{1} << 19);
  EXPECT_EQ(fall_asleep(pool, GPUPOOL_SLEEP_MODE_DROP).released_bytes, uint64_t{1} << 40);
  wake(pool);
  pool.free(block);
}

// S21: by the prices of an H200, the driver's time hides behind the bus, from the first time after prepare.
TEST_F(Sleep, S21_SavingRunsAtTheSpeedOfTheBus) {
  restart(2, 16 * kGiB);
  PoolUnderTest pool(sim_config());
  const gpupool_ptr_t block = pool.malloc(8 * kGiB);
  ASSERT_TRUE(ok(gpupool_prepare_backup(pool, 8 * kGiB)));
  for (int cycle = 0; cycle < 2; ++cycle) {
    const auto bus = static_cast<double>(8 * kGiB) / 55;
    EXPECT_LE(static_cast<double>(fall_asleep(pool).nanoseconds), bus / 0.85);
    EXPECT_LE(static_cast<double>(wake(pool).nanoseconds), bus / 0.85);
  }
  pool.free(block);
}

// Without prepare, page-locking is what a first sleep pays for.
TEST_F(Sleep, S21_PageLockingHasItsPrice) {
  restart(2, 2 * kGiB);
  PoolUnderTest pool(sim_config());
  const gpupool_ptr_t block = pool.malloc(kGiB);
  const uint64_t first = fall_asleep(pool).nanoseconds;
  wake(pool, GPUPOOL_SLEEP_FLAG_RETAIN_BACKUP);
  const uint64_t second = fall_asleep(pool).nanoseconds;
  wake(pool);
  EXPECT_GE(first, 4 * second);
  pool.free(block);
}

TEST_F(Sleep, S21_SixtyGibibytesAreDroppedAndAwakeInTime) {
  restart(2, 80 * kGiB);
  PoolUnderTest pool(sim_config());
  const gpupool_ptr_t block = pool.malloc(60 * kGiB);
  EXPECT_LE(fall_asleep(pool, GPUPOOL_SLEEP_MODE_DROP).nanoseconds, 120'000'000u);
  EXPECT_LE(wake(pool).nanoseconds, 180'000'000u);
  // From now on in coarse chunks.
  EXPECT_LE(fall_asleep(pool, GPUPOOL_SLEEP_MODE_DROP).nanoseconds, 40'000'000u);
  EXPECT_LE(wake(pool).nanoseconds, 30'000'000u);
  pool.free(block);
}

}  // namespace
}  // namespace sleep_test
