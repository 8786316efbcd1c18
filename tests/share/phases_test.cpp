// SPDX-License-Identifier: Apache-2.0
// Programs whose phases differ: each needs much while the others need little.
#include <array>
#include <random>
#include <utility>
#include <vector>

#include "pools_fixture.hpp"

namespace gpupool::internal::share {
namespace {

constexpr size_t kProcesses = 3;
constexpr uint64_t kMuch = 5 * kGiB;
constexpr uint64_t kLittle = kGiB;
constexpr int kPhases = 12;

/// Blocks of random sizes, some of which stay from phase to phase.
class WorkingSet {
 public:
  /// Blocks have up to `largest` MiB.
  WorkingSet(gpupool_t* pool, uint64_t seed, uint64_t largest)
      : pool_(pool), random_(seed), largest_(largest) {}

  /// Frees blocks at random, or takes some, until exactly `bytes` are live. False: out of memory.
  bool become(uint64_t bytes) {
    while (live_ > bytes) {
      std::swap(blocks_[random_() % blocks_.size()], blocks_.back());
      gpupool_free(pool_, blocks_.back().first, 0);
      live_ -= blocks_.back().second;
      blocks_.pop_back();
    }
    while (live_ < bytes) {
      const uint64_t size = std::min(bytes - live_, (1 + random_() % largest_) * kMiB);
      gpupool_ptr_t block = 0;
      if (gpupool_malloc(pool_, size, 0, &block) != GPUPOOL_SUCCESS) return false;
      blocks_.emplace_back(block, size);
      live_ += size;
    }
    return true;
  }

  uint64_t live() const { return live_; }

 private:
  gpupool_t* pool_;
  std::mt19937_64 random_;
  uint64_t largest_;
  std::vector<std::pair<gpupool_ptr_t, uint64_t>> blocks_;
  uint64_t live_ = 0;
};

/// In each phase one process, in turn, has much, and the others have little: a static split would need three
/// times `kMuch`. All fits into 1.02 times what is live together at most.
TEST_F(PoolsTest, ProgramsWhosePhasesDifferFitIntoTheirJointPeak) {
  constexpr uint64_t kJoint = kMuch + (kProcesses - 1) * kLittle;
  ASSERT_LE(kJoint, kCapacity);
  setenv("GPUPOOL_SHARE_LIMIT", std::to_string(kJoint + kJoint / 50).c_str(), 1);
  std::array<pid_t, kProcesses> children{};
  for (size_t self = 0; self < kProcesses; ++self) {
    children[self] = start([&, self] {
      gpupool_t* const pool = make_pool();
      WorkingSet set(pool, self, 256);
      // First those shrink that need less now, then one grows.
      for (int step = 0; step < 2 * kPhases; ++step) {
        const bool has_much = static_cast<size_t>(step / 2) % kProcesses == self;
        const bool is_its_step = has_much == (step % 2 == 1);
        if (is_its_step && !set.become(has_much ? kMuch : kLittle)) return 1 + step;
        ++board_->step;
        if (!board_->reaches(static_cast<int>(kProcesses) * (step + 1), 60'000)) return 100;
      }
      return gpupool_validate(pool) == GPUPOOL_SUCCESS ? 0 : 101;
    });
  }
  for (const pid_t child : children)
    EXPECT_EQ(end_of(child), 0) << "the step at which it was out of memory, from 1";
  unsetenv("GPUPOOL_SHARE_LIMIT");
}

/// All grow at the same time, and each takes what another has just been given, if that one does not keep it.
/// All fits into 85 % of the group's limit.
TEST_F(PoolsTest, WhoGrowAtTheSameTimeGetWhatFits) {
  constexpr uint64_t kLimit = kGiB;
  constexpr uint64_t kLive = kLimit / 100 * 85 / kMiB;
  setenv("GPUPOOL_SHARE_LIMIT", std::to_string(kLimit).c_str(), 1);
  std::array<pid_t, kProcesses> children{};
  for (size_t self = 0; self < kProcesses; ++self) {
    children[self] = start([&, self] {
      gpupool_t* const pool = make_pool();
      WorkingSet set(pool, self, 16);
      std::mt19937_64 parts(5);  // all have the same, and so know what each other gets
      uint64_t has = 0;
      for (int step = 0; step < 2 * kPhases; ++step) {
        std::array<uint64_t, kProcesses> weights{};
        if (step % 2 == 0) {
          for (uint64_t& each : weights) each = 1 + parts() % 100;
          has = kLive * weights[self] / (weights[0] + weights[1] + weights[2]) * kMiB;
        }
        // Those that shrink go first.
        const bool shrinks = has <= set.live();
        if (shrinks == (step % 2 == 0) && !set.become(has)) return 1 + step;
        ++board_->step;
        if (!board_->reaches(static_cast<int>(kProcesses) * (step + 1), 60'000)) return 100;
      }
      return gpupool_validate(pool) == GPUPOOL_SUCCESS ? 0 : 101;
    });
  }
  for (const pid_t child : children)
    EXPECT_EQ(end_of(child), 0) << "the step at which it was out of memory, from 1";
  unsetenv("GPUPOOL_SHARE_LIMIT");
}

}  // namespace
}  // namespace gpupool::internal::share
