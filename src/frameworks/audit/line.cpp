// SPDX-License-Identifier: Apache-2.0
#include "frameworks/audit/line.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>

namespace gpupool::audit {
namespace {

constinit struct stat at_begin {};

/// A pipe that has room has it for a whole line (PIPE_BUF), so that the write will not wait.
bool is_ready() {
  constexpr int kMostMilliseconds = 200;
  struct stat now {};
  if (fstat(STDERR_FILENO, &now) != 0 || now.st_dev != at_begin.st_dev || now.st_ino != at_begin.st_ino ||
      at_begin.st_ino == 0)
    return false;
  pollfd wanted{STDERR_FILENO, POLLOUT, 0};
  return poll(&wanted, 1, kMostMilliseconds) == 1 && (wanted.revents & POLLOUT) != 0;
}

/// A reader that has gone is no reason to end: the signal comes to this thread, and is taken from it.
void write_without_signal(const char* text, size_t size) {
  sigset_t broken;
  sigset_t before;
  sigset_t pending;
  sigemptyset(&broken);
  sigaddset(&broken, SIGPIPE);
  sigpending(&pending);
  if (pthread_sigmask(SIG_BLOCK, &broken, &before) != 0) return;
  if (::write(STDERR_FILENO, text, size) < 0 && errno == EPIPE && sigismember(&pending, SIGPIPE) == 0) {
    constexpr timespec kNow{};
    (void)sigtimedwait(&broken, nullptr, &kNow);
  }
  (void)pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

void remember_standard_error() noexcept {
  if (fstat(STDERR_FILENO, &at_begin) != 0) at_begin = {};
}

void Line::add(const char* format, ...) noexcept {
  va_list values;
  va_start(values, format);
  const int length = std::vsnprintf(text_.data() + size_, text_.size() - size_, format, values);
  va_end(values);
  if (length > 0) size_ = std::min(text_.size() - 1, size_ + static_cast<size_t>(length));
}

void Line::write() noexcept {
  text_[size_] = '\n';
  if (is_ready()) write_without_signal(text_.data(), size_ + 1);
}

}  // namespace gpupool::audit
