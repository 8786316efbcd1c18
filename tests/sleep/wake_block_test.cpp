// SPDX-License-Identifier: Apache-2.0
// Single blocks that come back before their pool does.
#include <atomic>
#include <thread>

#include "block_fixture.hpp"

namespace sleep_test {
namespace {

gpupool_status_t try_wake_block(gpupool_t* pool, gpupool_ptr_t block) {
  return gpupool_wake_block(pool, block, nullptr, nullptr);
}

TEST_F(Sleep, OneBlockComesBackBeforeTheOthers) {
  PoolUnderTest pool(sim_config());
  std::vector<gpupool_ptr_t> blocks;
  for (uint64_t i = 0; i < 8; ++i) {
    blocks.push_back(pool.malloc(20 * kMiB));
    write_pattern(blocks[i], 20 * kMiB, i);
  }
  EXPECT_EQ(wake_block(pool, blocks[0]).created_bytes, 0u);  // it is awake
  fall_asleep(pool);
  const gpupool_sleep_result_t woken = wake_block(pool, blocks[5]);
  EXPECT_GE(woken.saved_bytes, 20 * kMiB);
  EXPECT_LT(woken.created_bytes, 60 * kMiB);
  EXPECT_EQ(pool.reserved(), woken.created_bytes);
  EXPECT_EQ(kCapacity - device_free(), woken.created_bytes);
  EXPECT_EQ(state_of(pool), GPUPOOL_SLEEP_STATE_ASLEEP);
  EXPECT_EQ(pool.info(blocks[5]).state, GPUPOOL_BLOCK_LIVE);
  EXPECT_EQ(pool.info(blocks[0]).state, GPUPOOL_BLOCK_ASLEEP);
  EXPECT_TRUE(has_pattern(blocks[5], 20 * kMiB, 5));
  write_pattern(blocks[5], 20 * kMiB, 55);
  EXPECT_EQ(wake_block(pool, blocks[5]).created_bytes, 0u);
  const void* data = nullptr;
  uint64_t bytes = 0;
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNAVAILABLE, gpupool_backup(pool, blocks[5], &data, &bytes)));
  EXPECT_TRUE(ok(gpupool_backup(pool, blocks[0], &data, &bytes)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_ASLEEP, pool.try_malloc(512)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNAVAILABLE, try_sleep(pool)));
  ASSERT_TRUE(ok(gpupool_set_name(pool, "layers")));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNAVAILABLE, gpupool_sleep_tag("layers", nullptr, nullptr)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, try_wake_block(pool, blocks[1] + 512)));
  const gpupool_sleep_result_t rest = wake(pool);
  EXPECT_LE(rest.saved_bytes, 7 * 20 * kMiB);
  for (uint64_t i = 0; i < 8; ++i) {
    EXPECT_TRUE(has_pattern(blocks[i], 20 * kMiB, i == 5 ? 55 : i)) << i;
  }
  fall_asleep(pool);
  wake(pool);
  EXPECT_TRUE(has_pattern(blocks[5], 20 * kMiB, 55));
  for (const gpupool_ptr_t block : blocks) pool.free(block);
}

// What shares its chunks comes too, and is not brought back a second time over what was written since.
TEST_F(Sleep, NeighboursInTheSameChunkComeAlong) {
  PoolUnderTest pool(sim_config());
  const gpupool_ptr_t first = pool.malloc(4000);
  const gpupool_ptr_t second = pool.malloc(4000);
  const gpupool_ptr_t large = pool.malloc(40 * kMiB);
  const gpupool_ptr_t beside = pool.malloc(3 * kMiB);
  for (const auto& [block, size] : {std::pair{first, uint64_t{4000}}, {second, uint64_t{4000}}}) {
    write_pattern(block, size, block);
  }
  write_pattern(large, 40 * kMiB, large);
  write_pattern(beside, 3 * kMiB, beside);
  fall_asleep(pool);
  wake_block(pool, first);
  EXPECT_TRUE(has_pattern(second, 4000, second));
  write_pattern(second, 4000, 1);
  wake_block(pool, beside);
  EXPECT_TRUE(has_pattern(beside, 3 * kMiB, beside));
  write_pattern(beside, 3 * kMiB, 2);
  wake_block(pool, large);
  EXPECT_TRUE(has_pattern(large, 40 * kMiB, large));
  wake(pool);
  EXPECT_TRUE(has_pattern(first, 4000, first));
  EXPECT_TRUE(has_pattern(second, 4000, 1));
  EXPECT_TRUE(has_pattern(large, 40 * kMiB, large));
  EXPECT_TRUE(has_pattern(beside, 3 * kMiB, 2));
  for (const gpupool_ptr_t block : {first, second, large, beside}) pool.free(block);
}

TEST_F(Sleep, ADroppedBlockIsFilledByItself) {
  PoolUnderTest pool(sim_config());
  const gpupool_ptr_t kept = pool.malloc(6 * kMiB);
  const gpupool_ptr_t dropped = pool.malloc(6 * kMiB);
  const gpupool_ptr_t other = pool.malloc(60 * kMiB);
  write_pattern(kept, 6 * kMiB, 1);
  ASSERT_TRUE(ok(gpupool_set_keep(pool, kept, 1)));
  fall_asleep(pool, GPUPOOL_SLEEP_MODE_DROP);
  EXPECT_GE(wake_block(pool, dropped, 0xab).dropped_bytes, 6 * kMiB);
  EXPECT_TRUE(is_filled(dropped, 6 * kMiB, 0xab));
  EXPECT_EQ(wake_block(pool, kept, 0xcd).dropped_bytes % (2 * kMiB), 0u);
  EXPECT_TRUE(has_pattern(kept, 6 * kMiB, 1));
  EXPECT_TRUE(is_filled(dropped, 6 * kMiB, 0xab));
  wake(pool, GPUPOOL_SLEEP_FLAG_FILL, 0xef);
  EXPECT_TRUE(is_filled(dropped, 6 * kMiB, 0xab));
  EXPECT_TRUE(is_filled(other + 2 * kMiB, 56 * kMiB, 0xef));
  for (const gpupool_ptr_t block : {kept, dropped, other}) pool.free(block);
}

TEST_F(Sleep, WokenBlocksAreFreedAsleepAndThePoolEnds) {
  for (const bool with_wake : {false, true}) {
    gpupool_t* pool = nullptr;
    const gpupool_config_t config = sim_config();
    ASSERT_TRUE(ok(gpupool_create(&config, &pool)));
    gpupool_ptr_t a = 0;
    gpupool_ptr_t b = 0;
    ASSERT_TRUE(ok(gpupool_malloc(pool, 30 * kMiB, 0, &a)));
    ASSERT_TRUE(ok(gpupool_malloc(pool, 30 * kMiB, 3, &b)));
    fall_asleep(pool);
    wake_block(pool, a);
    EXPECT_TRUE(ok(gpupool_free(pool, a, 0)));
    EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, try_wake_block(pool, a)));
    if (with_wake) {
      wake(pool);
    }
    EXPECT_TRUE(ok(gpupool_free(pool, b, 3)));
    EXPECT_TRUE(ok(gpupool_destroy(pool)));
    EXPECT_EQ(device_free(), kCapacity);
  }
}

TEST_F(Sleep, ABlockThatCannotComeBackStaysAsItWas) {
  PoolUnderTest pool(sim_config());
  const gpupool_ptr_t block = pool.malloc(20 * kMiB);
  const gpupool_ptr_t other = pool.malloc(20 * kMiB);
  write_pattern(block, 20 * kMiB, 1);
  write_pattern(other, 20 * kMiB, 2);
  fall_asleep(pool);
  pool.set_limit(8 * kMiB);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, try_wake_block(pool, block)));
  pool.set_limit(0);
  const uint64_t asleep = pool.stats().asleep_bytes;
  for (const char* call : {"create", "map", "set_access", "copy", "host_wait", "event_record"}) {
    for (int n = 1; n <= 3; ++n) {
      script(std::string(call) + ":" + std::to_string(n));
      const gpupool_status_t status = try_wake_block(pool, block);
      script("");
      if (status == GPUPOOL_SUCCESS) {  // it does not call it so often
        wake(pool);
        fall_asleep(pool);
      }
      EXPECT_EQ(pool.stats().asleep_bytes, asleep) << call << n;
      EXPECT_EQ(state_of(pool), GPUPOOL_SLEEP_STATE_ASLEEP);
      pool.validate();
    }
  }
  wake_block(pool, block);
  EXPECT_TRUE(has_pattern(block, 20 * kMiB, 1));
  wake(pool);
  EXPECT_TRUE(has_pattern(other, 20 * kMiB, 2));
  pool.free(block);
  pool.free(other);
}

// By the prices of an H200: 60 GiB of weights, of which the first layer is wanted at once, while a thread
// goes on through the others.
TEST_F(Sleep, TheFirstBlockOfSixtyGibibytesIsThereInTenMilliseconds) {
  restart(2, 80 * kGiB);
  PoolUnderTest pool(sim_config());
  std::vector<gpupool_ptr_t> layers;
  for (int i = 0; i < 240; ++i) layers.push_back(pool.malloc(256 * kMiB));
  ASSERT_TRUE(ok(gpupool_prepare_backup(pool, 60 * kGiB)));
  for (int cycle = 0; cycle < 2; ++cycle) {
    fall_asleep(pool);
    EXPECT_LE(wake_block(pool, layers[0]).nanoseconds, 10'000'000u);
    std::atomic<bool> over{false};
    std::thread rest([&] {
      for (const gpupool_ptr_t layer : layers) EXPECT_TRUE(ok(try_wake_block(pool, layer)));
      EXPECT_TRUE(ok(try_wake(pool)));
      over = true;
    });
    EXPECT_TRUE(ok(try_wake_block(pool, layers[200])));  // out of turn
    EXPECT_EQ(pool.info(layers[200]).state, GPUPOOL_BLOCK_LIVE);
    rest.join();
    EXPECT_EQ(state_of(pool), GPUPOOL_SLEEP_STATE_AWAKE);
  }
  for (const gpupool_ptr_t layer : layers) pool.free(layer);
}

}  // namespace
}  // namespace sleep_test
