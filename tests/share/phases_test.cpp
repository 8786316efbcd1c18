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
  WorkingSet(gpupool_t* pool, uint64_t seed) : pool_(pool), random_(seed) {}

  /// Frees blocks at random, or takes some, until exactly `bytes` are live. False: out of memory.
  bool become(uint64_t bytes) {
    while (live_ > bytes) {
      std::swap(blocks_[random_() % blocks_.size()], blocks_.back());
      gpupool_free(pool_, blocks_.back().first, 0);
      live_ -= blocks_.back().second;
      blocks_.pop_back();
    }
    while (live_ < bytes) {
      constexpr uint64_t kLargest = 256;  // MiB
      const uint64_t size = std::min(bytes - live_, (1 + random_() % kLargest) * kMiB);
      gpupool_ptr_t block = 0;
      if (gpupool_malloc(pool_, size, 0, &block) != GPUPOOL_SUCCESS) return false;
      blocks_.emplace_back(block, size);
      live_ += size;
    }
    return true;
  }

 private:
  gpupool_t* pool_;
  std::mt19937_64 random_;
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
      WorkingSet set(pool, self);
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

}  // namespace
}  // namespace gpupool::internal::share
