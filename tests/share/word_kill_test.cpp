// SPDX-License-Identifier: Apache-2.0
// The real code of the budget word, killed at every single instruction.
#include <sys/ptrace.h>
#include <sys/user.h>

#include "share_fixture.hpp"

namespace gpupool::internal::share {
namespace {

struct Shared {
  std::atomic<bool> is_through;
  Word used;
  std::array<Account, 4> accounts;
};

bool change(Shared& shared, uint32_t slot, int64_t delta) {
  const auto account_of = [&](uint32_t at) -> Account& { return shared.accounts[at % 4]; };
  return word::change(shared.used, account_of, slot, delta, 100);
}

/// What others do between two instructions of the one that is killed.
struct Between {
  const char* name;
  int every;  // instructions; 0: never
};

class WordKill : public testing::TestWithParam<Between> {};

/// Kills a child after `instructions` of changing by `delta`; false: it was through before.
bool kill_after(Shared& shared, int64_t delta, int instructions, int every) {
  const pid_t child = fork();
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    raise(SIGSTOP);
    change(shared, 1, delta);
    shared.is_through.store(true);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  for (int i = 0; i < instructions && WIFSTOPPED(status) && !shared.is_through.load(); ++i) {
    // Not for ever: whoever is disturbed at each step never gets through, though somebody always does.
    if (every != 0 && i % every == every - 1 && i < 400) {
      change(shared, 2, i / every % 2 == 0 ? 1 : -1);
      change(shared, 3, i / every % 2 == 0 ? 2 : -2);
    }
    ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr);
    waitpid(child, &status, 0);
  }
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return !shared.is_through.load();
}

int64_t amount(const Shared& shared, uint32_t slot) {
  return word::amount_of(shared.accounts[slot].state.load());
}

TEST_P(WordKill, P1_F1_IsEitherDoneOrNot) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer has too many instructions";
#endif
  int before = 0;
  int after = 0;
  for (const int64_t delta : {5, -3}) {
    for (int instructions = 0;; ++instructions) {
      Common<Shared> shared;
      ASSERT_TRUE(change(*shared, 1, 10));
      ASSERT_TRUE(change(*shared, 2, 1));
      if (!kill_after(*shared, delta, instructions, GetParam().every)) {
        ASSERT_GT(instructions, 50) << "processes cannot be single-stepped here";
        break;
      }
      // Others go on before anybody cleans up.
      change(*shared, 3, 7);
      change(*shared, 2, 7);
      word::resolve(shared->used, 1, shared->accounts[1]);
      const int64_t has = amount(*shared, 1);
      ASSERT_TRUE(has == 10 || has == 10 + delta) << has << " after " << instructions << " instructions";
      ++(has == 10 ? before : after);
      const auto used = static_cast<int64_t>(word::used_of(shared->used.load()));
      ASSERT_EQ(used, has + amount(*shared, 2) + amount(*shared, 3)) << instructions << " instructions";
      // The place is used again as it is.
      ASSERT_TRUE(change(*shared, 1, -has));
      ASSERT_TRUE(change(*shared, 1, 4));
      ASSERT_EQ(amount(*shared, 1), 4);
    }
  }
  EXPECT_GT(before, 10) << "no death came before the change";
  EXPECT_GT(after, 3) << "no death came after it";
}

INSTANTIATE_TEST_SUITE_P(Others, WordKill,
                         testing::Values(Between{"rest", 0}, Between{"every_60", 60}, Between{"every_17", 17},
                                         Between{"every_7", 7}, Between{"every_29", 29}),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace gpupool::internal::share
