// SPDX-License-Identifier: Apache-2.0
// What a command does with signals that would end it.
#pragma once

#include <pthread.h>

#include <csignal>
#include <initializer_list>

namespace gpupool::cli {

/// A call that waits ends with EINTR when one of these comes.
inline void handle_signals(std::initializer_list<int> numbers, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  for (const int number : numbers) (void)sigaction(number, &action, nullptr);
}

/// Returns the mask before it, with which ppoll() lets them come while it waits, and at no other time.
inline sigset_t block_signals(std::initializer_list<int> numbers) {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  for (const int number : numbers) sigaddset(&blocked, number);
  (void)pthread_sigmask(SIG_BLOCK, &blocked, &before);
  return before;
}

inline constexpr std::initializer_list<int> kEndingSignals = {SIGINT, SIGTERM, SIGHUP};

}  // namespace gpupool::cli
