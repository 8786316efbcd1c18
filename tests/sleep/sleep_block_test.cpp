// SPDX-License-Identifier: Apache-2.0
// Single blocks that sleep while their pool is awake.
#include <sys/wait.h>
#include <unistd.h>

#include "block_fixture.hpp"

namespace sleep_test {
namespace {

TEST_F(Sleep, OneBlockSleepsAndThePoolGoesOn) {
  PoolUnderTest pool(small_chunks());
  const gpupool_ptr_t block = pool.malloc(20 * kMiB);
  const gpupool_ptr_t other = pool.malloc(20 * kMiB, 3);
  write_pattern(block, 20 * kMiB, 1);
  write_pattern(other, 20 * kMiB, 2);
  const uint64_t reserved = pool.reserved();
  const gpupool_sleep_result_t slept = sleep_block(pool, block);
  EXPECT_EQ(slept.released_bytes, 20 * kMiB);
  EXPECT_EQ(slept.saved_bytes, 20 * kMiB);
  EXPECT_EQ(slept.retained_bytes, 0u);
  EXPECT_EQ(pool.reserved(), reserved - 20 * kMiB);
  EXPECT_EQ(kCapacity - device_free(), pool.reserved());
  EXPECT_EQ(pool.stats().asleep_bytes, 20 * kMiB);
  EXPECT_GE(pool.stats().backup_bytes, 20 * kMiB);
  EXPECT_EQ(state_of(pool), GPUPOOL_SLEEP_STATE_AWAKE);
  EXPECT_EQ(pool.info(block).state, GPUPOOL_BLOCK_ASLEEP);
  EXPECT_EQ(pool.info(other).state, GPUPOOL_BLOCK_LIVE);
  // The pool goes on, with the memory that came free.
  const gpupool_ptr_t more = pool.malloc(60 * kMiB);
  write_pattern(more, 60 * kMiB, 3);
  uint64_t released = 0;
  EXPECT_TRUE(ok(gpupool_empty(pool, &released)));
  EXPECT_TRUE(ok(gpupool_record_stream(pool, block, 3)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNSUPPORTED, gpupool_protect(pool, block, GPUPOOL_ACCESS_READ)));
  pool.validate();
  EXPECT_EQ(wake_block(pool, block).created_bytes, 20 * kMiB);
  EXPECT_TRUE(has_pattern(block, 20 * kMiB, 1));
  EXPECT_TRUE(has_pattern(other, 20 * kMiB, 2));
  EXPECT_TRUE(has_pattern(more, 60 * kMiB, 3));
  EXPECT_EQ(pool.stats().asleep_bytes, 0u);
  EXPECT_EQ(pool.stats().backup_bytes, 0u);
  pool.free(block);
  pool.free(other, 3);
  pool.free(more);
}

TEST_F(Sleep, ABlockSleepsAndWakesTwiceWithoutHarm) {
  PoolUnderTest pool(small_chunks());
  const gpupool_ptr_t block = pool.malloc(8 * kMiB);
  write_pattern(block, 8 * kMiB, 1);
  EXPECT_EQ(wake_block(pool, block).created_bytes, 0u);
  EXPECT_EQ(sleep_block(pool, block).released_bytes, 8 * kMiB);
  EXPECT_EQ(sleep_block(pool, block).released_bytes, 0u);
  EXPECT_EQ(wake_block(pool, block).saved_bytes, 8 * kMiB);
  EXPECT_EQ(wake_block(pool, block).saved_bytes, 0u);
  EXPECT_TRUE(has_pattern(block, 8 * kMiB, 1));
  pool.free(block);
}

TEST_F(Sleep, OnlyChunksInsideTheBlockSleep) {
  PoolUnderTest pool(small_chunks());
  const gpupool_ptr_t before = pool.malloc(3 * kMiB);
  const gpupool_ptr_t block = pool.malloc(9 * kMiB);
  const gpupool_ptr_t behind = pool.malloc(3 * kMiB);
  write_pattern(before, 3 * kMiB, 1);
  write_pattern(block, 9 * kMiB, 2);
  write_pattern(behind, 3 * kMiB, 3);
  const gpupool_sleep_result_t slept = sleep_block(pool, block);
  EXPECT_GE(slept.released_bytes, 6 * kMiB);
  EXPECT_LE(slept.released_bytes, 8 * kMiB);
  EXPECT_TRUE(has_pattern(before, 3 * kMiB, 1));
  EXPECT_TRUE(has_pattern(behind, 3 * kMiB, 3));
  pool.free(before);
  wake_block(pool, block);
  EXPECT_TRUE(has_pattern(block, 9 * kMiB, 2));
  const gpupool_ptr_t small = pool.malloc(512);
  EXPECT_EQ(sleep_block(pool, small).released_bytes, 0u);
  EXPECT_EQ(pool.info(small).state, GPUPOOL_BLOCK_LIVE);
  for (const gpupool_ptr_t each : {block, behind, small}) pool.free(each);
}

TEST_F(Sleep, ABlockIsDroppedUnlessItIsKept) {
  PoolUnderTest pool(small_chunks());
  const gpupool_ptr_t dropped = pool.malloc(8 * kMiB);
  const gpupool_ptr_t kept = pool.malloc(8 * kMiB);
  write_pattern(kept, 8 * kMiB, 1);
  ASSERT_TRUE(ok(gpupool_set_keep(pool, kept, 1)));
  EXPECT_EQ(sleep_block(pool, dropped, GPUPOOL_SLEEP_MODE_DROP).dropped_bytes, 8 * kMiB);
  EXPECT_EQ(sleep_block(pool, kept, GPUPOOL_SLEEP_MODE_DROP).saved_bytes, 8 * kMiB);
  ASSERT_TRUE(ok(gpupool_set_keep(pool, kept, 0)));
  const void* data = nullptr;
  uint64_t bytes = 0;
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNAVAILABLE, gpupool_backup(pool, dropped, &data, &bytes)));
  ASSERT_TRUE(ok(gpupool_backup(pool, kept, &data, &bytes)));
  EXPECT_EQ(bytes, 8 * kMiB);
  EXPECT_TRUE(has_pattern(reinterpret_cast<gpupool_ptr_t>(data), bytes, 1));
  wake_block(pool, dropped, 0xab);
  EXPECT_TRUE(is_filled(dropped, 8 * kMiB, 0xab));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNAVAILABLE, gpupool_backup(pool, dropped, &data, &bytes)));
  pool.free(kept);  // asleep, and no longer marked
  EXPECT_EQ(pool.stats().asleep_bytes, 0u);
  pool.free(dropped);
}

TEST_F(Sleep, AFreeOfASleepingBlockTakesNoMemoryAndItsAddressesServeOthers) {
  PoolUnderTest pool(small_chunks());
  for (int cycle = 0; cycle < 20; ++cycle) {
    const gpupool_ptr_t first = pool.malloc(7 * kMiB);
    const gpupool_ptr_t block = pool.malloc(13 * kMiB);
    const gpupool_ptr_t last = pool.malloc(5 * kMiB);
    write_pattern(first, 7 * kMiB, 1);
    write_pattern(last, 5 * kMiB, 2);
    sleep_block(pool, block);
    const uint64_t reserved = pool.reserved();
    pool.free(block);
    pool.validate();
    EXPECT_EQ(pool.reserved(), reserved);
    EXPECT_EQ(pool.stats().asleep_bytes, 0u);
    EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, gpupool_wake_block(pool, block, nullptr, nullptr)));
    const gpupool_ptr_t next = pool.malloc(12 * kMiB);
    write_pattern(next, 12 * kMiB, 3);
    EXPECT_TRUE(has_pattern(first, 7 * kMiB, 1));
    EXPECT_TRUE(has_pattern(last, 5 * kMiB, 2));
    for (const gpupool_ptr_t each : {first, last, next}) pool.free(each);
  }
  EXPECT_TRUE(ok(gpupool_empty(pool, nullptr)));
  EXPECT_EQ(pool.reserved(), 0u);
}

/// Its sleep has waited for all work that used it, and nothing may use it asleep. So its free waits for
/// nobody.
TEST_F(Sleep, AFreedBlockIsNotAsleepWhateverStreamFreesIt) {
  constexpr gpupool_stream_t kBusy = 7;
  for (const gpupool_stream_t stream : {gpupool_stream_t{0}, kBusy, kUnknownStream}) {
    for (const bool is_recorded : {false, true}) {
      PoolUnderTest pool(small_chunks());
      pool.free(pool.malloc(kMiB, kBusy), kBusy);  // a stream that the pool has seen
      const gpupool_ptr_t before = pool.malloc(3 * kMiB);
      const gpupool_ptr_t block = pool.malloc(9 * kMiB);
      if (is_recorded) pool.record_stream(block, kBusy);
      sleep_block(pool, block);
      ASSERT_TRUE(ok(gpupool_sim_work(kDevice, kBusy, 0, 0, 1'000'000)));
      pool.free(block, stream);
      EXPECT_EQ(pool.stats().asleep_bytes, 0u) << stream << is_recorded;
      pool.validate();
      // Nothing is left to wake but the host's memory.
      EXPECT_EQ(wake(pool).created_bytes, 0u);
      EXPECT_EQ(pool.stats().backup_bytes, 0u) << stream << is_recorded;
      pool.free(before);
    }
  }
}

/// So is one that is freed in a sleeping pool: the wake creates no memory for it.
TEST_F(Sleep, AWakeCreatesNothingForWhatWasFreedAsleep) {
  constexpr gpupool_stream_t kBusy = 7;
  for (const gpupool_stream_t stream : {gpupool_stream_t{0}, kBusy, kUnknownStream}) {
    PoolUnderTest pool(small_chunks());
    pool.free(pool.malloc(kMiB, kBusy), kBusy);
    const gpupool_ptr_t block = pool.malloc(8 * kMiB);
    const gpupool_ptr_t alone = pool.malloc(8 * kMiB);
    sleep_block(pool, alone);
    fall_asleep(pool);
    ASSERT_TRUE(ok(gpupool_sim_work(kDevice, kBusy, 0, 0, 1'000'000)));
    pool.free(block, stream);
    pool.free(alone, stream);
    EXPECT_EQ(wake(pool).created_bytes, 0u) << stream;
    EXPECT_EQ(pool.stats().asleep_bytes, 0u);
    EXPECT_EQ(pool.stats().backup_bytes, 0u);
  }
}

TEST_F(Sleep, AWakeByTagFreesWhatAFreedBlockHadSaved) {
  PoolUnderTest pool(small_chunks());
  ASSERT_TRUE(ok(gpupool_set_name(pool, "weights")));
  const gpupool_ptr_t block = pool.malloc(8 * kMiB);
  sleep_block(pool, block);
  pool.free(block);
  ASSERT_TRUE(ok(gpupool_wake_tag("weights", nullptr, nullptr)));
  EXPECT_EQ(pool.stats().backup_bytes, 0u);
}

TEST_F(Sleep, TheWholePoolSleepsAndWakesOverSleepingBlocks) {
  PoolUnderTest pool(small_chunks());
  std::vector<gpupool_ptr_t> blocks;
  for (uint64_t i = 0; i < 6; ++i) {
    blocks.push_back(pool.malloc(9 * kMiB));
    write_pattern(blocks[i], 9 * kMiB, i);
  }
  for (const size_t i : {1, 2, 4}) sleep_block(pool, blocks[i]);
  EXPECT_EQ(fall_asleep(pool).released_bytes + 18 * kMiB >= 36 * kMiB, true);
  EXPECT_EQ(device_free(), kCapacity);
  pool.free(blocks[4]);
  wake_block(pool, blocks[2]);
  EXPECT_TRUE(has_pattern(blocks[2], 9 * kMiB, 2));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNAVAILABLE, gpupool_sleep_block(pool, blocks[2], nullptr, nullptr)));
  EXPECT_TRUE(ok(gpupool_sleep_block(pool, blocks[1], nullptr, nullptr)));
  wake(pool);
  EXPECT_EQ(pool.stats().asleep_bytes, 0u);
  for (const size_t i : {0, 1, 2, 3, 5}) EXPECT_TRUE(has_pattern(blocks[i], 9 * kMiB, i)) << i;
  // In an awake pool, wake brings the sleeping blocks.
  for (const size_t i : {0, 3}) sleep_block(pool, blocks[i]);
  EXPECT_GE(wake(pool).created_bytes, 12 * kMiB);
  EXPECT_EQ(pool.stats().asleep_bytes, 0u);
  for (const size_t i : {0, 1, 2, 3, 5}) EXPECT_TRUE(has_pattern(blocks[i], 9 * kMiB, i)) << i;
  for (const size_t i : {0, 1, 2, 3, 5}) pool.free(blocks[i]);
}

TEST_F(Sleep, AGraphRunsAgainAfterItsBlockHasSlept) {
  for (const uint32_t flags : {0u, static_cast<uint32_t>(GPUPOOL_FLAG_CAPTURE_AWARE)}) {
    gpupool_config_t config = small_chunks();
    config.flags = flags;
    PoolUnderTest pool(config);
    uint64_t capture = 0;
    ASSERT_TRUE(ok(gpupool_sim_capture(kDevice, 11, 1)));
    ASSERT_TRUE(ok(gpupool_capture_id(pool, 11, &capture)));
    const gpupool_ptr_t block = pool.malloc(8 * kMiB, 11);
    ASSERT_TRUE(ok(gpupool_fill(pool, block, 7, 8 * kMiB, 11)));
    EXPECT_TRUE(refused(GPUPOOL_ERROR_UNAVAILABLE, gpupool_sleep_block(pool, block, nullptr, nullptr)));
    EXPECT_EQ(pool.info(block).state, GPUPOOL_BLOCK_LIVE);
    ASSERT_TRUE(ok(gpupool_sim_capture(kDevice, 11, 0)));
    for (int run = 0; run < 3; ++run) {
      ASSERT_TRUE(ok(gpupool_sim_launch(kDevice, capture, 11)));
      EXPECT_EQ(sleep_block(pool, block).released_bytes, 8 * kMiB);
      wake_block(pool, block);
      EXPECT_TRUE(is_filled(block, 8 * kMiB, 7));
    }
    ASSERT_TRUE(ok(gpupool_synchronize(pool)));
    ASSERT_TRUE(ok(gpupool_release_capture(pool, capture)));
    pool.free(block, 11);
  }
}

TEST_F(Sleep, WhatCannotSleepAloneIsRefused) {
  PoolUnderTest pool(small_chunks());
  const gpupool_ptr_t block = pool.malloc(8 * kMiB);
  const auto try_block = [&](gpupool_ptr_t ptr) { return gpupool_sleep_block(pool, ptr, nullptr, nullptr); };
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, try_block(block + 512)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, try_block(0)));
  ASSERT_TRUE(ok(gpupool_protect(pool, block, GPUPOOL_ACCESS_READ)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNSUPPORTED, try_block(block)));
  ASSERT_TRUE(ok(gpupool_protect(pool, block, GPUPOOL_ACCESS_WRITE)));
  pool.free(block);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, try_block(block)));
  gpupool_config_t config = sim_config();
  config.mode = GPUPOOL_MODE_DRIVER;
  PoolUnderTest native(config);
  const gpupool_ptr_t other = native.malloc(8 * kMiB);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNSUPPORTED, gpupool_sleep_block(native, other, nullptr, nullptr)));
  native.free(other);
}

TEST_F(Sleep, TooLittleRoomLeavesTheBlockAsleep) {
  PoolUnderTest pool(small_chunks());
  const gpupool_ptr_t block = pool.malloc(16 * kMiB);
  write_pattern(block, 16 * kMiB, 1);
  sleep_block(pool, block);
  const gpupool_ptr_t other = pool.malloc(16 * kMiB);
  ASSERT_TRUE(ok(gpupool_set_limit(pool, 20 * kMiB)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, gpupool_wake_block(pool, block, nullptr, nullptr)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, try_wake(pool)));
  EXPECT_EQ(pool.info(block).state, GPUPOOL_BLOCK_ASLEEP);
  pool.free(other);
  wake_block(pool, block);  // what is cached goes first
  EXPECT_TRUE(has_pattern(block, 16 * kMiB, 1));
  pool.free(block);
}

TEST_F(Sleep, AHostThatIsShortLeavesTheBlockAwake) {
  restart(1, kCapacity, 8 * kMiB);
  PoolUnderTest pool(small_chunks());
  const gpupool_ptr_t block = pool.malloc(16 * kMiB);
  write_pattern(block, 16 * kMiB, 1);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_HOST_OUT_OF_MEMORY, gpupool_sleep_block(pool, block, nullptr, nullptr)));
  EXPECT_EQ(pool.info(block).state, GPUPOOL_BLOCK_LIVE);
  EXPECT_TRUE(has_pattern(block, 16 * kMiB, 1));
  pool.free(block);
}

TEST_F(Sleep, PageLockedMemoryIsReusedBetweenBlocks) {
  PoolUnderTest pool(small_chunks());
  std::vector<gpupool_ptr_t> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(pool.malloc(8 * kMiB));
  ASSERT_TRUE(ok(gpupool_prepare_backup(pool, 16 * kMiB)));
  for (uint64_t cycle = 0; cycle < 40; ++cycle) {
    const gpupool_ptr_t a = blocks[cycle % 4];
    const gpupool_ptr_t b = blocks[(cycle + 1) % 4];
    write_pattern(a, 8 * kMiB, cycle);
    write_pattern(b, 8 * kMiB, cycle + 100);
    sleep_block(pool, a);
    sleep_block(pool, b);
    wake_block(pool, a);
    sleep_block(pool, blocks[(cycle + 2) % 4]);
    EXPECT_EQ(pool.stats().backup_bytes, 16 * kMiB);
    wake_block(pool, b);
    wake_block(pool, blocks[(cycle + 2) % 4]);
    EXPECT_TRUE(has_pattern(a, 8 * kMiB, cycle));
    EXPECT_TRUE(has_pattern(b, 8 * kMiB, cycle + 100));
  }
  for (const gpupool_ptr_t block : blocks) pool.free(block);
}

TEST_F(Sleep, APoolIsDestroyedWithSleepingBlocks) {
  for (const bool frees_first : {false, true}) {
    gpupool_t* pool = nullptr;
    const gpupool_config_t config = small_chunks();
    ASSERT_TRUE(ok(gpupool_create(&config, &pool)));
    gpupool_ptr_t block = 0;
    ASSERT_TRUE(ok(gpupool_malloc(pool, 8 * kMiB, 0, &block)));
    sleep_block(pool, block);
    if (frees_first) {
      ASSERT_TRUE(ok(gpupool_free(pool, block, 0)));
    }
    EXPECT_TRUE(ok(gpupool_destroy(pool)));
    if (!frees_first) {
      EXPECT_TRUE(ok(gpupool_free(pool, block, 0)));
    }
    EXPECT_EQ(device_free(), kCapacity);
  }
}

TEST_F(Sleep, AForkedChildIsRefusedAndTheParentsBlockWakes) {
  PoolUnderTest pool(small_chunks());
  const gpupool_ptr_t block = pool.malloc(8 * kMiB);
  write_pattern(block, 8 * kMiB, 1);
  sleep_block(pool, block);
  const pid_t child = fork();
  if (child == 0) {
    const bool right = gpupool_wake_block(pool, block, nullptr, nullptr) == GPUPOOL_ERROR_FORKED &&
                       gpupool_sleep_block(pool, block, nullptr, nullptr) == GPUPOOL_ERROR_FORKED &&
                       gpupool_set_sleep_hooks(pool, nullptr, nullptr, nullptr) == GPUPOOL_ERROR_FORKED;
    _exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  wake_block(pool, block);
  EXPECT_TRUE(has_pattern(block, 8 * kMiB, 1));
  pool.free(block);
}

TEST_F(Sleep, DebugModesLeaveSleepingBlocksAlone) {
  ASSERT_TRUE(ok(gpupool_set_debug("poison,canary,quarantine=16777216")));
  PoolUnderTest pool(small_chunks());
  ASSERT_TRUE(ok(gpupool_set_debug(nullptr)));
  const gpupool_ptr_t block = pool.malloc(9 * kMiB);
  sleep_block(pool, block);
  uint64_t count = 0;
  EXPECT_TRUE(ok(gpupool_check(pool, &count, nullptr, 0)));
  EXPECT_EQ(count, 0u);
  pool.free(block);
  EXPECT_EQ(pool.stats().asleep_bytes, 0u);
  pool.validate();
}

}  // namespace
}  // namespace sleep_test
