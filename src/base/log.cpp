// SPDX-License-Identifier: Apache-2.0
#include "base/log.hpp"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "base/spin_lock.hpp"
#include "base/status.hpp"

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

/// The level that GPUPOOL_LOG names; kUnset if there is no such level.
int level_of(std::string_view text) noexcept {
  static constexpr std::string_view kNames[] = {"off", "error", "warning", "info", "debug"};
  if (text.empty()) return GPUPOOL_LOG_OFF;
  for (int level = 0; level < 5; ++level) {
    if (text == kNames[level]) return level;
  }
  return kUnset;
}

/// Reads GPUPOOL_LOG. If several threads come first, one of them sets the level, and reports a bad text.
int gate_from_environment() noexcept {
  const char* text = std::getenv("GPUPOOL_LOG");
  const int found = text == nullptr ? GPUPOOL_LOG_OFF : level_of(text);
  const int level = found == kUnset ? GPUPOOL_LOG_OFF : found;
  int gate = kUnset;
  if (!level_gate.compare_exchange_strong(gate, level, std::memory_order_relaxed)) return gate;
  if (found == kUnset) {
    std::fprintf(
        stderr,
        "gpupool: GPUPOOL_LOG is \"%.64s\", not off, error, warning, info or debug: nothing is logged\n",
        text);
  }
  return level;
}

/// Delivers a line. Whatever the receiver does, the thread's last failure stays as it was.
void send(int level, const char* line) noexcept {
  receiver_lock.lock();
  const Receiver to = receiver;
  receiver_lock.unlock();
  if (to.fn == nullptr) {
    std::fprintf(stderr, "gpupool: %s\n", line);
    return;
  }
  const ErrorRecord before = last_error();
  own_lines.is_sending = true;
  to.fn(to.user, level, line);
  own_lines.is_sending = false;
  last_error() = before;
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
