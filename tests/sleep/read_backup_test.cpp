// SPDX-License-Identifier: Apache-2.0
// Copies of what sleeping blocks held: right to the byte, refused in words, and safe from wakes meanwhile.
#include <atomic>
#include <thread>
#include <vector>

#include "sleep_fixture.hpp"

namespace sleep_test {
namespace {

using Bytes = std::vector<unsigned char>;

gpupool_status_t copy_of(gpupool_t* pool, gpupool_ptr_t from, Bytes& to) {
  return gpupool_read_backup(pool, from, to.data(), to.size());
}

TEST_F(Sleep, ABackupIsReadAcrossItsPieces) {
  PoolUnderTest pool(sim_config());
  ASSERT_TRUE(ok(gpupool_prepare_backup(pool, 3 * kMiB)));  // a piece that ends inside the block
  const gpupool_ptr_t block = pool.malloc(10 * kMiB);
  write_pattern(block, 10 * kMiB, 4);
  fall_asleep(pool);
  const void* data = nullptr;
  uint64_t in_piece = 0;
  ASSERT_TRUE(ok(gpupool_backup(pool, block, &data, &in_piece)));
  ASSERT_LT(in_piece, 10 * kMiB);
  Bytes all(10 * kMiB);
  ASSERT_TRUE(ok(copy_of(pool, block, all)));
  EXPECT_TRUE(has_pattern(reinterpret_cast<uintptr_t>(all.data()), all.size(), 4));
  for (const uint64_t offset : {uint64_t{1}, in_piece - 3, 10 * kMiB - 7}) {
    Bytes some(7);
    ASSERT_TRUE(ok(copy_of(pool, block + offset, some)));
    EXPECT_EQ(some, Bytes(all.begin() + static_cast<ptrdiff_t>(offset),
                          all.begin() + static_cast<ptrdiff_t>(offset) + 7));
  }
  wake(pool);
  pool.free(block);
}

TEST_F(Sleep, ABackupThatIsNotThereIsRefused) {
  gpupool_config_t config = sim_config();
  config.max_chunk_bytes = 2 * kMiB;
  PoolUnderTest pool(config);
  const gpupool_ptr_t kept = pool.malloc(4 * kMiB);
  const gpupool_ptr_t dropped = pool.malloc(4 * kMiB);
  write_pattern(kept, 4 * kMiB, 1);
  Bytes bytes(4 * kMiB);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNAVAILABLE, copy_of(pool, kept, bytes)));
  ASSERT_TRUE(ok(gpupool_set_keep(pool, kept, 1)));
  fall_asleep(pool, GPUPOOL_SLEEP_MODE_DROP);
  ASSERT_TRUE(ok(copy_of(pool, kept, bytes)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNAVAILABLE, copy_of(pool, dropped, bytes)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, copy_of(pool, kept + 1, bytes)));
  EXPECT_TRUE(
      refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_read_backup(pool, kept, bytes.data(), ~uint64_t{0})));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_read_backup(pool, kept, nullptr, 1)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, copy_of(pool, 4096, bytes)));
  EXPECT_TRUE(ok(gpupool_read_backup(pool, kept, bytes.data(), 0)));
  pool.free(kept);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, copy_of(pool, kept, bytes)));
  wake(pool);
  // A block that sleeps alone.
  write_pattern(dropped, 4 * kMiB, 2);
  ASSERT_TRUE(ok(gpupool_sleep_block(pool, dropped, nullptr, nullptr)));
  ASSERT_TRUE(ok(copy_of(pool, dropped, bytes)));
  EXPECT_TRUE(has_pattern(reinterpret_cast<uintptr_t>(bytes.data()), bytes.size(), 2));
  wake(pool);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNAVAILABLE, copy_of(pool, dropped, bytes)));
  pool.free(dropped);
}

// The block has another pattern in each sleep, and its backup's memory goes each time. Who reads gets all of
// one pattern, or is refused.
TEST_F(Sleep, ABackupIsReadWhileOthersWakeThePool) {
  constexpr uint64_t kSize = 4 * kMiB;
  PoolUnderTest pool(sim_config());
  const gpupool_ptr_t block = pool.malloc(kSize);
  std::atomic<bool> done{false};
  std::atomic<int> copies{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      Bytes bytes(kSize);
      while (!done) {
        const gpupool_status_t status = copy_of(pool, block, bytes);
        if (status != GPUPOOL_SUCCESS) {
          EXPECT_EQ(status, GPUPOOL_ERROR_UNAVAILABLE);
          continue;
        }
        ++copies;
        EXPECT_TRUE(is_filled(reinterpret_cast<uintptr_t>(bytes.data()), kSize, bytes[0]));
      }
    });
  }
  for (int turn = 0; turn < 40 || copies < 10; ++turn) {
    memset(bytes_at(block), turn & 0xff, kSize);
    ASSERT_TRUE(ok(try_sleep(pool)));
    std::this_thread::sleep_for(std::chrono::microseconds(turn * 137 % 2000));
    ASSERT_TRUE(ok(try_wake(pool)));
  }
  done = true;
  for (std::thread& reader : readers) reader.join();
  pool.free(block);
}

}  // namespace
}  // namespace sleep_test
