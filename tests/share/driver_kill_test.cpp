// SPDX-License-Identifier: Apache-2.0
// A process that is killed at any driver call of a growth, of what it gives back, or of a sleep for others.
#include <algorithm>
#include <vector>

#include "kill_fixture.hpp"

namespace gpupool::internal::share {
namespace {

bool take_and_free(gpupool_t* pool, std::initializer_list<uint64_t> sizes) {
  std::vector<gpupool_ptr_t> blocks;
  for (const uint64_t size : sizes) {
    gpupool_ptr_t block = 0;
    if (gpupool_malloc(pool, size, 0, &block) != GPUPOOL_SUCCESS) return false;
    blocks.push_back(block);
  }
  return std::all_of(blocks.begin(), blocks.end(),
                     [&](gpupool_ptr_t block) { return gpupool_free(pool, block, 0) == GPUPOOL_SUCCESS; });
}

constexpr Act kGrowths[] = {
    {"grow", nothing,
     [](const Victim& v) {
       return take_and_free(v.pool, {9 * kMiB, 700, 5 * kMiB});
     }},
    {"move",  // free chunks of several places to one block
     [](const Victim& v) { return gpupool_free(v.pool, v.blocks[2], 0) == GPUPOOL_SUCCESS; },
     [](const Victim& v) { return take_and_free(v.pool, {14 * kMiB}); }},
    {"request", nothing,
     [](const Victim& v) {
       return gpupool_share_request(v.pool, 20 * kMiB, kMillisecond) == GPUPOOL_SUCCESS;
     }},
    {"empty", nothing, [](const Victim& v) { return gpupool_empty(v.pool, nullptr) == GPUPOOL_SUCCESS; }},
    {"destroy",
     [](const Victim& v) {
       return std::all_of(v.blocks.begin() + 1, v.blocks.end(), [&](gpupool_ptr_t block) {
         return gpupool_free(v.pool, block, 0) == GPUPOOL_SUCCESS;
       });
     },
     [](const Victim& v) { return gpupool_destroy(v.pool) == GPUPOOL_SUCCESS; }},
};

class GrowKill : public KillTest, public testing::WithParamInterface<Act> {};
INSTANTIATE_TEST_SUITE_P(During, GrowKill, testing::ValuesIn(kGrowths),
                         [](const auto& each) { return each.param.name; });

TEST_P(GrowKill, F2_AtAnyDriverCallLeavesNothing) {
  const int deaths = die_at_each_driver_call(GetParam());
  EXPECT_GE(deaths, std::string(GetParam().name) == "request" ? 0 : 5);
  RecordProperty("deaths", deaths);
}

/// One that gives because a neighbour asks: in its listener's thread, while it does nothing itself.
class GiveKill : public KillTest {
 protected:
  using Give = bool (*)(const Victim&);

  /// Fills its pool, lets `prepare` make some of it what neighbours may have, and waits.
  pid_t start_giver(Give prepare, const std::string& script) {
    return start([&, prepare] {
      const auto wait_as_giver = [&](const Victim& victim) {
        if (!prepare(victim) || gpupool_sim_script(0, script.c_str()) != GPUPOOL_SUCCESS) return false;
        is_ready_->store(true);
        for (;;) pause();
        return true;
      };
      Victim victim;
      return make_victim(victim) && wait_as_giver(victim) ? 0 : 1;
    });
  }

  /// The neighbour asks for all, and gets it in that one malloc, whether the giver dies on the way or not.
  /// Returns whether it died.
  bool asks_and_gets(pid_t giver) {
    const int step = board_->step.load();
    ++board_->step;
    EXPECT_TRUE(board_->reaches(step + 2));
    EXPECT_EQ(board_->figures[0], 1U) << "the neighbour cannot have the device's memory";
    int status = 0;
    bool died = false;
    soon([&] { return died = died || waitpid(giver, &status, WNOHANG) == giver; }, 20);
    if (!died) end(giver);
    EXPECT_TRUE(!died || WTERMSIG(status) == SIGKILL);
    return died;
  }

  void die_at_each_driver_call_of(Give prepare, int least) {
    std::vector<uint64_t> times;
    for (const char* call : kCallNames) {
      for (int n = 1; !HasFailure(); ++n) {
        const std::string script = std::string(call) + ":" + std::to_string(n) + "=kill";
        SCOPED_TRACE(script);
        *is_ready_ = false;
        const pid_t giver = start_giver(prepare, script);
        ASSERT_TRUE(soon([&] { return is_ready_->load(); }));
        const bool died = asks_and_gets(giver);
        if (died) times.push_back(board_->figures[1]);
        expect_nothing_left(giver);
        if (!died) break;
        ASSERT_LT(n, 200);
      }
    }
    ASSERT_GE(times.size(), static_cast<size_t>(least));
    std::sort(times.begin(), times.end());
    EXPECT_LT(times[times.size() / 2], 100 * kMillisecond)
        << "from the question on, with the death in between";
    RecordProperty("deaths", static_cast<int>(times.size()));
    RecordProperty("median_us", std::to_string(times[times.size() / 2] / 1000));
    RecordProperty("longest_us", std::to_string(times.back() / 1000));
  }

  Common<std::atomic<bool>> is_ready_;
};

TEST_F(GiveKill, F2_AtAnyDriverCallOfGivingBackTheAskerGetsAll) {
  die_at_each_driver_call_of(
      [](const Victim& v) {
        return std::all_of(v.blocks.begin() + 1, v.blocks.end(), [&](gpupool_ptr_t block) {
          return gpupool_free(v.pool, block, 0) == GPUPOOL_SUCCESS;
        });
      },
      5);
}

TEST_F(GiveKill, F2_AtAnyDriverCallOfASleepForOthersTheAskerGetsAll) {
  die_at_each_driver_call_of(
      [](const Victim& v) { return gpupool_allow_sleep(v.pool, nullptr) == GPUPOOL_SUCCESS; }, 10);
}

}  // namespace
}  // namespace gpupool::internal::share
