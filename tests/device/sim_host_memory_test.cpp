// SPDX-License-Identifier: Apache-2.0
// The host runs out of memory at each allocation of each call of the simulated driver in turn. The call says
// so, and has changed nothing. A separate program, because it replaces operator new.
#include <cstdlib>
#include <functional>
#include <limits>
#include <new>
#include <vector>

#include "sim_fixture.hpp"

namespace {

/// Allocations that still succeed, and how many fail after them.
thread_local uint64_t succeed_first = std::numeric_limits<uint64_t>::max();
thread_local uint64_t fail_then = 0;
thread_local uint64_t failed = 0;

bool may_allocate() noexcept {
  if (succeed_first != 0) {
    --succeed_first;
    return true;
  }
  if (fail_then == 0) return true;
  --fail_then;
  ++failed;
  return false;
}

}  // namespace

// Not inlined, or the compiler takes each new for one that free() must not get.
[[gnu::noinline]] void* operator new(size_t size) {
  void* const memory = may_allocate() ? std::malloc(size != 0 ? size : 1) : nullptr;
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
// A sanitizer has one of its own, whose memory the delete below may not get.
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return may_allocate() ? std::malloc(size != 0 ? size : 1) : nullptr;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

namespace gpupool::internal {
namespace {

constexpr uint64_t kAlways = std::numeric_limits<uint64_t>::max();

/// Runs call with its allocations number `first` to first + count failing; whether any did.
bool fails_within(uint64_t first, uint64_t count, const std::function<Status()>& call, Status& status) {
  failed = 0;
  succeed_first = first;
  fail_then = count;
  status = call();
  fail_then = 0;
  return failed != 0;
}

class SimHostMemoryTest : public SimTest, public ::testing::WithParamInterface<uint32_t> {
 protected:
  void SetUp() override {
    gpupool_sim_config_t config = {};
    config.data = GetParam();
    restart(config);
  }
  bool has_data() const { return GetParam() == 1; }

  /// Fails each allocation of a call in turn, alone and with all that follow, and then lets the call succeed.
  /// `state` describes what the call could have changed.
  void survives(
      const char* name, const std::function<Status()>& call,
      const std::function<uint64_t()>& state = [] { return uint64_t{0}; }) {
    SCOPED_TRACE(name);
    Status status = kSuccess;
    for (const uint64_t count : {kAlways, uint64_t{1}}) {
      for (uint64_t first = 0;; ++first) {
        const uint64_t free_before = free_memory();
        const uint64_t before = state();
        if (!fails_within(first, count, call, status)) break;
        ASSERT_EQ(status, GPUPOOL_ERROR_HOST_OUT_OF_MEMORY) << first;
        ASSERT_EQ(free_memory(), free_before) << first;
        ASSERT_EQ(state(), before) << first;
        ASSERT_EQ(fault_count(), 0U) << last_fault();
        ++failures_;
      }
      EXPECT_EQ(status, kSuccess) << last_error().message;
      if (count == kAlways && undo_) undo_();
    }
    undo_ = nullptr;
  }
  /// What takes a call back that succeeded, so that it can be tried again.
  void undo_with(std::function<void()> undo) { undo_ = std::move(undo); }

  uint64_t failures_ = 0;  // calls that failed so far

 private:
  std::function<void()> undo_;
};

INSTANTIATE_TEST_SUITE_P(Data, SimHostMemoryTest, ::testing::Values(1U, 2U),
                         [](const auto& test) { return test.param == 1 ? "on" : "off"; });

TEST_P(SimHostMemoryTest, OfMemoryCallsIsSurvived) {
  Address base = 0;
  ChunkHandle chunk = 0;
  Address block = 0;
  undo_with([&] { EXPECT_EQ(device->release_addresses(base, 8 * kChunk), kSuccess); });
  survives("reserve_addresses", [&] { return device->reserve_addresses(8 * kChunk, base); });
  undo_with([&] { EXPECT_EQ(device->release_chunk(chunk), kSuccess); });
  survives("create_chunk", [&] { return device->create_chunk(kChunk, chunk); });
  undo_with([&] { EXPECT_EQ(device->unmap(base, kChunk), kSuccess); });
  survives("map", [&] { return device->map(base, kChunk, chunk); });
  survives("set_access", [&] { return device->set_access(base, kChunk); });
  undo_with([&] { EXPECT_EQ(device->deallocate(Kind::device, block, kChunk, 0), kSuccess); });
  survives("allocate", [&] { return device->allocate(Kind::device, kChunk, 0, block); });
  EXPECT_GT(failures_, 0U);

  // Whatever gives back needs no memory.
  failures_ = 0;
  Address other = reserve(4 * kChunk);
  Address between = reserve(4 * kChunk);
  reserve(4 * kChunk);
  undo_with([&] { EXPECT_EQ(device->allocate(Kind::device, kChunk, 0, block), kSuccess); });
  survives("deallocate", [&] { return device->deallocate(Kind::device, block, kChunk, 0); });
  undo_with([&] { map(base, chunk); });
  survives("unmap", [&] { return device->unmap(base, kChunk); });
  for (Address* const range : {&between, &other}) {  // with free neighbours on no side, and then on one
    undo_with([&] { *range = reserve(4 * kChunk); });
    survives("release_addresses", [&] { return device->release_addresses(*range, 4 * kChunk); });
  }
  undo_with([&] { chunk = create(); });
  survives("release_chunk", [&] { return device->release_chunk(chunk); });
  EXPECT_EQ(failures_, 0U);
  EXPECT_EQ(free_memory(), device->info().total);
}

TEST_P(SimHostMemoryTest, OfAddressesLosesNone) {
  if (has_data()) GTEST_SKIP() << "the host has its own";
  Address base = 0;
  for (const uint64_t size : {kChunk, 64 * kTiB}) {
    undo_with([&] { EXPECT_EQ(device->release_addresses(base, size), kSuccess); });
    survives("reserve_addresses", [&] { return device->reserve_addresses(size, base); });
    EXPECT_EQ(device->release_addresses(base, size), kSuccess);
  }
  const Address most = reserve(64 * kTiB);
  reserve(62 * kTiB);
  EXPECT_EQ(device->release_addresses(most, 64 * kTiB), kSuccess);
}

TEST_P(SimHostMemoryTest, OfStreamsAndEventsIsSurvived) {
  Stream stream = 0;
  Event event = 0;
  undo_with([&] { EXPECT_EQ(device->destroy_stream(stream), kSuccess); });
  survives("create_stream", [&] { return device->create_stream(stream); });
  undo_with([&] { device->recycle(event); });
  survives("record", [&] { return device->record(stream, 0, event); });
  survives("record", [&] { return device->record(99, 0, event); });
  survives("wait", [&] { return device->wait(98, event); });
  survives("is_capturing", [&] {
    bool capturing = false;
    return device->is_capturing(97, capturing);
  });
  undo_with([&] { EXPECT_EQ(sim_capture(kOrdinal, stream, false), kSuccess); });
  survives("begin_capture", [&] { return sim_capture(kOrdinal, stream, true); });
  EXPECT_EQ(sim_capture(kOrdinal, stream, false), kSuccess);
  undo_with([&] { EXPECT_EQ(device->create_stream(stream), kSuccess); });
  survives("destroy_stream", [&] { return device->destroy_stream(stream); });
  EXPECT_GT(failures_, 0U);
}

TEST_P(SimHostMemoryTest, OfWorkDoesNothing) {
  const Address base = reserve(8 * kChunk);
  for (uint64_t i = 0; i < 8; ++i) map(base + i * kChunk, create());
  const auto* const bytes = reinterpret_cast<const uint8_t*>(base);
  uint64_t round = 0;
  /// What is in memory, and whether anything runs.
  const auto state = [&] {
    uint64_t sum = 0;
    for (uint64_t at = 0; has_data() && at < 8 * kChunk; at += 4096) sum = sum * 31 + bytes[at];
    return 2 * sum + (idle(1) ? 1 : 0);
  };
  const auto settle = [&] { EXPECT_EQ(device->synchronize_stream(1), kSuccess); };
  const auto next_value = [&] { return static_cast<uint8_t>(++round); };

  undo_with(settle);
  survives(
      "work", [&] { return work(1, base + 100, 5 * kChunk, 1'000'000); }, state);
  settle();
  undo_with(settle);
  survives(
      "fill", [&] { return device->fill(base + 512, next_value(), 3 * kChunk, 1); }, state);
  settle();
  if (has_data()) {
    undo_with(settle);
    survives(
        "copy", [&] { return device->copy(base + 4 * kChunk, base + 512, 3 * kChunk, 1); }, state);
    settle();
    std::vector<uint8_t> host(3 * kChunk, 9);
    const auto host_address = reinterpret_cast<Address>(host.data());
    undo_with(settle);
    survives(
        "copy from the host", [&] { return device->copy(base + 512, host_address, host.size(), 1); }, state);
    settle();
  }
  EXPECT_EQ(sim_capture(kOrdinal, 1, true), kSuccess);
  uint64_t capture = 0;
  EXPECT_EQ(device->capture_id(1, capture), kSuccess);
  survives("work in a capture", [&] { return work(1, base, kChunk, 1'000'000); });
  EXPECT_EQ(device->fill(base, 77, kChunk, 1), kSuccess);
  EXPECT_EQ(sim_capture(kOrdinal, 1, false), kSuccess);
  const uint64_t start = device->now_ns();
  undo_with(settle);
  survives(
      "launch", [&] { return sim_launch(kOrdinal, capture, 1); }, state);
  settle();
  EXPECT_GE(device->now_ns() - start, 4'000'000U) << "two launches of what was captured twice";
  EXPECT_LT(device->now_ns() - start, 5'000'000U) << "and no more of it";
  EXPECT_GT(failures_, 10U);
}

/// A race is still seen after accesses whose records there was no memory for.
TEST_P(SimHostMemoryTest, OfRecordsLosesNone) {
  const Address base = usable();
  EXPECT_EQ(work(1, base, 4096, 1'000'000'000), kSuccess);
  EXPECT_EQ(work(2, base + 4096, 4096, 1'000'000'000), kSuccess);
  Status status = kSuccess;
  for (uint64_t first = 0;; ++first) {
    if (!fails_within(
            first, 1, [&] { return work(1, base + 1024, 1024, 1); }, status))
      break;
    EXPECT_EQ(status, GPUPOOL_ERROR_HOST_OUT_OF_MEMORY);
  }
  for (uint64_t at = 0; at < 8192; at += 512) EXPECT_EQ(work(3, base + at, 1, 1), GPUPOOL_ERROR_DRIVER) << at;
  EXPECT_EQ(work(3, base + 8192, 1, 1), kSuccess);
}

TEST_P(SimHostMemoryTest, OfTheLaboratoryIsSurvived) {
  survives("script", [&] { return sim_script(kOrdinal, "create:7,map:9=out_of_memory,unmap:12"); });
  survives("script", [&] { return sim_script(kOrdinal, ""); });
  std::unique_ptr<Device> again;
  undo_with([&] { again.reset(); });
  survives("open", [&] { return open_sim(kOrdinal, again); });
  gpupool_sim_config_t config = {};
  config.struct_size = sizeof config;
  config.data = GetParam();
  survives("configure", [&] { return sim_configure(6, config); });
  EXPECT_GT(failures_, 0U);
}

}  // namespace
}  // namespace gpupool::internal
