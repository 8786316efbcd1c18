// SPDX-License-Identifier: Apache-2.0
// gpupool.hpp: blocks, streams and data.
#include <gtest/gtest.h>

#include <array>
#include <gpupool/gpupool.hpp>
#include <numeric>
#include <vector>

#include "cpp/fixture.hpp"

namespace {

using gpupool::Block;
using gpupool::Pool;
using gpupool::Stream;

uint64_t live_blocks(const Pool& pool) {
  return pool.stats().all.allocated_blocks.current;
}

TEST(Block, FreesItselfOnce) {
  static_assert(!std::is_copy_constructible_v<Block> && !std::is_copy_assignable_v<Block>);
  static_assert(std::is_nothrow_move_constructible_v<Block> && std::is_nothrow_move_assignable_v<Block>);
  Pool pool(kSim);
  {
    Block block(pool, 1000);
    EXPECT_TRUE(block);
    EXPECT_EQ(block.size(), 1000u);
    EXPECT_EQ(block.pool(), pool.handle());
    const Block moved(std::move(block));
    EXPECT_FALSE(block);  // NOLINT(bugprone-use-after-move): that is the promise
    EXPECT_EQ(block.size(), 0u);
    EXPECT_EQ(live_blocks(pool), 1u);
  }
  EXPECT_EQ(live_blocks(pool), 0u);
}

TEST(Block, AssignmentFreesTheOldOne) {
  Pool pool(kSim);
  Block block(pool, 1000);
  Block other(pool, 2000);
  block = std::move(other);
  EXPECT_EQ(live_blocks(pool), 1u);
  EXPECT_EQ(block.size(), 2000u);
  Block& same = block;
  block = std::move(same);
  EXPECT_EQ(block.size(), 2000u);
  block = Block();
  EXPECT_EQ(live_blocks(pool), 0u);
}

TEST(Block, IsGivenUpAndReset) {
  Pool pool(kSim);
  Block block(pool, 1000);
  const gpupool_ptr_t ptr = block.release();
  EXPECT_FALSE(block);
  EXPECT_EQ(pool.block_info(ptr + 10).address, ptr);
  pool.deallocate(ptr);
  expect_error(GPUPOOL_ERROR_UNKNOWN_POINTER, [&] { pool.deallocate(ptr); });

  Block other(pool, 1000);
  other.reset();
  other.reset();
  EXPECT_EQ(live_blocks(pool), 0u);
}

TEST(Block, OfNoBytesIsEmpty) {
  Pool pool(kSim);
  const Block block(pool, 0);
  EXPECT_FALSE(block);
}

TEST(Block, IsAligned) {
  Pool pool(kSim);
  const Block first(pool, 512);
  const Block block(pool, 1000, 0, 1 << 20);
  EXPECT_EQ(block.ptr() % (1 << 20), 0u);
  expect_error(GPUPOOL_ERROR_INVALID_ARGUMENT, [&] { (void)pool.allocate(1000, 0, 3); });
}

TEST(Block, MayOutliveItsPool) {
  Block block;
  gpupool_t* handle = nullptr;
  {
    Pool pool(kSim);
    handle = pool.handle();
    block = Block(pool, 1000);
  }
  block.reset();
  EXPECT_EQ(gpupool_free(handle, 512, 0), GPUPOOL_ERROR_INVALID_ARGUMENT);
}

TEST(Block, StaysPendingWhileAnotherStreamUsesIt) {
  Pool pool(kSim);
  const Stream home(pool);
  const Stream other(pool);
  Block block(pool, 4 << 20, home);
  EXPECT_EQ(block.stream(), home.id());
  block.record_stream(other);
  gpupool::check(gpupool_sim_work(0, other, block.ptr(), block.size(), 1'000'000));
  block.reset();
  EXPECT_EQ(pool.stats().all.active_blocks.current, 1u);
  EXPECT_EQ(pool.stats().all.allocated_blocks.current, 0u);
  other.synchronize();
  EXPECT_EQ(pool.stats().all.active_blocks.current, 0u);

  // The same said by the free itself.
  Block second(pool, 4 << 20, home);
  gpupool::check(gpupool_sim_work(0, other, second.ptr(), second.size(), 1'000'000));
  second.reset(other);
  EXPECT_EQ(pool.stats().all.active_blocks.current, 1u);
  pool.synchronize();
  EXPECT_EQ(pool.stats().all.active_blocks.current, 0u);
}

TEST(Stream, IsOwnedAndNumbered) {
  static_assert(!std::is_copy_constructible_v<Stream> && std::is_nothrow_move_constructible_v<Stream>);
  Pool pool(kSim);
  gpupool_stream_t number = 0;
  Block block;
  {
    Stream stream(pool);
    number = stream;
    Stream moved(std::move(stream));
    EXPECT_EQ(moved.id(), number);
    block = Block(pool, 1000, moved);
    moved = Stream(pool);
    EXPECT_NE(moved.id(), number);
  }
  EXPECT_EQ(gpupool_stream_synchronize(pool.handle(), number), GPUPOOL_ERROR_DRIVER);
  // A block whose stream has gone is freed all the same.
  block.reset();
  EXPECT_EQ(live_blocks(pool), 0u);
}

TEST(Stream, IsReleasedByNumber) {
  Pool pool(kSim);
  const Block block(pool, 1000, 77);
  EXPECT_EQ(pool.stats().streams, 1u);
  pool.release_stream(77);
  EXPECT_EQ(pool.stats().streams, 0u);
}

TEST(Stream, IsParkedByNumber) {
  Pool pool(kSim);
  const Block block(pool, 1000, 77);
  pool.park_stream(77);
  EXPECT_EQ(pool.stats().streams, 1u);
}

TEST(Data, GoesThereAndBack) {
  Pool pool(kSim);
  const Stream stream(pool);
  const Block block(pool, 4096, stream);
  std::vector<uint32_t> sent(1024);
  std::iota(sent.begin(), sent.end(), 7u);
  gpupool::copy_to_device(block, sent);
  std::vector<uint32_t> received(1024);
  gpupool::copy_to_host(received, block);
  EXPECT_EQ(received, sent);

  // Any range in one piece, temporaries that view it included.
  std::array<uint32_t, 4> first{};
  gpupool::copy_to_host(std::span(first), block);
  EXPECT_EQ(first[3], 10u);
  gpupool::copy_to_device(block, std::span<const uint32_t>());

  pool.fill(block.ptr(), 0xab, 512, stream);
  pool.copy(block.ptr() + 512, block.ptr(), 512, stream);
  gpupool::copy_to_host(received, block);
  EXPECT_EQ(received[128], 0xababababu);
  EXPECT_EQ(received[256], sent[256]);
}

TEST(Data, TooMuchIsRefused) {
  Pool pool(kSim);
  const Block block(pool, 8);
  std::array<uint32_t, 3> three{};
  expect_error(GPUPOOL_ERROR_INVALID_ARGUMENT, [&] { gpupool::copy_to_device(block, three); });
  expect_error(GPUPOOL_ERROR_INVALID_ARGUMENT, [&] { gpupool::copy_to_host(three, block); });
  const Block none;
  expect_error(GPUPOOL_ERROR_INVALID_ARGUMENT, [&] { gpupool::copy_to_device(none, three); });
}

TEST(Pool, RecordsStreamsOfPlainPointers) {
  Pool pool(kSim);
  const gpupool_ptr_t ptr = pool.allocate(1000, 11);
  pool.record_stream(ptr, 12);
  expect_error(GPUPOOL_ERROR_UNKNOWN_POINTER, [&] { pool.record_stream(ptr + 1, 12); });
  pool.deallocate(ptr, 11);
  expect_error(GPUPOOL_ERROR_UNKNOWN_POINTER, [&] { (void)pool.block_info(ptr); });
}

}  // namespace
