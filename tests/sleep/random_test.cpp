// SPDX-License-Identifier: Apache-2.0
// S12: every block's bytes over random mallocs, frees, work, sleeps and wakes: 10^6 of them with small
// blocks, which cost little to write and compare, and fewer with large ones. GPUPOOL_SLEEP_STEPS says how
// many of each, and GPUPOOL_SLEEP_SEED what else to begin with.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <random>

#include "sleep_fixture.hpp"

namespace sleep_test {
namespace {

/// What a walk's blocks are like.
struct Shape {
  const char* name;
  uint64_t steps;
  uint64_t small;      // most of them are up to this
  uint64_t medium;     // one in eight
  uint64_t large;      // one in eight
  uint64_t huge;       // one in 48
  uint64_t most_live;  // all together
  uint64_t sleeps;     // of 1000 steps while awake
};

constexpr std::array kShapes{
    Shape{"small", 1'000'000, 900, 4000, 24 * kKiB, 100 * kKiB, 256 * kKiB, 10},
    Shape{"large", 12'000, 9000, 300 * kKiB, kMiB, 5 * kMiB, 16 * kMiB, 20},
};

class Walk {
 public:
  Walk(const Shape& shape, uint64_t seed) : shape_(shape), random_(seed) {
    gpupool_config_t config = empty_config();
    config.backend = GPUPOOL_BACKEND_SIM;
    config.device = kDevice;
    config.limit_bytes = kCapacity;
    EXPECT_TRUE(ok(gpupool_create(&config, &pool_)));
  }

  void step() {
    if (!is_asleep_ && pick(1000) < shape_.sleeps) return sleep();
    const uint64_t what = pick(100);
    if (is_asleep_) {
      if (what < 40) return wake();
      if (what < 70) return free_one();
      if (what < 80) return record_one();
      EXPECT_EQ(try_malloc(512 + pick(kMiB)), GPUPOOL_ERROR_ASLEEP);
    } else {
      if (what < 50) return malloc();
      if (what < 92) return free_one();
      if (what < 96) return record_one();
      if (what < 98) return check_one();
      EXPECT_TRUE(ok(gpupool_trim(pool_, pick(kCapacity), nullptr)));
    }
  }

  void check_all() {
    if (is_asleep_) wake();
    EXPECT_TRUE(ok(gpupool_validate(pool_)));
    for (const Block& block : blocks_) expect_intact(block);
  }

  void end() {
    check_all();
    while (!blocks_.empty()) free_one();
    EXPECT_TRUE(ok(gpupool_destroy(pool_)));
  }

 private:
  struct Block {
    gpupool_ptr_t address;
    uint64_t size;
    uint64_t seed;
    gpupool_stream_t stream;
    bool is_kept;
    bool is_lost;  // dropped: nobody knows what is in it
  };
  uint64_t pick(uint64_t count) { return random_() % count; }
  gpupool_stream_t pick_stream() { return std::array<gpupool_stream_t, 3>{0, 3, 5}[pick(3)]; }

  uint64_t pick_size() {
    switch (pick(8)) {
      case 0: return 8 + pick(pick(6) == 0 ? shape_.huge : shape_.large);
      case 1: return 8 + pick(shape_.medium);
      default: return 8 + pick(shape_.small);
    }
  }

  gpupool_status_t try_malloc(uint64_t size) {
    gpupool_ptr_t address = 0;
    return gpupool_malloc(pool_, size, pick_stream(), &address);
  }

  void malloc() {
    const uint64_t size = pick_size();
    if (live_ + size > shape_.most_live) return free_one();
    Block block{0, size, random_(), pick_stream(), pick(4) == 0, false};
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
    if (!is_asleep_) expect_intact(block);
    const uint64_t how = pick(10);
    const gpupool_stream_t stream = how == 0 ? kUnknownStream : how == 1 ? pick_stream() : block.stream;
    ASSERT_TRUE(ok(gpupool_free(pool_, block.address, stream)));
  }

  void record_one() {
    if (blocks_.empty()) return;
    ASSERT_TRUE(ok(gpupool_record_stream(pool_, blocks_[pick(blocks_.size())].address, 3 + pick(2))));
  }

  void check_one() {
    if (!blocks_.empty()) expect_intact(blocks_[pick(blocks_.size())]);
  }

  static void expect_intact(const Block& block) {
    EXPECT_TRUE(block.is_lost || has_pattern(block.address, block.size, block.seed));
  }

  void sleep() {
    const bool drops = pick(3) == 0;
    ASSERT_TRUE(ok(try_sleep(pool_, drops ? GPUPOOL_SLEEP_MODE_DROP : GPUPOOL_SLEEP_MODE_SAVE)));
    is_asleep_ = true;
    ASSERT_EQ(device_free(), kCapacity);
    for (Block& block : blocks_) block.is_lost = block.is_lost || (drops && !block.is_kept);
  }

  void wake() {
    gpupool_sleep_options_t how =
        options(GPUPOOL_SLEEP_MODE_SAVE, pick(2) == 0 ? GPUPOOL_SLEEP_FLAG_RETAIN_BACKUP : 0);
    ASSERT_TRUE(ok(gpupool_wake(pool_, &how, nullptr)));
    is_asleep_ = false;
    for (Block& block : blocks_) {
      if (!block.is_lost) continue;
      write_pattern(block.address, block.size, block.seed);
      block.is_lost = false;
    }
    if (pick(8) == 0) {
      for (const Block& block : blocks_) expect_intact(block);
    }
  }

  const Shape& shape_;
  std::mt19937_64 random_;
  gpupool_t* pool_ = nullptr;
  std::vector<Block> blocks_;
  uint64_t live_ = 0;
  bool is_asleep_ = false;
};

#ifdef __SANITIZE_ADDRESS__
constexpr uint64_t kSlowness = 10;  // a sanitizer looks at what each step touches, not at many of them
#else
constexpr uint64_t kSlowness = 1;
#endif

class SleepAtRandom : public Sleep, public testing::WithParamInterface<Shape> {};

TEST_P(SleepAtRandom, S12_NoByteIsLost) {
  const char* steps_text = std::getenv("GPUPOOL_SLEEP_STEPS");
  const char* seed_text = std::getenv("GPUPOOL_SLEEP_SEED");
  const Shape& shape = GetParam();
  const uint64_t steps = steps_text != nullptr ? std::strtoull(steps_text, nullptr, 10)
                                               : std::min<uint64_t>(shape.steps, 1'000'000 / kSlowness);
  const uint64_t first = seed_text != nullptr ? std::strtoull(seed_text, nullptr, 10) : 1;
  for (const uint64_t seed : {first, first + 1}) {
    Walk walk(shape, seed);
    for (uint64_t i = 0; i < steps / 2 && !HasFailure(); ++i) {
      walk.step();
      if (i % 5000 == 0) walk.check_all();
    }
    walk.end();
  }
}
INSTANTIATE_TEST_SUITE_P(Blocks, SleepAtRandom, testing::ValuesIn(kShapes),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace sleep_test
