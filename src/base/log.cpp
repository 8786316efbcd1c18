// SPDX-License-Identifier: Apache-2.0
#include "base/log.hpp"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/spin_lock.hpp"

namespace gpupool {
namespace {

constexpr int kUnset = -1;

struct Receiver {
  gpupool_log_fn_t fn;
  void* user;
};

constinit std::atomic<int> level_gate{kUnset};
constinit SpinLock receiver_lock;
constinit Receiver receiver{nullptr, nullptr};

int level_from_environment() noexcept {
  static constexpr const char* kNames[] = {"off", "error", "warning", "info", "debug"};
  const char* text = std::getenv("GPUPOOL_LOG");
  if (text == nullptr) return GPUPOOL_LOG_OFF;
  for (int level = 0; level < 5; ++level) {
    if (std::strcmp(text, kNames[level]) == 0) return level;
  }
  return GPUPOOL_LOG_OFF;
}

}  // namespace

bool log_enabled(gpupool_log_level_t level) noexcept {
  int gate = level_gate.load(std::memory_order_relaxed);
  if (gate == kUnset) {
    gate = level_from_environment();
    int expected = kUnset;
    if (!level_gate.compare_exchange_strong(expected, gate, std::memory_order_relaxed)) gate = expected;
  }
  return level <= gate;
}

void log_line(gpupool_log_level_t level, const char* format, ...) noexcept {
  if (!log_enabled(level)) return;
  char line[1024];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  receiver_lock.lock();
  const Receiver to = receiver;
  receiver_lock.unlock();
  if (to.fn != nullptr) {
    to.fn(to.user, level, line);
  } else {
    std::fprintf(stderr, "gpupool: %s\n", line);
  }
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

}  // namespace gpupool
