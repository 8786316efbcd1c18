// SPDX-License-Identifier: Apache-2.0
#include "base/log.hpp"

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "base/log_form.hpp"
#include "base/spin_lock.hpp"
#include "base/status.hpp"
#include "os/process.hpp"

namespace gpupool::internal {
namespace {

constexpr int kUnset = -1;

struct Receiver {
  gpupool_log_fn_t fn;
  void* user;
};

constinit std::atomic<int> level_gate{kUnset};
constinit SpinLock receiver_lock;
constinit Receiver receiver{nullptr, nullptr};

/// Lines that wait until their thread holds no lock: for each, its level, the text and a zero.
struct Waiting {
  static constexpr size_t kRoom = size_t{64} << 10;

  size_t used = 0;
  size_t lost = 0;
  char text[kRoom];
};

/// Trivial, so that it outlives whatever else a thread has.
struct OwnLines {
  uint32_t held = 0;
  bool is_sending = false;
  Waiting* waiting = nullptr;
};
constinit thread_local OwnLines own_lines;

/// What GPUPOOL_LOG says. The first thread to ask reads it, and reports a bad text; then it never changes.
const LogForm& form() noexcept {
  static constinit LogForm known;
  static constinit bool is_known = false;
  std::string_view wrong;
  receiver_lock.lock();
  const bool is_first = !std::exchange(is_known, true);
  const char* const text = is_first ? os::trusted_environment("GPUPOOL_LOG") : nullptr;
  const bool is_bad = text != nullptr && !LogForm::read(text, known, wrong);
  receiver_lock.unlock();
  if (is_bad) {
    std::fprintf(stderr,
                 "gpupool: GPUPOOL_LOG: \"%.*s\" is none of off, error, warning, info, debug, time, process, "
                 "thread and file=: nothing is logged\n",
                 static_cast<int>(std::min<size_t>(wrong.size(), 64)), wrong.data());
  }
  return known;
}

int gate_from_environment() noexcept {
  const int level = form().level;
  int gate = kUnset;
  return level_gate.compare_exchange_strong(gate, level, std::memory_order_relaxed) ? level : gate;
}

/// Delivers a line. Whatever the receiver does, the thread's last failure stays as it was.
void send(int level, const char* line) noexcept {
  receiver_lock.lock();
  const Receiver to = receiver;
  receiver_lock.unlock();
  if (to.fn == nullptr) {
    form().write(line);
    return;
  }
  const KeepError keep_error;
  own_lines.is_sending = true;
  to.fn(to.user, level, line);
  own_lines.is_sending = false;
}

void keep(int level, const char* line) noexcept {
  Waiting*& waiting = own_lines.waiting;
  if (waiting == nullptr) {
    waiting = new (std::nothrow) Waiting;
    if (waiting == nullptr) return;
  }
  const size_t size = std::strlen(line) + 1;
  if (1 + size > Waiting::kRoom - waiting->used) {
    ++waiting->lost;
    return;
  }
  waiting->text[waiting->used] = static_cast<char>(level);
  std::memcpy(waiting->text + waiting->used + 1, line, size);
  waiting->used += 1 + size;
}

}  // namespace

bool log_enabled(gpupool_log_level_t level) noexcept {
  int gate = level_gate.load(std::memory_order_relaxed);
  if (gate == kUnset) [[unlikely]]
    gate = gate_from_environment();
  return level <= gate;
}

void log_line(gpupool_log_level_t level, const char* format, ...) noexcept {
  if (!log_enabled(level) || own_lines.is_sending) return;
  char line[1024];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  keep_in_line(line);
  own_lines.held != 0 ? keep(level, line) : send(level, line);
}

void hold_lines() noexcept {
  ++own_lines.held;
}

void send_lines() noexcept {
  if (--own_lines.held != 0 || own_lines.waiting == nullptr) return;
  const std::unique_ptr<Waiting> lines(std::exchange(own_lines.waiting, nullptr));
  for (const char* at = lines->text; at < lines->text + lines->used; at += 1 + std::strlen(at + 1) + 1) {
    send(*at, at + 1);
  }
  if (lines->lost == 0) return;
  char line[64];
  std::snprintf(line, sizeof line, "%zu more lines found no room", lines->lost);
  send(GPUPOOL_LOG_WARNING, line);
}

bool has_lines() noexcept {
  return own_lines.waiting != nullptr;
}

void set_log(gpupool_log_fn_t fn, void* user, gpupool_log_level_t level) noexcept {
  receiver_lock.lock();
  receiver = {fn, user};
  receiver_lock.unlock();
  level_gate.store(level, std::memory_order_relaxed);
}

void lock_log() noexcept {
  receiver_lock.lock();
}

void unlock_log() noexcept {
  receiver_lock.unlock();
}

}  // namespace gpupool::internal
