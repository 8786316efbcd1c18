// SPDX-License-Identifier: Apache-2.0
// A simulated device that processes share. Each object here stands for one of them.
#include "device/sim/shared.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

namespace gpupool::internal {
namespace {

constexpr uint64_t kCapacity = 1000;

class SimSharedTest : public testing::Test {
 protected:
  SimSharedTest() {
    setenv("GPUPOOL_SIM_SHARED", ("device-test-" + std::to_string(getpid())).c_str(), 1);
    for (auto& each : processes_) {
      if (SimShared::open(0, each) != kSuccess || each == nullptr) abort();
    }
  }
  ~SimSharedTest() override {
    std::filesystem::remove(sim_shared_path(0));
    unsetenv("GPUPOOL_SIM_SHARED");
  }

  std::array<std::unique_ptr<SimShared>, 3> processes_;
};

TEST_F(SimSharedTest, AllTogetherHoldNoMoreThanItsCapacity) {
  EXPECT_TRUE(processes_[0]->charge(600, kCapacity));
  EXPECT_FALSE(processes_[1]->charge(401, kCapacity));
  EXPECT_TRUE(processes_[1]->charge(400, kCapacity));
  EXPECT_FALSE(processes_[2]->charge(1, kCapacity));
  EXPECT_EQ(processes_[2]->used(), kCapacity);
  processes_[0]->refund(1);
  EXPECT_TRUE(processes_[2]->charge(1, kCapacity));
  processes_[1].reset();
  EXPECT_EQ(processes_[2]->used(), 600U);
}

/// A process may stand still at any moment: also while it is being refused, and then the others must not
/// take what it wants for what it has.
TEST_F(SimSharedTest, WhatIsRefusedIsNotHeldForAMoment) {
  ASSERT_TRUE(processes_[0]->charge(kCapacity, kCapacity));
  std::atomic<bool> stops{false};
  std::thread asks([&] {
    while (!stops) EXPECT_FALSE(processes_[1]->charge(500, kCapacity));
  });
  uint64_t most = 0;
  for (int i = 0; i < 2000; ++i) most = std::max(most, processes_[2]->used());
  stops = true;
  asks.join();
  EXPECT_EQ(most, kCapacity);
}

TEST_F(SimSharedTest, OnlyOneOfTwoThatDoNotFitHasIt) {
  std::atomic<uint64_t> granted{0};
  const auto take = [&](SimShared& own) {
    for (int i = 0; i < 2000; ++i) {
      if (!own.charge(600, kCapacity)) continue;
      EXPECT_EQ(granted.fetch_add(600), 0U);
      granted -= 600;
      own.refund(600);
    }
  };
  std::thread first([&] { take(*processes_[0]); });
  std::thread second([&] { take(*processes_[1]); });
  first.join();
  second.join();
  EXPECT_EQ(processes_[2]->used(), 0U);
}

}  // namespace
}  // namespace gpupool::internal
