// SPDX-License-Identifier: Apache-2.0
// Bugs that random sequences have found, each as a short named sequence.
#include <gtest/gtest.h>

#include "base/bits.hpp"
#include "device/sim/sim.hpp"
#include "fuzz/world.hpp"
#include "pool/stream/stream_order.hpp"

namespace gpupool::fuzz {
namespace {

using namespace gpupool::internal;  // NOLINT: its own parts

constexpr uint64_t kMillisecond = 1'000'000;

/// One pool on a device with `capacity` bytes.
class Regression : public ::testing::Test {
 protected:
  void start(uint64_t capacity, uint32_t flags = 0) {
    World::Setup setup;
    setup.capacity = capacity;
    setup.price_scale = 1;
    world.emplace(setup);
    gpupool_config_t config{};
    config.struct_size = sizeof config;
    config.flags = flags;
    world->create(config);
  }

  std::optional<World> world;
};

TEST_F(Regression, ARefusedFreeMakesNoStreamKnown) {
  start(64 * kMiB);
  const gpupool_ptr_t block = world->malloc(0, kMiB, 512, 11);
  world->free(0, block, 11);
  world->free_refused(0, block, 12);
  world->free_refused(0, 0x1234, 7);
  world->finish();
}

TEST_F(Regression, APoolDestroyedWhileAStreamCapturesKeepsWhatThatMayUse) {
  start(64 * kMiB);
  const gpupool_ptr_t block = world->malloc(0, 4 * kMiB, 512, 11);
  world->use(0, block, 11, kMillisecond, false);
  world->capture(11);
  world->free(0, block, 11);
  world->destroy(0);
  world->finish();
}

TEST_F(Regression, APoolDestroyedWhileTheDriverUnmapsNothingKeepsItsAddresses) {
  start(64 * kMiB);
  world->free(0, world->malloc(0, 4 * kMiB, 512, 11), 11);
  world->script("unmap:*");
  world->destroy(0);
  world->finish();
}

TEST_F(Regression, AStreamThatTheDriverSaysNothingOfIsNotSaidToCapture) {
  start(64 * kMiB);
  world->free(0, world->malloc(0, 4 * kMiB, 512, 11), 11);
  world->script("query:*");
  world->release_stream(0, 11);
  world->finish();
}

TEST_F(Regression, WhatTheHandlerFreedIsWaitedFor) {
  start(4 * kMiB);
  world->set_handler(0, true);
  const gpupool_ptr_t block = world->malloc(0, 4 * kMiB, 512, 11);
  world->use(0, block, 12, kMillisecond, false);
  EXPECT_NE(world->malloc(0, 4 * kMiB, 512, 11), 0u)
      << "the handler freed all, though stream 12 was using it";
  world->finish();
}

TEST_F(Regression, ReserveGoesOnWhereTheBestPlaceIsPartlyBacked) {
  start(64 * kMiB);
  // Blocks on every other 8 MiB leave no bare place of more than that, but holes.
  std::vector<gpupool_ptr_t> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(world->malloc(0, 8 * kMiB, 512, 11));
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (i != 3) world->free(0, blocks[i], 11);
  }
  world->trim(0, 32 * kMiB);
  world->reserve(0, 64 * kMiB, 11);
  world->finish();
}

TEST_F(Regression, ReserveNeedsAStream) {
  start(64 * kMiB);
  world->reserve(0, 2 * kMiB, GPUPOOL_STREAM_UNKNOWN);
  world->stats(0);
  world->finish();
}

TEST_F(Regression, TheOnlyPlaceIsLostToAMappingThatCannotBeUndone) {
  start(4 * kMiB);
  world->script("set_access:1=out_of_memory,unmap:*");
  EXPECT_NE(world->malloc(0, 4 * kMiB, 512, 11), 0u) << "there are other addresses";
  world->finish();
}

/// A thread's wait failed when more than its event was for was known to have passed.
TEST(StreamOrderRegression, WhatHasPassedStaysPassed) {
  gpupool_sim_config_t config{};
  config.struct_size = sizeof config;
  config.data = 2;
  ASSERT_EQ(sim_configure(kDevice, config), kSuccess);
  std::unique_ptr<Device> device;
  ASSERT_EQ(open_sim(kDevice, device), kSuccess);
  MeteredDevice driver(std::move(device));
  uint64_t round = 1;
  StreamOrder order(driver, round, 1);
  ASSERT_EQ(sim_work(kDevice, 1, 0, 0, kMillisecond), kSuccess);
  const StreamUser user = StreamUser::of_own(1);
  const auto leave_event = [&] {
    order.expect_questions();
    EXPECT_TRUE(order.leave_event(user));
  };
  (void)order.stamp();
  leave_event();
  StreamOrder::EpochEnd late;
  ASSERT_TRUE(order.begin_wait(late));
  ASSERT_NE(late.event, 0u);
  const uint64_t epoch = order.stamp();
  leave_event();
  ASSERT_EQ(sim_advance(kDevice, 2 * kMillisecond), kSuccess);
  ++round;
  ASSERT_TRUE(order.passed(epoch));
  order.end_wait(late, false);
  ASSERT_EQ(sim_work(kDevice, 1, 0, 0, kMillisecond), kSuccess);
  const uint64_t next = order.stamp();
  leave_event();
  ++round;
  EXPECT_FALSE(order.passed(next));
  ++round;
  EXPECT_TRUE(order.passed(epoch));
}

/// However many epochs are open on the GPU, none passes before its work, and all do after it.
TEST(StreamOrderRegression, FewEventsAreEnough) {
  gpupool_sim_config_t config{};
  config.struct_size = sizeof config;
  config.data = 2;
  ASSERT_EQ(sim_configure(kDevice, config), kSuccess);
  std::unique_ptr<Device> device;
  ASSERT_EQ(open_sim(kDevice, device), kSuccess);
  MeteredDevice driver(std::move(device));
  uint64_t round = 1;
  StreamOrder order(driver, round, 11);
  constexpr int kEpochs = 50;
  std::vector<uint64_t> epochs;
  for (int i = 0; i < kEpochs; ++i) {
    ASSERT_EQ(sim_work(kDevice, 11, 0, 0, kMillisecond), kSuccess);
    epochs.push_back(order.stamp());
    ++round;
    EXPECT_FALSE(order.passed(epochs.back())) << i;
    order.leave_event(StreamUser::of_own(11));
  }
  int passed_before = 0;
  for (int done = 1; done <= kEpochs; ++done) {
    ASSERT_EQ(sim_advance(kDevice, kMillisecond), kSuccess);
    ++round;
    int passed = 0;
    for (const uint64_t epoch : epochs) passed += order.passed(epoch) ? 1 : 0;
    EXPECT_LE(passed, done);
    EXPECT_GE(passed, passed_before);
    passed_before = passed;
  }
  EXPECT_EQ(passed_before, kEpochs);
}

}  // namespace
}  // namespace gpupool::fuzz
