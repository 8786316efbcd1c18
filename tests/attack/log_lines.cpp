// SPDX-License-Identifier: Apache-2.0
// The log at level debug: a line for everything that a pool does behind a malloc, none of them under a lock,
// and no formatting without a listener.
#include <algorithm>
#include <cstdarg>
#include <initializer_list>
#include <string>
#include <vector>

#include "attack/lab.hpp"

namespace {

int formatted = 0;

}  // namespace

// In place of the C library's: all that the library formats for the log goes through it.
extern "C" [[gnu::visibility("default")]] int vsnprintf(char* text, size_t size, const char* format,
                                                        std::va_list arguments) noexcept {
  ++formatted;
  std::FILE* const file = fmemopen(text, size, "w");
  const int length = std::vfprintf(file, format, arguments);
  std::fclose(file);
  return length;
}

namespace attack {
namespace {

constexpr int32_t kDevice = 4;
constexpr gpupool_stream_t kOne = 11;
constexpr gpupool_stream_t kOther = 12;

class LogLines : public testing::Test {
 protected:
  void SetUp() override {
    configure_device(kDevice, kAddressesOnly, kGiB);
    listen(GPUPOOL_LOG_DEBUG);
  }
  void TearDown() override { EXPECT_TRUE(ok(gpupool_set_log(nullptr, nullptr, GPUPOOL_LOG_OFF))); }

  void listen(gpupool_log_level_t level) { ASSERT_TRUE(ok(gpupool_set_log(receive, this, level))); }

  static void receive(void* user, int32_t level, const char* line) {
    auto& self = *static_cast<LogLines*>(user);
    EXPECT_EQ(std::string(line).find('\n'), std::string::npos);
    self.lines_.emplace_back(line);
    EXPECT_GE(level, GPUPOOL_LOG_ERROR);
    if (self.asked_ == nullptr) return;
    // Anything may be called, of the same pool and on the same thread.
    EXPECT_EQ(self.asked_->stats().struct_size, sizeof(gpupool_stats_t));
    self.kept_.push_back(self.asked_->malloc(3 * kMiB, kOne));
    EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, gpupool_free(*self.asked_, 12'345'678, kOne)));
  }

  /// Whether one line has all of these words, and forgets all lines.
  testing::AssertionResult said(std::initializer_list<const char*> words) {
    const auto has_all = [&](const std::string& line) {
      return std::all_of(words.begin(), words.end(),
                         [&](const char* word) { return line.find(word) != std::string::npos; });
    };
    const bool found = std::any_of(lines_.begin(), lines_.end(), has_all);
    testing::AssertionResult result = found ? testing::AssertionSuccess() : testing::AssertionFailure();
    for (const std::string& line : lines_) result << "\n" << line;
    lines_.clear();
    return result;
  }

  std::vector<std::string> lines_;
  PoolUnderTest* asked_ = nullptr;  // by the receiver
  std::vector<gpupool_ptr_t> kept_;
};

TEST_F(LogLines, GrowthAndGivingBack) {
  PoolUnderTest pool(sim_config(kDevice));
  lines_.clear();
  const gpupool_ptr_t block = pool.malloc(20 * kMiB, kOne);
  EXPECT_TRUE(said({"pool ", ": grew by ", "chunks created, 0 moved) for a block of 20 MiB on stream 0xb;",
                    " MiB reserved"}));
  pool.free(block, kOne);
  EXPECT_TRUE(ok(gpupool_trim(pool, 16 * kMiB, nullptr)));
  EXPECT_TRUE(said({": gave back ", ": trim; "}));
  pool.empty();
  EXPECT_TRUE(said({": gave back ", ": empty; 0 bytes reserved"}));
  EXPECT_TRUE(ok(gpupool_reserve(pool, 64 * kMiB, kOne)));
  EXPECT_TRUE(said({": grew by 64 MiB (", " for gpupool_reserve on stream 0xb; 64 MiB reserved"}));
  pool.set_limit(32 * kMiB);
  EXPECT_TRUE(said({": gave back ", ": a lower limit; "}));
}

TEST_F(LogLines, MemoryOfOtherStreams) {
  PoolUnderTest pool(sim_config(kDevice));
  EXPECT_TRUE(ok(gpupool_reserve(pool, 0, kOther)));  // streams that know of each other leave events
  pool.free(pool.malloc(8 * kMiB, kOne), kOne);
  lines_.clear();
  const gpupool_ptr_t same = pool.malloc(8 * kMiB, kOther);
  EXPECT_TRUE(said({": took ", " MiB from stream 0xb for stream 0xc, where it is"}));
  pool.free(same, kOther);
  const gpupool_ptr_t larger = pool.malloc(40 * kMiB, kOne);
  EXPECT_TRUE(said({": took ", " MiB from stream 0xc for stream 0xb, moved"}));
  pool.free(larger, kOne);
}

TEST_F(LogLines, Shortage) {
  gpupool_config_t config = sim_config(kDevice);
  config.limit_bytes = 64 * kMiB;
  PoolUnderTest pool(config);
  const gpupool_ptr_t live = pool.malloc(40 * kMiB, kOne);
  ASSERT_TRUE(ok(gpupool_sim_work(kDevice, kOne, live, 40 * kMiB, 1'000'000)));
  lines_.clear();
  EXPECT_EQ(pool.try_malloc(50 * kMiB, kOne), GPUPOOL_ERROR_OVER_LIMIT);
  EXPECT_TRUE(said({": no room for a block of 50 MiB on stream 0xb: all caches are drained"}));
  pool.free(pool.malloc(kMiB, kOne), kOne);
  ASSERT_TRUE(ok(gpupool_sim_work(kDevice, kOne, live, 40 * kMiB, 3'000'000)));
  EXPECT_EQ(pool.try_malloc(50 * kMiB, kOne), GPUPOOL_ERROR_OVER_LIMIT);
  EXPECT_TRUE(said({": waited 3.", " ms on the host for 1 streams: shortage"}));
  EXPECT_TRUE(ok(gpupool_set_oom_handler(
      pool, [](void*, gpupool_t*, uint64_t, uint32_t attempt) { return attempt < 2 ? 1 : 0; }, nullptr)));
  EXPECT_EQ(pool.try_malloc(50 * kMiB, kOne), GPUPOOL_ERROR_OVER_LIMIT);
  EXPECT_TRUE(said({": the handler asks for another try"}));
  PoolUnderTest other(sim_config(kDevice));
  const gpupool_ptr_t most = other.malloc(900 * kMiB, kOne);
  pool.set_limit(0);
  EXPECT_EQ(pool.try_malloc(800 * kMiB, kOne), GPUPOOL_ERROR_OUT_OF_MEMORY);
  EXPECT_TRUE(said({": the other pools on the device are emptied"}));
  other.free(most, kOne);
  EXPECT_EQ(pool.try_malloc(800 * kMiB, kOne), GPUPOOL_SUCCESS);
  EXPECT_TRUE(said({": gave back ", ": another pool is short"}));
  ASSERT_TRUE(ok(gpupool_sim_advance(kDevice, 1'000'000'000)));
  pool.free(live, kOne);
  for (const gpupool_block_t& block : pool.snapshot().blocks) {
    if (block.state == GPUPOOL_BLOCK_LIVE) pool.free(block.address, kOne);
  }
}

TEST_F(LogLines, StreamsCapturesAndPeers) {
  gpupool_config_t config = sim_config(kDevice);
  config.flags = GPUPOOL_FLAG_CAPTURE_AWARE;
  PoolUnderTest pool(config);
  pool.free(pool.malloc(8 * kMiB, kOne), kOne);
  pool.free(pool.malloc(8 * kMiB, kOther), kOther);
  ASSERT_TRUE(ok(gpupool_park_stream(pool, kOne)));
  EXPECT_TRUE(said({": stream 0xb is parked"}));
  ASSERT_TRUE(ok(gpupool_release_stream(pool, kOther)));
  EXPECT_TRUE(said({": stream 0xc is released"}));
  ASSERT_TRUE(ok(gpupool_release_stream(pool, 999)));
  EXPECT_TRUE(lines_.empty());
  uint64_t capture = 0;
  ASSERT_TRUE(ok(gpupool_sim_capture(kDevice, kOne, 1)));
  ASSERT_TRUE(ok(gpupool_capture_id(pool, kOne, &capture)));
  ASSERT_TRUE(ok(gpupool_sim_capture(kDevice, kOne, 0)));
  ASSERT_TRUE(ok(gpupool_release_capture(pool, capture)));
  EXPECT_TRUE(said({": capture ", " is released"}));
  configure_device(kDevice + 1, kAddressesOnly, kGiB);
  ASSERT_TRUE(ok(gpupool_enable_peer(pool, kDevice + 1)));
  EXPECT_TRUE(said({": device 5 may access its memory"}));
}

TEST_F(LogLines, AReceiverMayCallTheSamePool) {
  PoolUnderTest pool(sim_config(kDevice));
  lines_.clear();
  asked_ = &pool;
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, gpupool_free(pool, 87'654'321, kOne)));
  const std::string before = last_message();
  std::vector<gpupool_ptr_t> blocks;
  for (uint64_t i = 0; i < 20; ++i) blocks.push_back(pool.malloc((i + 2) * kMiB, kOne));
  pool.empty();
  EXPECT_EQ(last_message(), before) << "what a receiver did wrong is not the caller's failure";
  asked_ = nullptr;
  EXPECT_GE(kept_.size(), 1u);
  EXPECT_EQ(kept_.size(), lines_.size()) << "its own calls are not logged";
  for (const auto& list : {blocks, kept_}) {
    for (const gpupool_ptr_t block : list) pool.free(block, kOne);
  }
}

TEST_F(LogLines, NothingIsFormattedForNobody) {
  listen(GPUPOOL_LOG_INFO);
  PoolUnderTest pool(sim_config(kDevice));
  const int at_first = formatted;
  const auto work = [&] {
    pool.free(pool.malloc(20 * kMiB, kOne), kOne);
    pool.free(pool.malloc(30 * kMiB, kOther), kOther);
    pool.empty();
    pool.synchronize();
    EXPECT_TRUE(ok(gpupool_park_stream(pool, kOne)));
  };
  work();
  EXPECT_EQ(formatted, at_first);
  listen(GPUPOOL_LOG_DEBUG);
  work();
  EXPECT_GT(formatted, at_first + 4);
}

}  // namespace
}  // namespace attack
