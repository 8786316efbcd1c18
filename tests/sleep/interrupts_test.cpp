// SPDX-License-Identifier: Apache-2.0
// Waits that are ended: whatever a call waits for, a check of gpupool_set_interrupt_check ends it, and
// nothing has changed.
#include <array>
#include <chrono>
#include <functional>
#include <thread>

#include "base/interrupts.hpp"
#include "fake_cuda/fake_cuda.hpp"
#include "pool/variants.hpp"
#include "sleep_fixture.hpp"

namespace sleep_test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// A wait that is not ended lasts so long.
constexpr uint64_t kMinute = 60'000'000'000;
/// What "at once" may take on a busy machine: far less than that.
constexpr auto kFarSooner = 20s;

/// Ends waits of its thread at its asking number `at`; never, if that is 0. At most one of a thread lives.
class Ending {
 public:
  explicit Ending(int at) : at_(at) {
    current = this;
    EXPECT_TRUE(ok(gpupool_set_interrupt_check(ask, nullptr, 1)));
  }
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;
  ~Ending() {
    EXPECT_TRUE(ok(gpupool_set_interrupt_check(ask, nullptr, 0)));
    current = nullptr;
  }

  int asked() const { return asked_; }
  /// For what it was asked last.
  int32_t wait() const { return wait_; }
  std::function<void()> when_asked = [] {};
  bool now = false;  // whatever the count is

 private:
  static int32_t ask(void*, int32_t wait) {
    if (current == nullptr) return 0;
    current->wait_ = wait;
    ++current->asked_;
    current->when_asked();
    return current->now || current->asked_ == current->at_ ? 1 : 0;
  }

  static thread_local Ending* current;
  const int at_;
  int asked_ = 0;
  int32_t wait_ = 0;
};
thread_local Ending* Ending::current = nullptr;

TEST_F(Sleep, PageLockingIsEnded) {
  constexpr uint64_t kBytes = 640 * kMiB;
  PoolUnderTest pool(sim_config());
  {
    Ending ending(1);
    EXPECT_TRUE(refused(GPUPOOL_ERROR_INTERRUPTED, gpupool_prepare_backup(pool, kBytes)));
    EXPECT_EQ(ending.wait(), GPUPOOL_WAIT_GPU);
    EXPECT_EQ(pool.stats().backup_bytes, 0u);
  }
  EXPECT_TRUE(ok(gpupool_prepare_backup(pool, kBytes)));
  EXPECT_EQ(pool.stats().backup_bytes, kBytes);
  EXPECT_TRUE(ok(gpupool_prepare_backup(pool, 0)));
  EXPECT_EQ(pool.stats().backup_bytes, 0u);
}

TEST_F(Sleep, AMallocThatIsHeldIsEnded) {
  PoolUnderTest pool(sim_config());
  const gpupool_ptr_t block = pool.malloc(4 * kMiB);
  fall_asleep(pool, GPUPOOL_SLEEP_MODE_SAVE, GPUPOOL_SLEEP_FLAG_HOLD_MALLOCS);
  {
    Ending ending(3);
    const auto start = Clock::now();
    EXPECT_TRUE(refused(GPUPOOL_ERROR_INTERRUPTED, pool.try_malloc(kMiB)));
    EXPECT_GE(Clock::now() - start, 90ms);
    EXPECT_EQ(ending.wait(), GPUPOOL_WAIT_WAKE);
    EXPECT_EQ(ending.asked(), 3);
  }
  {
    Ending ending(2);  // the next call begins anew
    EXPECT_TRUE(refused(GPUPOOL_ERROR_INTERRUPTED, gpupool_reserve(pool, 8 * kMiB, 0)));
    EXPECT_EQ(last_message(), "interrupted while it waited for the sleeping pool to be woken");
    EXPECT_EQ(ending.asked(), 2);
  }
  EXPECT_EQ(state_of(pool), GPUPOOL_SLEEP_STATE_ASLEEP);
  // It left no guest behind, for whom the next sleep would wait.
  wake(pool);
  const auto start = Clock::now();
  fall_asleep(pool);
  EXPECT_LT(Clock::now() - start, 900ms);
  wake(pool);
  pool.free(block);
}

TEST_F(Sleep, AMallocThatIsHeldGoesOnWhereNoCheckEndsIt) {
  PoolUnderTest pool(sim_config());
  const gpupool_ptr_t block = pool.malloc(4 * kMiB);
  fall_asleep(pool, GPUPOOL_SLEEP_MODE_SAVE, GPUPOOL_SLEEP_FLAG_HOLD_MALLOCS);
  Ending never(0);
  std::thread waker;
  never.when_asked = [&] {
    if (never.asked() == 2) waker = std::thread([&] { EXPECT_EQ(try_wake(pool), GPUPOOL_SUCCESS); });
  };
  gpupool_ptr_t second = 0;
  EXPECT_TRUE(ok(pool.try_malloc(kMiB, 0, second)));
  waker.join();
  EXPECT_GE(never.asked(), 2);
  pool.free(second);
  pool.free(block);
}

/// A check may use the library, that pool included, and what fails there is not the call's own failure.
TEST_F(Sleep, ACheckMayCallTheLibrary) {
  PoolUnderTest pool(sim_config());
  const gpupool_ptr_t block = pool.malloc(4 * kMiB);
  fall_asleep(pool, GPUPOOL_SLEEP_MODE_SAVE, GPUPOOL_SLEEP_FLAG_HOLD_MALLOCS);
  Ending waking(0);
  waking.when_asked = [&] {
    EXPECT_EQ(gpupool_free(pool, 77, 0), GPUPOOL_ERROR_UNKNOWN_POINTER);
    if (waking.asked() == 2) wake(pool);
  };
  gpupool_ptr_t second = 0;
  EXPECT_TRUE(ok(pool.try_malloc(kMiB, 0, second)));
  pool.free(second);
  pool.free(block);
}

TEST_F(Sleep, AWakeThatWaitsForRoomIsEnded) {
  PoolUnderTest pool(sim_config());
  PoolUnderTest other(sim_config());
  const gpupool_ptr_t block = pool.malloc(64 * kMiB);
  write_pattern(block, 64 * kMiB, 3);
  fall_asleep(pool);
  const gpupool_ptr_t taken = other.malloc(500 * kMiB);
  {
    Ending ending(2);
    const auto start = Clock::now();
    EXPECT_TRUE(refused(GPUPOOL_ERROR_INTERRUPTED, try_wake(pool, kMinute)));
    EXPECT_LT(Clock::now() - start, kFarSooner);
    EXPECT_EQ(ending.wait(), GPUPOOL_WAIT_MEMORY);
  }
  EXPECT_EQ(state_of(pool), GPUPOOL_SLEEP_STATE_ASLEEP);
  other.free(taken);
  wake(pool);
  EXPECT_TRUE(has_pattern(block, 64 * kMiB, 3));
  pool.free(block);
}

TEST_F(Sleep, AWaitForAnotherThreadsWakeIsEnded) {
  PoolUnderTest pool(sim_config());
  PoolUnderTest other(sim_config());
  const gpupool_ptr_t block = pool.malloc(64 * kMiB);
  fall_asleep(pool);
  const gpupool_ptr_t taken = other.malloc(500 * kMiB);
  std::thread waker([&] { EXPECT_EQ(try_wake(pool, kMinute), GPUPOOL_SUCCESS); });
  while (state_of(pool) != GPUPOOL_SLEEP_STATE_WAKING) std::this_thread::sleep_for(1ms);
  {
    Ending ending(2);
    EXPECT_TRUE(refused(GPUPOOL_ERROR_INTERRUPTED, try_wake(pool)));
    EXPECT_EQ(ending.wait(), GPUPOOL_WAIT_TURN);
  }
  other.free(taken);
  waker.join();
  pool.free(block);
}

/// The header promises success, and that a freed block takes no memory.
TEST_F(Sleep, ABlockFreedWhileAWakeWaitsForItsRoomIsNoFailure) {
  gpupool_config_t config = sim_config();
  config.max_chunk_bytes = 2 * kMiB;
  PoolUnderTest pool(config);
  PoolUnderTest other(config);
  const gpupool_ptr_t blocks[] = {pool.malloc(16 * kMiB), pool.malloc(16 * kMiB), pool.malloc(16 * kMiB)};
  for (const gpupool_ptr_t each : blocks) {
    write_pattern(each, 16 * kMiB, each);
    ASSERT_TRUE(ok(gpupool_sleep_block(pool, each, nullptr, nullptr)));
  }
  const gpupool_ptr_t taken = other.malloc(capacity_ - 4 * kMiB);
  Ending frees(0);
  frees.when_asked = [&] {
    if (frees.asked() == 1) pool.free(blocks[0]);
    if (frees.asked() == 2) other.free(taken);
  };
  gpupool_sleep_options_t how = options();
  how.timeout_ns = kMinute;
  gpupool_sleep_result_t result = empty_result();
  EXPECT_TRUE(ok(gpupool_wake(pool, &how, &result)));
  EXPECT_EQ(result.created_bytes, 32 * kMiB);
  for (const gpupool_ptr_t each : {blocks[1], blocks[2]}) {
    EXPECT_TRUE(has_pattern(each, 16 * kMiB, each));
    pool.free(each);
  }
}

// ---- the device's work

class InterruptsOnCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_not(Machine::stand_in); !why.empty()) GTEST_SKIP() << why;
  }
  static gpupool_config_t cuda_config() {
    gpupool_config_t config = empty_config();
    config.backend = GPUPOOL_BACKEND_CUDA;
    return config;
  }
};

/// A kernel that does not end holds up nobody for good.
TEST_F(InterruptsOnCuda, EveryWaitForTheDeviceIsEnded) {
  PoolUnderTest pool(cuda_config());
  gpupool_stream_t stream = 0;
  ASSERT_TRUE(ok(gpupool_stream_create(pool, &stream)));
  const gpupool_ptr_t block = pool.malloc(4 * kMiB, stream);
  fake_cuda().hold(stream);
  ASSERT_TRUE(ok(gpupool_fill(pool, block, 1, 4 * kMiB, stream)));
  const gpupool_ptr_t freed = pool.malloc(4 * kMiB);
  ASSERT_TRUE(ok(gpupool_free(pool, freed, stream)));
  const auto ends = [&](const char* what, auto call) {
    SCOPED_TRACE(what);
    Ending ending(2);
    const auto start = Clock::now();
    EXPECT_TRUE(refused(GPUPOOL_ERROR_INTERRUPTED, call()));
    EXPECT_LT(Clock::now() - start, kFarSooner);
    EXPECT_EQ(ending.wait(), GPUPOOL_WAIT_GPU);
    EXPECT_EQ(ending.asked(), 2);
  };
  ends("synchronize", [&] { return gpupool_synchronize(pool); });
  ends("stream_synchronize", [&] { return gpupool_stream_synchronize(pool, stream); });
  ends("empty", [&] { return gpupool_empty(pool, nullptr); });
  ends("sleep", [&] { return try_sleep(pool); });
  EXPECT_EQ(state_of(pool), GPUPOOL_SLEEP_STATE_AWAKE);
  ends("sleep_block", [&] { return gpupool_sleep_block(pool, block, nullptr, nullptr); });
  ASSERT_TRUE(ok(gpupool_set_limit(pool, pool.stats().all.reserved_bytes.current)));
  ends("malloc", [&] {
    gpupool_ptr_t none = 0;
    return gpupool_malloc(pool, 64 * kMiB, 0, &none);
  });
  std::array<char, GPUPOOL_EXPORT_BYTES> handle{};
  gpupool_ptr_t imported = 0;
  uint64_t size = 0;
  ASSERT_TRUE(ok(gpupool_export(pool, block, handle.data(), handle.size())));
  ASSERT_TRUE(ok(gpupool_import(pool, handle.data(), &imported, &size)));
  ends("import_close", [&] { return gpupool_import_close(pool, imported); });
  fake_cuda().release(stream);
  EXPECT_TRUE(ok(gpupool_import_close(pool, imported)));
  EXPECT_TRUE(ok(gpupool_synchronize(pool)));
  pool.free(block, stream);
  EXPECT_TRUE(ok(gpupool_stream_destroy(pool, stream)));
  EXPECT_EQ(fake_cuda().faults(), 0u);
}

/// The wait sees the end of the work soon, and asks meanwhile, with the caller's context and capture mode.
TEST_F(InterruptsOnCuda, WorkThatEndsEndsTheWait) {
  PoolUnderTest pool(cuda_config());
  gpupool_stream_t stream = 0;
  ASSERT_TRUE(ok(gpupool_stream_create(pool, &stream)));
  const gpupool_ptr_t block = pool.malloc(4 * kMiB, stream);
  fake_cuda().hold(stream);
  ASSERT_TRUE(ok(gpupool_fill(pool, block, 1, 4 * kMiB, stream)));
  const int depth = fake_cuda().context_depth();
  Ending never(0);
  never.when_asked = [&] {
    EXPECT_EQ(fake_cuda().context_depth(), depth);
    EXPECT_EQ(fake_cuda().capture_mode(), 0u);
    if (never.asked() == 3) fake_cuda().release(stream);
  };
  EXPECT_TRUE(ok(gpupool_synchronize(pool)));
  EXPECT_EQ(never.asked(), 3);
  pool.free(block, stream);
  EXPECT_TRUE(ok(gpupool_stream_destroy(pool, stream)));
}

/// All pools of a tag sleep, or none: the one that slept is woken, though the check has said to give up.
TEST_F(InterruptsOnCuda, ATagThatIsInterruptedHalfWayIsAwakeAgain) {
  PoolUnderTest first(cuda_config());
  gpupool_config_t elsewhere = cuda_config();
  elsewhere.device = 1;  // whose work the first pool's sleep does not wait for
  PoolUnderTest second(elsewhere);
  ASSERT_TRUE(ok(gpupool_set_name(first, "interrupted")));
  ASSERT_TRUE(ok(gpupool_set_name(second, "interrupted")));
  gpupool_stream_t stream = 0;
  ASSERT_TRUE(ok(gpupool_stream_create(second, &stream)));
  const gpupool_ptr_t saved = first.malloc(4 * kMiB);
  ASSERT_TRUE(ok(gpupool_fill(first, saved, 9, 4 * kMiB, 0)));
  const gpupool_ptr_t busy = second.malloc(4 * kMiB, stream);
  fake_cuda().hold(stream);
  ASSERT_TRUE(ok(gpupool_fill(second, busy, 1, 4 * kMiB, stream)));
  {
    bool had_slept = false;
    Ending ending(0);
    ending.when_asked = [&] { ending.now = had_slept = state_of(first) == GPUPOOL_SLEEP_STATE_ASLEEP; };
    EXPECT_TRUE(refused(GPUPOOL_ERROR_INTERRUPTED, gpupool_sleep_tag("interrupted", nullptr, nullptr)));
    EXPECT_TRUE(had_slept);
  }
  EXPECT_EQ(state_of(first), GPUPOOL_SLEEP_STATE_AWAKE);
  EXPECT_EQ(state_of(second), GPUPOOL_SLEEP_STATE_AWAKE);
  std::vector<unsigned char> bytes(4 * kMiB);
  ASSERT_TRUE(ok(gpupool_copy(first, reinterpret_cast<uintptr_t>(bytes.data()), saved, bytes.size(), 0)));
  ASSERT_TRUE(ok(gpupool_stream_synchronize(first, 0)));
  EXPECT_EQ(bytes, std::vector<unsigned char>(4 * kMiB, 9));
  fake_cuda().release(stream);
  first.free(saved);
  second.free(busy, stream);
  EXPECT_TRUE(ok(gpupool_stream_destroy(second, stream)));
}

/// A pool that ends would be left half ended.
TEST_F(InterruptsOnCuda, TheEndOfAPoolIsNotInterrupted) {
  gpupool_t* pool = nullptr;
  const gpupool_config_t config = cuda_config();
  ASSERT_TRUE(ok(gpupool_create(&config, &pool)));
  gpupool_stream_t stream = 0;
  ASSERT_TRUE(ok(gpupool_stream_create(pool, &stream)));
  gpupool_ptr_t block = 0;
  ASSERT_TRUE(ok(gpupool_malloc(pool, 4 * kMiB, stream, &block)));
  fake_cuda().hold(stream);
  ASSERT_TRUE(ok(gpupool_fill(pool, block, 1, 4 * kMiB, stream)));
  ASSERT_TRUE(ok(gpupool_free(pool, block, stream)));
  Ending ending(1);
  std::thread device([&] {
    std::this_thread::sleep_for(200ms);
    fake_cuda().release(stream);
  });
  EXPECT_TRUE(ok(gpupool_destroy(pool)));
  EXPECT_EQ(ending.asked(), 0);
  device.join();
}

// ---- the checks themselves

TEST(Interrupts, ChecksAreAddedAndTakenAway) {
  const auto yes = [](void*, int32_t) { return 1; };
  int user = 0;
  EXPECT_EQ(gpupool_set_interrupt_check(nullptr, nullptr, 1), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpupool_set_interrupt_check(yes, nullptr, 2), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpupool_set_interrupt_check(yes, &user, 0), GPUPOOL_ERROR_INVALID_ARGUMENT);
  const bool before = gpupool::internal::interrupts::are_possible();
  for (int i = 0; i < 100; ++i) {  // the same pair has the same place
    EXPECT_TRUE(ok(gpupool_set_interrupt_check(yes, &user, 1)));
    EXPECT_TRUE(ok(gpupool_set_interrupt_check(yes, &user, 1)));
    EXPECT_TRUE(gpupool::internal::interrupts::are_possible());
    EXPECT_TRUE(ok(gpupool_set_interrupt_check(yes, &user, 0)));
    EXPECT_EQ(gpupool_set_interrupt_check(yes, &user, 0), GPUPOOL_ERROR_INVALID_ARGUMENT);
  }
  EXPECT_EQ(gpupool::internal::interrupts::are_possible(), before);
}

TEST(Interrupts, ThereIsRoomForSomeAndWordsForTheRest) {
  const auto no = [](void*, int32_t) { return 0; };
  std::vector<char> users(64);
  size_t added = 0;
  while (added < users.size() && gpupool_set_interrupt_check(no, &users[added], 1) == GPUPOOL_SUCCESS)
    ++added;
  EXPECT_LE(added, 16U);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNAVAILABLE, gpupool_set_interrupt_check(no, &users[added], 1)));
  for (size_t i = 0; i < added; ++i) EXPECT_TRUE(ok(gpupool_set_interrupt_check(no, &users[i], 0)));
}

}  // namespace
}  // namespace sleep_test
