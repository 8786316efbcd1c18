// SPDX-License-Identifier: Apache-2.0
// Limits, settings, and the cache switched off.
#include "pytorch.hpp"

namespace {

auto& settings = c10::CachingAllocator::settings();

class Settings : public PyTorch {
 protected:
  void SetUp() override {}
  void start() { PyTorch::SetUp(); }
};

TEST_F(Settings, AFractionFromTheStartIsALimit) {
  settings.memory_fraction = 0.5;
  start();
  EXPECT_EQ(torch->getMemoryFraction(0), 0.5);
  EXPECT_THROW(torch->raw_alloc(size_t{5} << 30), c10::OutOfMemoryError);
  torch->setMemoryFraction(1, 0);
  EXPECT_EQ(torch->getMemoryFraction(0), 1.0);
  torch->raw_delete(torch->raw_alloc(size_t{5} << 30));
}

TEST_F(Settings, NoMemoryAtAllIsALimitToo) {
  settings.memory_fraction = 0;
  start();
  EXPECT_EQ(torch->getMemoryFraction(0), 0.0);
  EXPECT_THROW(torch->raw_alloc(1), c10::OutOfMemoryError);
}

TEST_F(Settings, AFractionComesBackToTheLastDigit) {
  start();
  EXPECT_EQ(torch->getMemoryFraction(0), 1.0);
  for (const double fraction : {1.0, 0.0, 0.49625658988952637, 0.7682217955589294, 1.0 / 3, 5e-324, 1.0}) {
    torch->setMemoryFraction(fraction, 0);
    EXPECT_EQ(torch->getMemoryFraction(0), fraction);
  }
}

TEST_F(Settings, AFractionBelowWhatIsInUseTakesNothingAwayAndAddsNothing) {
  start();
  void* held = torch->raw_alloc(100 * kMiB);
  torch->raw_delete(torch->raw_alloc(200 * kMiB));
  torch->setMemoryFraction(0.0, 0);
  EXPECT_EQ(torch->getMemoryFraction(0), 0.0);
  EXPECT_THROW(torch->raw_alloc(150 * kMiB), c10::OutOfMemoryError);
  torch->raw_delete(held);
  torch->emptyCache();
  EXPECT_EQ(torch->getMemoryFraction(0), 0.0);
  EXPECT_THROW(torch->raw_alloc(1), c10::OutOfMemoryError);  // what was freed does not come back
  torch->setMemoryFraction(0.5, 0);
  torch->raw_delete(torch->raw_alloc(kMiB));
}

TEST_F(Settings, AFractionBelowWhatIsInUseHoldsOnceThatIsFreed) {
  start();
  void* held = torch->raw_alloc(3000 * kMiB);
  torch->setMemoryFraction(0.125, 0);
  EXPECT_THROW(torch->raw_alloc(kMiB), c10::OutOfMemoryError);
  torch->raw_delete(held);
  EXPECT_THROW(torch->raw_alloc(3500 * kMiB), c10::OutOfMemoryError);
  torch->raw_delete(torch->raw_alloc(2000 * kMiB));  // from what is cached, as PyTorch's own does
  torch->emptyCache();
  EXPECT_THROW(torch->raw_alloc(2000 * kMiB), c10::OutOfMemoryError);
  torch->raw_delete(torch->raw_alloc(1000 * kMiB));
  EXPECT_EQ(torch->getMemoryFraction(0), 0.125);
}

TEST_F(Settings, TheLowerOfTwoLimitsHolds) {
  setenv("GPUPOOL_LIMIT", "1GiB", 1);
  settings.memory_fraction = 0.5;
  start();
  EXPECT_THROW(torch->raw_alloc(size_t{2} << 30), c10::OutOfMemoryError);
  EXPECT_EQ(torch->getMemoryFraction(0), 0.125);
  torch->setMemoryFraction(1.0, 0);  // lifts what it set itself, and no more
  EXPECT_EQ(torch->getMemoryFraction(0), 0.125);
  torch->setMemoryFraction(0.0625, 0);
  EXPECT_EQ(torch->getMemoryFraction(0), 0.0625);
}

TEST_F(Settings, FractionsThatAreNoneAreRefused) {
  start();
  EXPECT_THROW(torch->setMemoryFraction(-0.1, 0), c10::Error);
  EXPECT_THROW(torch->setMemoryFraction(1.1, 0), c10::Error);
  EXPECT_THROW(torch->setMemoryFraction(std::numeric_limits<double>::quiet_NaN(), 0), c10::Error);
  EXPECT_EQ(torch->getMemoryFraction(0), 1.0);
}

TEST_F(Settings, WhatDoesNothingIsNamedOnce) {
  settings.expandable_segments = true;
  settings.max_split_size = 100 * kMiB;
  start();
  ASSERT_EQ(c10::warnings().size(), 1u);
  EXPECT_NE(c10::warnings().at(0).find("expandable_segments, max_split_size_mb. "), std::string::npos);
}

TEST_F(Settings, NothingSetNothingSaid) {
  start();
  EXPECT_TRUE(c10::warnings().empty());
}

TEST_F(Settings, WithoutACacheMemoryComesFromTheDriver) {
  start();
  torch->enable(false);
  EXPECT_FALSE(torch->isEnabled());
  c10::DataPtr tensor = torch->allocate(5 * kMiB);
  EXPECT_EQ(stand_in::driver_bytes(), 5 * kMiB);
  EXPECT_EQ(allocated(), 0);
  torch->recordStream(tensor, c10::cuda::CUDAStream(side));
  torch->enable(true);
  void* cached = torch->raw_alloc(100);
  EXPECT_EQ(allocated(), 512);
  tensor = torch->allocate(0);  // the old one ends
  EXPECT_EQ(stand_in::driver_bytes(), 0u);
  torch->enable(false);
  torch->raw_delete(cached);
  EXPECT_EQ(allocated(), 0);
  torch->setMemoryFraction(0.25, 0);
  c10::DataPtr most = torch->allocate(size_t{3} << 29);
  EXPECT_THROW(torch->allocate(size_t{1} << 30), c10::OutOfMemoryError);
}

TEST_F(Settings, TheEnvironmentCanSwitchTheCacheOff) {
  setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "1", 1);
  start();
  c10::DataPtr tensor = torch->allocate(kMiB);
  EXPECT_EQ(stand_in::driver_bytes(), kMiB);
}

TEST_F(Settings, SizesBeyondAllAreAShortage) {
  start();
  for (const size_t size : {size_t{1} << 47, size_t{1} << 60, ~size_t{0}}) {
    try {
      torch->raw_alloc(size);
      FAIL();
    } catch (const c10::OutOfMemoryError& error) {
      const std::string text = error.what();
      EXPECT_EQ(text.rfind("CUDA out of memory. Tried to allocate ", 0), 0u) << text;
      EXPECT_EQ(text.find("more than 1EB memory") != std::string::npos, size >= size_t{1} << 60) << text;
    }
  }
}

}  // namespace
