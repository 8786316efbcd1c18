// SPDX-License-Identifier: Apache-2.0
// The real code of the budget word, killed at every single instruction.
#include <sys/ptrace.h>
#include <sys/user.h>

#include <cstring>

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

/// A child that changes by `delta`, of which each instruction is waited for.
class Stepped {
 public:
  Stepped(Shared& shared, int64_t delta) : shared_(shared), child_(fork()) {
    if (child_ == 0) {
      ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
      raise(SIGSTOP);
      change(shared, 1, delta);
      shared.is_through.store(true);
      _exit(0);
    }
    waitpid(child_, &status_, 0);
  }
  ~Stepped() {
    kill(child_, SIGKILL);
    waitpid(child_, &status_, 0);
  }
  Stepped(const Stepped&) = delete;
  Stepped& operator=(const Stepped&) = delete;

  [[nodiscard]] bool is_through() const { return !WIFSTOPPED(status_) || shared_.is_through.load(); }

  /// Its instruction `number`, and before it, where it is due, what others do.
  void step(int number, int every) {
    // Not for ever: whoever is disturbed at each step never gets through, though somebody always does.
    if (every != 0 && number % every == every - 1 && number < 400) {
      change(shared_, 2, number / every % 2 == 0 ? 1 : -1);
      change(shared_, 3, number / every % 2 == 0 ? 2 : -2);
    }
    ptrace(PTRACE_SINGLESTEP, child_, nullptr, nullptr);
    waitpid(child_, &status_, 0);
  }

 private:
  Shared& shared_;
  int status_ = 0;
  pid_t child_;
};

void begin(Shared& shared) {
  ASSERT_TRUE(change(shared, 1, 10));
  ASSERT_TRUE(change(shared, 2, 1));
}

int64_t amount(const Shared& shared, uint32_t slot) {
  return word::amount_of(shared.accounts[slot].state.load());
}

/// What others make of the memory that a death has left; whether the change was made.
bool is_done(Shared& shared, int64_t delta) {
  // Others go on before anybody cleans up.
  change(shared, 3, 7);
  change(shared, 2, 7);
  word::resolve(shared.used, 1, shared.accounts[1]);
  const int64_t has = amount(shared, 1);
  EXPECT_TRUE(has == 10 || has == 10 + delta) << has;
  const auto used = static_cast<int64_t>(word::used_of(shared.used.load()));
  EXPECT_EQ(used, has + amount(shared, 2) + amount(shared, 3));
  // The place is used again as it is.
  EXPECT_TRUE(change(shared, 1, -has));
  EXPECT_TRUE(change(shared, 1, 4));
  EXPECT_EQ(amount(shared, 1), 4);
  return has != 10;
}

/// Dies after so many instructions; what it leaves is in `shared`. False: it was through before.
bool dies_after(int instructions, Shared& shared, int64_t delta) {
  begin(shared);
  Stepped child(shared, delta);
  for (int i = 0; i < instructions && !child.is_through(); ++i) child.step(i, 0);
  return !child.is_through();
}

/// A death changes no memory. So one child serves for all: what it has at each instruction is copied, as a
/// death there would leave it. For a child of its own for each, the time is the square of the instructions.
TEST_P(WordKill, P1_F1_IsEitherDoneOrNot) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer has too many instructions";
#endif
  std::array<int, 2> deaths{};  // before the change, and after it
  for (const int64_t delta : {5, -3}) {
    Common<Shared> shared;
    begin(*shared);
    Stepped child(*shared, delta);
    int instructions = 0;
    for (; !child.is_through() && !HasFailure(); ++instructions) {
      SCOPED_TRACE(instructions);
      Common<Shared> left;
      std::memcpy(static_cast<void*>(&*left), &*shared, sizeof(Shared));
      ++deaths[is_done(*left, delta) ? 1 : 0];
      child.step(instructions, GetParam().every);
    }
    ASSERT_GT(instructions, 50) << "processes cannot be single-stepped here";
  }
  EXPECT_GT(deaths[0], 10) << "no death came before the change";
  EXPECT_GT(deaths[1], 3) << "no death came after it";
}

/// The same with real deaths, where nobody does anything meanwhile.
TEST(WordKillIndeed, P1_F1_LeavesWhatACopyHas) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer has too many instructions";
#endif
  for (const int64_t delta : {5, -3}) {
    Common<Shared> shared;
    begin(*shared);
    Stepped child(*shared, delta);
    for (int instructions = 0; !child.is_through(); ++instructions) {
      SCOPED_TRACE(instructions);
      Common<Shared> left;
      ASSERT_TRUE(dies_after(instructions, *left, delta));
      ASSERT_EQ(std::memcmp(&*left, &*shared, sizeof(Shared)), 0);
      is_done(*left, delta);
      ASSERT_FALSE(HasFailure());
      child.step(instructions, 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Others, WordKill,
                         testing::Values(Between{"rest", 0}, Between{"every_60", 60}, Between{"every_17", 17},
                                         Between{"every_7", 7}, Between{"every_29", 29}),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace gpupool::internal::share
