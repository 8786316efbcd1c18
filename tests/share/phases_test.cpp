// SPDX-License-Identifier: Apache-2.0
// Programs whose phases differ: each needs much while the others need little.
#include <array>
#include <random>

#include "pools_fixture.hpp"
#include "working_set.hpp"

namespace gpupool::internal::share {
namespace {

constexpr size_t kProcesses = 3;
constexpr uint64_t kMuch = 5 * kGiB;
constexpr uint64_t kLittle = kGiB;
constexpr int kPhases = 12;

/// Blocks of up to `largest` MiB, and times as much memory as on a card of 8 GiB.
struct Card {
  const char* name;
  uint64_t times;
  uint64_t largest;
};

class Phases : public PoolsTest, public testing::WithParamInterface<Card> {};
INSTANTIATE_TEST_SUITE_P(On, Phases,
                         testing::Values(Card{"8GiB", 1, 256}, Card{"64GiB", 8, 512},
                                         Card{"128GiB", 16, 2048}),
                         [](const auto& each) { return std::string(each.param.name); });

/// In each phase one process, in turn, has much, and the others have little: a static split would need three
/// times `kMuch`. All fits into 1.02 times what is live together at most.
TEST_P(Phases, ProgramsWhosePhasesDifferFitIntoTheirJointPeak) {
  const Card& card = GetParam();
  const uint64_t much = kMuch * card.times;
  const uint64_t little = kLittle * card.times;
  const uint64_t joint = much + (kProcesses - 1) * little;
  setenv("GPUPOOL_SIM", ("data=0,capacity=" + std::string(card.name)).c_str(), 1);
  setenv("GPUPOOL_SHARE_LIMIT", std::to_string(joint + joint / 50).c_str(), 1);
  std::array<pid_t, kProcesses> children{};
  for (size_t self = 0; self < kProcesses; ++self) {
    children[self] = start([&, self] {
      gpupool_t* const pool = make_pool();
      WorkingSet set(pool, self, card.largest);
      // First those shrink that need less now, then one grows.
      for (int step = 0; step < 2 * kPhases; ++step) {
        const bool has_much = static_cast<size_t>(step / 2) % kProcesses == self;
        const bool is_its_step = has_much == (step % 2 == 1);
        if (is_its_step && !set.become(has_much ? much : little)) return 1 + step;
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
