// SPDX-License-Identifier: Apache-2.0
// Every allocation of a call fails in turn, each try in a process of its own, so that an abort fails only
// that try.
#pragma once

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <functional>

#include "support/check.h"

namespace attack {

inline constexpr uint64_t kAllocationsMax = 500;
inline constexpr int kNotReached = 3;  // exit status of a try: nothing is left to fail, and all is well
inline constexpr uint64_t kNever = ~uint64_t{0};

/// A try with that allocation failed; returns the exit status of its process.
using Try = std::function<int(uint64_t allocation)>;

/// The try's exit status, or minus the signal that ended it.
inline int run_in_child(unsigned seconds, const Try& run_try, uint64_t allocation) {
  fflush(nullptr);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    check_failures = 0;
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    alarm(seconds);
    _exit(run_try(allocation));
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/// Counts the tries that were not survived as failures. A try has so many seconds.
inline void try_each_allocation(const char* name, unsigned seconds, const Try& run_try) {
  uint64_t tries = 0;
  uint64_t broken = 0;
  if (run_in_child(seconds, run_try, kNever) != kNotReached) {
    fprintf(stderr, "%s fails with no failure at all\n", name);
    ++check_failures;
    return;
  }
  for (; tries < kAllocationsMax; ++tries) {
    const int result = run_in_child(seconds, run_try, tries);
    if (result == kNotReached) break;
    if (result == EXIT_SUCCESS) continue;
    ++broken;
    fprintf(stderr, "%s, allocation %llu: %s %d\n", name, tries + 0ULL,
            result < 0 ? "ended by signal" : "failed with", result < 0 ? -result : result);
  }
  if (tries == kAllocationsMax) fprintf(stderr, "%s never ends\n", name);
  printf("%-34s %3llu allocations, %llu of them not survived\n", name, tries + 0ULL, broken + 0ULL);
  check_failures += static_cast<int>(broken) + (tries == kAllocationsMax ? 1 : 0);
}

}  // namespace attack
