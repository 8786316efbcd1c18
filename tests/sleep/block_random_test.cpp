// SPDX-License-Identifier: Apache-2.0
// Every block's bytes over random mallocs, frees, work, and sleeps and wakes of blocks, of some bytes, of the
// pool and of its tag. GPUPOOL_SLEEP_STEPS says how many.
#include <array>
#include <cstdlib>
#include <random>

#include "block_fixture.hpp"

namespace sleep_test {
namespace {

class BlockWalk {
 public:
  explicit BlockWalk(uint64_t seed) : random_(seed), small_chunks_(seed % 2 != 0) {
    gpupool_config_t config = small_chunks();
    config.limit_bytes = kCapacity;
    if (!small_chunks_) config.max_chunk_bytes = 0;
    EXPECT_TRUE(ok(gpupool_create(&config, &pool_)));
    EXPECT_TRUE(ok(gpupool_set_name(pool_, "walk")));
  }

  void step() {
    const uint64_t what = pick(100);
    if (is_asleep_) {
      if (what < 25) return wake();
      if (what < 50) return free_one();
      if (what < 60) return record_one();
      if (what < 75) return wake_one();
      EXPECT_EQ(try_malloc(512 + pick(kMiB)), GPUPOOL_ERROR_ASLEEP);
      return;
    }
    if (what < 2) return sleep();
    if (what < 4) return wake();
    if (what < 35) return malloc();
    if (what < 62) return free_one();
    if (what < 76) return sleep_one();
    if (what < 80) return sleep_some();
    if (what < 92) return wake_one();
    if (what < 95) return record_one();
    if (what < 98) return check_one();
    EXPECT_TRUE(ok(gpupool_trim(pool_, pick(kCapacity), nullptr)));
  }

  void check_all() {
    wake();
    EXPECT_TRUE(ok(gpupool_validate(pool_)));
    for (const Block& block : blocks_) expect_intact(block);
  }

  void end() {
    check_all();
    while (!blocks_.empty()) free_one();
    EXPECT_TRUE(ok(gpupool_destroy(pool_)));
    EXPECT_EQ(device_free(), kCapacity);
  }

 private:
  struct Block {
    gpupool_ptr_t address;
    uint64_t size;
    uint64_t seed;
    gpupool_stream_t stream;
    bool is_kept;
    bool is_lost = false;    // dropped: nobody knows what is in it
    bool is_asleep = false;  // alone
  };
  static constexpr uint64_t kMostLive = 32 * kMiB;

  uint64_t pick(uint64_t count) { return random_() % count; }
  gpupool_stream_t pick_stream() { return std::array<gpupool_stream_t, 3>{0, 3, 5}[pick(3)]; }
  Block* pick_block() { return blocks_.empty() ? nullptr : &blocks_[pick(blocks_.size())]; }

  gpupool_status_t try_malloc(uint64_t size) {
    gpupool_ptr_t address = 0;
    return gpupool_malloc(pool_, size, pick_stream(), &address);
  }

  void malloc() {
    const uint64_t size = pick(3) == 0 ? 8 + pick(300 * kKiB) : kMiB + pick(6 * kMiB);
    if (live_ + size > kMostLive) return free_one();
    Block block{0, size, random_(), pick_stream(), pick(4) == 0};
    ASSERT_TRUE(ok(gpupool_malloc(pool_, size, block.stream, &block.address)));
    write_pattern(block.address, size, block.seed);
    if (block.is_kept) {
      ASSERT_TRUE(ok(gpupool_set_keep(pool_, block.address, 1)));
    }
    live_ += size;
    blocks_.push_back(block);
  }

  void free_one() {
    if (blocks_.empty()) return;
    const size_t at = pick(blocks_.size());
    const Block block = blocks_[at];
    blocks_[at] = blocks_.back();
    blocks_.pop_back();
    live_ -= block.size;
    if (!is_asleep_ && !block.is_asleep) expect_intact(block);
    const uint64_t how = pick(10);
    const gpupool_stream_t stream = how == 0 ? kUnknownStream : how == 1 ? pick_stream() : block.stream;
    ASSERT_TRUE(ok(gpupool_free(pool_, block.address, stream)));
  }

  void record_one() {
    if (const Block* block = pick_block()) {
      ASSERT_TRUE(ok(gpupool_record_stream(pool_, block->address, 3 + pick(2))));
    }
  }

  void check_one() {
    if (const Block* block = pick_block(); block != nullptr && !block->is_asleep) expect_intact(*block);
  }

  static void expect_intact(const Block& block) {
    EXPECT_TRUE(block.is_lost || has_pattern(block.address, block.size, block.seed));
  }

  void sleep_one() {
    Block* block = pick_block();
    if (block == nullptr || block->is_asleep) return;
    const bool drops = pick(3) == 0;
    const gpupool_sleep_options_t how = options(drops ? GPUPOOL_SLEEP_MODE_DROP : GPUPOOL_SLEEP_MODE_SAVE);
    gpupool_sleep_result_t result = empty_result();
    ASSERT_TRUE(ok(gpupool_sleep_block(pool_, block->address, &how, &result)));
    block->is_asleep = result.released_bytes != 0;
    block->is_lost = block->is_lost || (block->is_asleep && drops && !block->is_kept);
  }

  /// The pool says which of them went.
  void sleep_some() {
    const bool drops = pick(3) == 0;
    const gpupool_sleep_options_t how =
        target_options(1 + pick(12 * kMiB), drops ? GPUPOOL_SLEEP_MODE_DROP : GPUPOOL_SLEEP_MODE_SAVE);
    gpupool_sleep_result_t result = empty_result();
    const uint64_t before = device_free();
    ASSERT_TRUE(
        ok(pick(2) == 0 ? gpupool_sleep(pool_, &how, &result) : gpupool_sleep_tag("walk", &how, &result)));
    EXPECT_EQ(device_free() - before, result.released_bytes);
    bool any_awake = false;
    for (Block& block : blocks_) {
      const bool was_asleep = std::exchange(block.is_asleep, state_of_block(block) == GPUPOOL_BLOCK_ASLEEP);
      EXPECT_TRUE(block.is_asleep || !was_asleep);
      any_awake = any_awake || (!block.is_asleep && block.size >= 4 * kMiB && small_chunks_);
      const bool went = block.is_asleep && !was_asleep;
      block.is_lost = block.is_lost || (went && drops && !block.is_kept);
    }
    EXPECT_TRUE(result.released_bytes >= how.target_bytes || !any_awake);
  }

  gpupool_block_state_t state_of_block(const Block& block) {
    gpupool_block_t info{};
    EXPECT_TRUE(ok(gpupool_block_info(pool_, block.address, &info, sizeof info)));
    return static_cast<gpupool_block_state_t>(info.state);
  }

  /// What the test wrote while the block was awake in a sleeping pool must stay.
  void wake_one() {
    Block* block = pick_block();
    if (block == nullptr) return;
    const uint32_t flags = pick(2) == 0 ? GPUPOOL_SLEEP_FLAG_RETAIN_BACKUP : 0;
    const gpupool_sleep_options_t how = options(GPUPOOL_SLEEP_MODE_SAVE, flags);
    ASSERT_TRUE(ok(gpupool_wake_block(pool_, block->address, &how, nullptr)));
    if (!is_asleep_) block->is_asleep = false;
    restore(*block);
  }

  void sleep() {
    const bool drops = pick(3) == 0;
    const gpupool_sleep_options_t how = options(drops ? GPUPOOL_SLEEP_MODE_DROP : GPUPOOL_SLEEP_MODE_SAVE);
    ASSERT_TRUE(
        ok(pick(2) == 0 ? gpupool_sleep(pool_, &how, nullptr) : gpupool_sleep_tag("walk", &how, nullptr)));
    is_asleep_ = true;
    ASSERT_EQ(device_free(), kCapacity);
    for (Block& block : blocks_) block.is_lost = block.is_lost || (drops && !block.is_kept);
  }

  void wake() {
    ASSERT_TRUE(ok(pick(2) == 0 ? gpupool_wake(pool_, nullptr, nullptr)
                                : gpupool_wake_tag("walk", nullptr, nullptr)));
    is_asleep_ = false;
    for (Block& block : blocks_) {
      block.is_asleep = false;
      restore(block);
    }
  }

  static void restore(Block& block) {
    expect_intact(block);
    if (!block.is_lost) return;
    write_pattern(block.address, block.size, block.seed);
    block.is_lost = false;
  }

  std::mt19937_64 random_;
  bool small_chunks_;
  gpupool_t* pool_ = nullptr;
  std::vector<Block> blocks_;
  uint64_t live_ = 0;
  bool is_asleep_ = false;
};

TEST_F(Sleep, NoByteIsLostWhileBlocksSleepAtRandom) {
  const char* text = std::getenv("GPUPOOL_SLEEP_STEPS");
  const uint64_t steps = text != nullptr ? std::strtoull(text, nullptr, 10) : 8'000;
  for (const uint64_t seed : {1, 2, 3, 4}) {
    BlockWalk walk(seed);
    for (uint64_t i = 0; i < steps / 4 && !HasFailure(); ++i) {
      walk.step();
      if (i % 500 == 0) walk.check_all();
    }
    walk.end();
  }
}

}  // namespace
}  // namespace sleep_test
