// SPDX-License-Identifier: Apache-2.0
// Streams, events and capture in virtual time, and the prices of calls.
#include <memory>
#include <thread>

#include "sim_fixture.hpp"

namespace gpupool::internal {
namespace {

class SimStreamsTest : public SimTest {
 protected:
  void SetUp() override { restart_without_data(); }

  /// The virtual time that a call took.
  template <class Call>
  uint64_t cost(Call&& call) {
    const uint64_t before = device->now_ns();
    call();
    return device->now_ns() - before;
  }
  template <class Call>
  double price_of(Call&& call) {
    return static_cast<double>(cost(call));
  }
  Stream created() {
    Stream stream = 0;
    EXPECT_EQ(device->create_stream(stream), kSuccess);
    return stream;
  }
  uint64_t capture_id(Stream stream) {
    uint64_t id = 0;
    EXPECT_EQ(device->capture_id(stream, id), kSuccess);
    return id;
  }
};

TEST_F(SimStreamsTest, WorkEndsInItsTime) {
  EXPECT_TRUE(idle(5));
  const uint64_t start = device->now_ns();
  EXPECT_EQ(work(5, 0, 0, 10'000), kSuccess);
  EXPECT_EQ(work(5, 0, 0, 10'000), kSuccess);
  EXPECT_EQ(work(6, 0, 0, 5'000), kSuccess);
  EXPECT_EQ(device->now_ns(), start) << "queueing takes the host no time";
  EXPECT_EQ(sim_advance(kOrdinal, 19'000), kSuccess);
  EXPECT_FALSE(idle(5));
  EXPECT_TRUE(idle(6));
  EXPECT_EQ(device->synchronize_stream(5), kSuccess);
  EXPECT_EQ(device->now_ns(), start + 20'000);
  EXPECT_TRUE(idle(5));
}

TEST_F(SimStreamsTest, EventsPassWithWhatWasQueuedBefore) {
  const Event at_once = record(1);
  EXPECT_TRUE(passed(at_once));
  const uint64_t start = device->now_ns();
  EXPECT_EQ(work(1, 0, 0, 50'000), kSuccess);
  const Event first = record(1);
  EXPECT_EQ(work(1, 0, 0, 50'000), kSuccess);
  const Event second = record(1);
  EXPECT_FALSE(passed(first));
  EXPECT_EQ(device->synchronize(first), kSuccess);
  EXPECT_EQ(device->now_ns(), start + 50'000);
  EXPECT_TRUE(passed(first));
  EXPECT_FALSE(passed(second));
  EXPECT_EQ(device->synchronize(second), kSuccess);
  EXPECT_EQ(device->now_ns(), start + 100'000);
  EXPECT_EQ(device->synchronize(first), kSuccess) << "long passed";
  EXPECT_GE(device->now_ns(), start + 100'000);
}

TEST_F(SimStreamsTest, WaitHoldsTheStreamNotTheHost) {
  EXPECT_EQ(work(1, 0, 0, 100'000), kSuccess);
  const Event event = record(1);
  const uint64_t host = cost([&] { EXPECT_EQ(device->wait(2, event), kSuccess); });
  EXPECT_LT(host, 1000U);
  EXPECT_FALSE(idle(2));
  EXPECT_EQ(work(2, 0, 0, 1000), kSuccess);
  EXPECT_EQ(device->synchronize_stream(2), kSuccess);
  EXPECT_TRUE(passed(event));
  EXPECT_TRUE(idle(1));
}

TEST_F(SimStreamsTest, StreamZeroIsLikeTheOthers) {
  EXPECT_EQ(work(1, 0, 0, 100'000), kSuccess);
  EXPECT_TRUE(passed(record(0)));
}

TEST_F(SimStreamsTest, EventsAreGivenBack) {
  const Event event = record(1);
  device->recycle(event);
  device->recycle(0);
  EXPECT_EQ(fault_count(), 0U);
  bool result = false;
  expect_fault(device->query(event, result), 400, "does not exist");
  expect_fault(device->synchronize(event), 400, "does not exist");
  expect_fault(device->wait(1, event), 400, "does not exist");
  expect_fault(device->query(0, result), 400, "does not exist");
  device->recycle(event);
  EXPECT_EQ(fault_count(), 5U);
  EXPECT_NE(record(1), event) << "no number is used twice";
}

TEST_F(SimStreamsTest, DestroyedStreamsAreGone) {
  const Stream stream = created();
  EXPECT_GE(stream, 0x1000U);
  EXPECT_EQ(work(stream, 0, 0, 70'000), kSuccess);
  const Event event = record(stream);
  const uint64_t waited = cost([&] { EXPECT_EQ(device->destroy_stream(stream), kSuccess); });
  EXPECT_GE(waited, 69'000U);
  EXPECT_TRUE(passed(event)) << "events outlive their stream";

  uint64_t id = 0;
  Event none = 0;
  expect_fault(device->record(stream, 0, none), 400, "destroyed");
  expect_not_capturing(stream);
  expect_fault(device->synchronize_stream(stream), 400, "destroyed");
  expect_fault(device->wait(stream, event), 400, "destroyed");
  expect_fault(device->capture_id(stream, id), 400, "destroyed");
  expect_fault(device->destroy_stream(stream), 400, "destroyed");
  expect_fault(device->fill(0, 0, 0, stream), 400, "destroyed");
  expect_fault(work(stream, 0, 0, 1), 400, "destroyed");
  expect_fault(sim_capture(kOrdinal, stream, true), 400, "destroyed");
  expect_fault(device->destroy_stream(0), 400, "stream 0");
}

TEST_F(SimStreamsTest, NewStreamsHaveNewNumbers) {
  EXPECT_TRUE(idle(0x1001)) << "seen, though not created here";
  const Stream a = created();
  EXPECT_EQ(device->destroy_stream(a), kSuccess);
  const Stream b = created();
  EXPECT_NE(a, b);
  EXPECT_NE(b, 0x1001U);
}

// ---- capture

TEST_F(SimStreamsTest, CaptureHasAName) {
  EXPECT_EQ(capture_id(1), 0U);
  EXPECT_EQ(sim_capture(kOrdinal, 1, true), kSuccess);
  const uint64_t first = capture_id(1);
  EXPECT_NE(first, 0U);
  EXPECT_EQ(capture_id(2), 0U);
  EXPECT_EQ(sim_capture(kOrdinal, 2, true), kSuccess);
  EXPECT_NE(capture_id(2), first);
  EXPECT_NE(capture_id(2), 0U);
  EXPECT_EQ(sim_capture(kOrdinal, 1, false), kSuccess);
  EXPECT_EQ(capture_id(1), 0U);
  EXPECT_EQ(sim_capture(kOrdinal, 1, true), kSuccess);
  EXPECT_NE(capture_id(1), first);
  EXPECT_EQ(fault_count(), 0U);
  expect_fault(sim_capture(kOrdinal, 1, true), 401, "already");
  expect_fault(sim_capture(kOrdinal, 3, false), 401, "not capturing");
  expect_fault(sim_capture(kOrdinal, 0, true), 900, "stream 0");
}

TEST_F(SimStreamsTest, WhatIsIllegalInACapture) {
  const Event outside = record(1);
  EXPECT_EQ(sim_capture(kOrdinal, 1, true), kSuccess);
  const Event inside = record(1);
  EXPECT_EQ(device->wait(1, inside), kSuccess);
  EXPECT_TRUE(passed(outside));
  EXPECT_EQ(device->synchronize(outside), kSuccess);
  EXPECT_TRUE(idle(2)) << "other streams go on";
  EXPECT_EQ(fault_count(), 0U);

  bool result = true;
  expect_fault(device->synchronize_stream(1), 900, "synchronize_stream");
  expect_fault(device->destroy_stream(1), 900, "destroy_stream");
  expect_fault(device->query(inside, result), 900, "query of event");
  expect_fault(device->synchronize(inside), 900, "synchronize of event");
  expect_fault(device->wait(1, outside), 900, "wait");
  expect_fault(device->wait(2, inside), 900, "wait");

  EXPECT_EQ(sim_capture(kOrdinal, 1, false), kSuccess);
  EXPECT_TRUE(idle(1));
  EXPECT_EQ(device->wait(1, outside), kSuccess);
  EXPECT_FALSE(passed(inside)) << "never passes";
  expect_fault(device->synchronize(inside), 900, "synchronize of event");
  expect_fault(device->wait(1, inside), 900, "wait");
}

/// On a GPU these end the capture, or the process.
TEST_F(SimStreamsTest, OtherThreadsMustNotTouchACapturingStream) {
  const Event outside = record(2);
  EXPECT_EQ(sim_capture(kOrdinal, 1, true, true), kSuccess);
  std::thread([&] {
    uint64_t id = 0;
    Event event = 0;
    expect_fault(device->capture_id(1, id), 900, "another thread captures");
    expect_fault(device->record(1, 0, event), 900, "another thread captures");
    expect_fault(device->wait(1, outside), 900, "another thread captures");
    bool capturing = false;
    EXPECT_EQ(device->is_capturing(1, capturing), kSuccess);
    EXPECT_TRUE(capturing);
    EXPECT_EQ(device->synchronize_all(0), kSuccess) << last_error().message;
  }).join();
  EXPECT_EQ(sim_capture(kOrdinal, 1, false), kSuccess);
}

/// Devices have clocks of their own.
TEST_F(SimStreamsTest, StreamsOfOtherDevicesHaveEventsOfTheirOwn) {
  std::unique_ptr<Device> other;
  ASSERT_EQ(open_sim(kOrdinal + 1, other), kSuccess);
  Stream foreign = 0;
  ASSERT_EQ(other->create_stream(foreign), kSuccess);
  uint64_t context = 0;
  EXPECT_EQ(device->context_of(foreign, context), kSuccess);
  EXPECT_NE(context, 0U);
  ASSERT_EQ(sim_work(kOrdinal + 1, foreign, 0, 0, 1'000'000), kSuccess);
  Event event = 0;
  ASSERT_EQ(device->record(foreign, context, event), kSuccess);
  EXPECT_FALSE(passed(event));
  EXPECT_EQ(device->wait(3, event), kSuccess) << last_error().message;
  EXPECT_FALSE(idle(3));
  EXPECT_EQ(sim_advance(kOrdinal + 1, 2'000'000), kSuccess);
  EXPECT_TRUE(passed(event));
  EXPECT_FALSE(idle(3)) << "the wait was queued in this device's time";
  device->recycle(event);
  EXPECT_EQ(device->context_of(7777, context), kSuccess);
  EXPECT_EQ(context, 0U) << "a number that nobody created is this device's";
  EXPECT_EQ(other->destroy_stream(foreign), kSuccess);
}

TEST_F(SimStreamsTest, CapturedWorkIsCheckedAndNotExecuted) {
  restart({});
  const Address base = usable();
  auto* const bytes = reinterpret_cast<uint8_t*>(base);
  bytes[0] = 1;
  EXPECT_EQ(sim_capture(kOrdinal, 1, true), kSuccess);
  EXPECT_EQ(device->fill(base, 9, 1, 1), kSuccess);
  EXPECT_EQ(work(1, base, 512, 1'000'000), kSuccess);
  EXPECT_EQ(bytes[0], 1);
  expect_fault(work(1, base + kChunk, 1, 1), 700, "unmapped address");
  EXPECT_EQ(work(2, base, 512, 10), kSuccess) << "no race with what does not run";
  EXPECT_EQ(sim_capture(kOrdinal, 1, false), kSuccess);
  EXPECT_TRUE(idle(1));
}

// ---- launches of what was captured

TEST_F(SimStreamsTest, LaunchesDoWhatWasRecorded) {
  restart({});
  const Address base = usable(2 * kChunk);
  auto* const bytes = reinterpret_cast<uint8_t*>(base);
  uint8_t host[8] = {};
  EXPECT_EQ(sim_capture(kOrdinal, 1, true), kSuccess);
  const uint64_t capture = capture_id(1);
  EXPECT_EQ(device->fill(base, 9, kChunk, 1), kSuccess);
  EXPECT_EQ(device->copy(base + kChunk, base, kChunk, 1), kSuccess);
  EXPECT_EQ(device->fill(base, 3, 1, 1), kSuccess) << "after the copy, in order";
  EXPECT_EQ(device->copy(reinterpret_cast<Address>(host), base + kChunk, sizeof host, 1), kSuccess);
  EXPECT_EQ(work(1, base, 512, 1'000'000), kSuccess);
  EXPECT_EQ(sim_capture(kOrdinal, 1, false), kSuccess);
  for (int i = 0; i < 2; ++i) {
    std::memset(bytes, 0, 2 * kChunk);
    std::memset(host, 0, sizeof host);
    const uint64_t start = device->now_ns();
    EXPECT_EQ(cost([&] { EXPECT_EQ(sim_launch(kOrdinal, capture, 2), kSuccess) << last_error().message; }),
              0U);
    EXPECT_EQ(bytes[0], 3);
    EXPECT_EQ(bytes[1], 9);
    EXPECT_EQ(bytes[kChunk], 9);
    EXPECT_EQ(bytes[2 * kChunk - 1], 9);
    EXPECT_EQ(host[7], 9);
    EXPECT_FALSE(idle(2)) << "it runs on the stream that it was launched on";
    EXPECT_EQ(device->synchronize_stream(2), kSuccess);
    EXPECT_GE(device->now_ns() - start, 1'000'000U + 2 * (kChunk / 2000));
  }
  EXPECT_EQ(fault_count(), 0U) << last_fault();
}

TEST_F(SimStreamsTest, LaunchesAreCheckedByTheRulesOfNow) {
  const Address base = usable();
  EXPECT_EQ(sim_capture(kOrdinal, 1, true), kSuccess);
  const uint64_t capture = capture_id(1);
  EXPECT_EQ(work(1, base, 512, 1'000'000), kSuccess);
  EXPECT_EQ(device->fill(base + kMiB, 0, 512, 1), kSuccess);
  EXPECT_EQ(sim_capture(kOrdinal, 1, false), kSuccess);

  EXPECT_EQ(sim_launch(kOrdinal, capture, 1), kSuccess);
  expect_fault(sim_launch(kOrdinal, capture, 2), 719, "race");
  expect_fault(device->unmap(base, kChunk), 700, "unmapped while in use");
  EXPECT_EQ(device->synchronize_stream(1), kSuccess);
  EXPECT_EQ(device->unmap(base, kChunk), kSuccess);
  expect_fault(sim_launch(kOrdinal, capture, 1), 700, "unmapped address: work of capture");
  EXPECT_TRUE(idle(1)) << "and takes no time";
  map(base, create());
  EXPECT_EQ(sim_launch(kOrdinal, capture, 1), kSuccess) << "other memory at the address will do";
}

TEST_F(SimStreamsTest, LaunchesInACaptureBecomePartOfIt) {
  const Address base = usable();
  EXPECT_EQ(sim_capture(kOrdinal, 1, true), kSuccess);
  const uint64_t inner = capture_id(1);
  EXPECT_EQ(work(1, base, 512, 1'000'000), kSuccess);
  EXPECT_EQ(sim_capture(kOrdinal, 1, false), kSuccess);
  EXPECT_EQ(sim_capture(kOrdinal, 1, true), kSuccess);
  const uint64_t outer = capture_id(1);
  EXPECT_EQ(sim_launch(kOrdinal, inner, 1), kSuccess);
  EXPECT_EQ(sim_launch(kOrdinal, inner, 1), kSuccess);
  EXPECT_EQ(sim_capture(kOrdinal, 1, false), kSuccess);
  EXPECT_TRUE(idle(1)) << "nothing ran";
  const uint64_t start = device->now_ns();
  EXPECT_EQ(sim_launch(kOrdinal, outer, 1), kSuccess);
  EXPECT_EQ(device->synchronize_stream(1), kSuccess);
  EXPECT_GE(device->now_ns() - start, 2'000'000U);
}

TEST_F(SimStreamsTest, OnlyEndedCapturesCanBeLaunched) {
  EXPECT_EQ(sim_capture(kOrdinal, 1, true), kSuccess);
  const uint64_t capture = capture_id(1);
  for (const uint64_t number : {capture, uint64_t{0}, capture + 1, ~uint64_t{0}}) {
    EXPECT_EQ(sim_launch(kOrdinal, number, 2), GPUPOOL_ERROR_INVALID_ARGUMENT) << number;
  }
  EXPECT_EQ(sim_capture(kOrdinal, 1, false), kSuccess);
  EXPECT_EQ(sim_launch(kOrdinal, capture, 2), kSuccess) << "it is empty, and does nothing";
  EXPECT_EQ(fault_count(), 0U) << last_fault();
  EXPECT_EQ(sim_launch(kOrdinal + 1, capture, 2), GPUPOOL_ERROR_INVALID_ARGUMENT) << "of another device";
  const Stream gone = created();
  EXPECT_EQ(device->destroy_stream(gone), kSuccess);
  expect_fault(sim_launch(kOrdinal, capture, gone), 400, "launch on stream");
}

// ---- streams that nobody made

TEST_F(SimStreamsTest, StrictStreamsAreThoseThatWereCreated) {
  gpupool_sim_config_t strict = {};
  strict.data = 2;
  strict.streams = 2;
  restart(strict);
  const Stream stream = created();
  EXPECT_EQ(work(stream, 0, 0, 1'000'000), kSuccess);
  EXPECT_EQ(work(0, 0, 0, 10), kSuccess) << "the legacy stream is always there";
  EXPECT_EQ(device->wait(stream, record(0)), kSuccess);
  EXPECT_FALSE(idle(stream));
  EXPECT_EQ(fault_count(), 0U) << last_fault();

  Event event = 0;
  uint64_t id = 0;
  const Address base = usable();
  const char* const words = "on stream 0x3e7, which nobody created";
  expect_fault(work(999, 0, 0, 10), 400, words);
  expect_fault(device->fill(base, 0, 1, 999), 400, words);
  expect_fault(device->record(999, 0, event), 400, words);
  expect_fault(device->wait(999, record(0)), 400, words);
  expect_not_capturing(999);
  expect_fault(device->synchronize_stream(999), 400, words);
  expect_fault(device->capture_id(999, id), 400, words);
  expect_fault(device->destroy_stream(999), 400, words);
  expect_fault(sim_capture(kOrdinal, 999, true), 400, words);
  EXPECT_EQ(device->destroy_stream(stream), kSuccess);
  expect_fault(work(stream, 0, 0, 10), 400, "destroyed");
}

TEST_F(SimStreamsTest, DevicesCreateStreamsOfDifferentNumbers) {
  std::unique_ptr<Device> other;
  ASSERT_EQ(open_sim(kOrdinal + 1, other), kSuccess);
  Stream theirs = 0;
  ASSERT_EQ(other->create_stream(theirs), kSuccess);
  for (int i = 0; i < 100; ++i) EXPECT_NE(created(), theirs);
}

// ---- prices

TEST_F(SimStreamsTest, ChunksCostWhatWasMeasured) {
  struct Row {
    uint64_t size;
    double create, map, set_access, unmap, release;
  };
  const Row rows[] = {
      {2 * kMiB, 10500, 1100, 38000, 15600, 9700},   {4 * kMiB, 8600, 640, 24000, 15600, 10000},
      {8 * kMiB, 7400, 500, 22000, 14500, 11000},    {32 * kMiB, 7800, 600, 23000, 14000, 20000},
      {128 * kMiB, 9400, 600, 25000, 16000, 44000},  {80 * kMiB, 8600, 600, 24000, 15000, 32000},
      {256 * kMiB, 11533, 600, 27667, 18667, 76000},
  };
  const Address base = reserve(kGiB);
  for (const Row& row : rows) {
    ChunkHandle chunk = 0;
    EXPECT_NEAR(price_of([&] { chunk = create(row.size); }), row.create, 1) << row.size;
    EXPECT_NEAR(price_of([&] { device->map(base, row.size, chunk); }), row.map, 1) << row.size;
    EXPECT_NEAR(price_of([&] { device->set_access(base, row.size); }), row.set_access, 1) << row.size;
    EXPECT_NEAR(price_of([&] { device->unmap(base, row.size); }), row.unmap, 1) << row.size;
    EXPECT_NEAR(price_of([&] { device->release_chunk(chunk); }), row.release, 1) << row.size;
  }
  for (uint64_t i = 0; i < 3; ++i) device->map(base + i * kChunk, kChunk, create());
  EXPECT_EQ(cost([&] { device->set_access(base, 3 * kChunk); }), 3 * 38000U) << "paid per chunk";
  EXPECT_EQ(cost([&] { device->unmap(base, 3 * kChunk); }), 3 * 15600U);
  EXPECT_EQ(fault_count(), 0U);
}

TEST_F(SimStreamsTest, OtherCallsCostWhatWasMeasured) {
  Address base = 0;
  Event event = 0;
  Address block = 0;
  bool result = false;
  uint64_t value = 0;
  EXPECT_EQ(cost([&] { device->reserve_addresses(kTiB, base); }), 6000U);
  EXPECT_EQ(cost([&] { device->record(1, 0, event); }), 190U);
  EXPECT_EQ(cost([&] { device->query(event, result); }), 144U);
  EXPECT_EQ(cost([&] { device->capture_id(1, value); }), 171U);
  EXPECT_EQ(cost([&] { device->is_capturing(1, result); }), 22U);
  EXPECT_EQ(cost([&] { device->synchronize_all(0); }), 52295U);
  EXPECT_EQ(cost([&] { device->wait(1, event); }), 323U);
  EXPECT_EQ(cost([&] { device->free_memory(value); }), 3800U);
  EXPECT_NEAR(price_of([&] { device->allocate(Kind::device, 10 * kMiB, 0, block); }), 50'000, 200);
  EXPECT_NEAR(price_of([&] { device->deallocate(Kind::device, block, 10 * kMiB, 0); }), 8'840, 10);
  EXPECT_NEAR(price_of([&] {
                device->allocate(Kind::device, 256 * kMiB, 0, block);
                device->deallocate(Kind::device, block, 256 * kMiB, 0);
              }),
              636'302, 2);
  EXPECT_EQ(cost([&] { work(1, 0, 0, 1000); }), 0U);
  EXPECT_NEAR(price_of([&] { device->create_chunk(~uint64_t{0} - kChunk + 1, value); }),
              price_of([&] { device->create_chunk(256 * kGiB, value); }), 1)
      << "absurd sizes have a price as well";
}

TEST_F(SimStreamsTest, PricesScale) {
  gpupool_sim_config_t config = {};
  config.price_scale = 2.5;
  restart(config);
  EXPECT_EQ(cost([&] { create(); }), 26250U);
  config.price_scale = 0.001;
  restart(config);
  const double sum = price_of([&] {
    for (int i = 0; i < 10000; ++i) record(1);
  });
  EXPECT_NEAR(sum, 1900, 1) << "fractions of a nanosecond add up";
}

TEST_F(SimStreamsTest, TimeDoesNotWrap) {
  EXPECT_EQ(work(1, 0, 0, ~uint64_t{0}), kSuccess);
  EXPECT_EQ(work(1, 0, 0, ~uint64_t{0}), kSuccess);
  EXPECT_FALSE(idle(1));
  const uint64_t before = device->now_ns();
  EXPECT_EQ(sim_advance(kOrdinal, ~uint64_t{0}), kSuccess);
  EXPECT_EQ(sim_advance(kOrdinal, 1000), kSuccess);
  EXPECT_GT(device->now_ns(), before);
  EXPECT_TRUE(idle(1));
}

}  // namespace
}  // namespace gpupool::internal
