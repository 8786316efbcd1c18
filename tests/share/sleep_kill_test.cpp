// SPDX-License-Identifier: Apache-2.0
// S32: a process that is killed at any step of a sleep or a wake leaves nothing behind, and what it held is
// its neighbour's. The steps: each driver call, and each system call's begin and end. Between those nothing
// changes that others can see, but for the budget word: word_kill_test kills at each of its instructions.
#include <sys/ptrace.h>

#include "kill_fixture.hpp"

namespace gpupool::internal::share {
namespace {

constexpr Act kActs[] = {
    {"sleep", nothing, [](const Victim& v) { return v.sleep(); }},
    {"wake", [](const Victim& v) { return v.sleep(); }, [](const Victim& v) { return v.wake(); }},
    {"drop_and_wake", nothing, [](const Victim& v) { return v.sleep(GPUPOOL_SLEEP_MODE_DROP) && v.wake(); }},
    {"block", nothing, [](const Victim& v) { return v.sleep_block() && v.wake_block(); }},
    {"progressive_wake", [](const Victim& v) { return v.sleep(); },
     [](const Victim& v) { return v.wake_block() && v.wake(); }},
    {"target", nothing, [](const Victim& v) { return v.sleep(GPUPOOL_SLEEP_MODE_SAVE, 8 * kMiB); }},
    {"tag", nothing,
     [](const Victim&) {
       return gpupool_sleep_tag("victim", nullptr, nullptr) == GPUPOOL_SUCCESS &&
              gpupool_wake_tag("victim", nullptr, nullptr) == GPUPOOL_SUCCESS;
     }},
};

class SleepKill : public KillTest, public testing::WithParamInterface<Act> {};

INSTANTIATE_TEST_SUITE_P(During, SleepKill, testing::ValuesIn(kActs),
                         [](const auto& each) { return each.param.name; });

TEST_P(SleepKill, S32_AtAnyDriverCallLeavesNothing) {
  const int deaths = die_at_each_driver_call(GetParam());
  EXPECT_GE(deaths, 8);
  RecordProperty("deaths", deaths);
}

/// Kills a process that asked to be traced, at a stop of a system call. False: it got through.
bool kill_at_system_call(pid_t victim, int number) {
  int status = 0;
  waitpid(victim, &status, 0);
  for (int seen = 0; WIFSTOPPED(status) && seen < number; ++seen) {
    ptrace(PTRACE_SYSCALL, victim, nullptr, nullptr);
    waitpid(victim, &status, 0);
  }
  if (!WIFSTOPPED(status)) return false;
  kill(victim, SIGKILL);
  waitpid(victim, &status, 0);
  return true;
}

TEST_P(SleepKill, S32_AtAnySystemCallLeavesNothing) {
  int number = 1;
  for (; !HasFailure(); ++number) {
    SCOPED_TRACE("stop " + std::to_string(number));
    const pid_t victim = start([&] {
      return live_as_victim(GetParam(), [] {
        ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
        raise(SIGSTOP);
      });
    });
    const bool died = kill_at_system_call(victim, number);
    expect_nothing_left(victim);
    if (!died) break;
    ASSERT_LT(number, 2000);
  }
  EXPECT_GE(number, 10);
  RecordProperty("deaths", number - 1);
}

}  // namespace
}  // namespace gpupool::internal::share
