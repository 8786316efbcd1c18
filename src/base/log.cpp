// SPDX-License-Identifier: Apache-2.0
#include "base/log.hpp"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/spin_lock.hpp"

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

/// The level that GPUPOOL_LOG names; kUnset if it names none that there is.
int level_of(std::string_view text) noexcept {
  static constexpr std::string_view kNames[] = {"off", "error", "warning", "info", "debug"};
  if (text.empty()) return GPUPOOL_LOG_OFF;
  for (int level = 0; level < 5; ++level) {
    if (text == kNames[level]) return level;
  }
  return kUnset;
}

/// Reads GPUPOOL_LOG. Of several threads that come first, one sets the level, and says so if the text is
/// none.
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

}  // namespace

bool log_enabled(gpupool_log_level_t level) noexcept {
  int gate = level_gate.load(std::memory_order_relaxed);
  if (gate == kUnset) [[unlikely]]
    gate = gate_from_environment();
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

}  // namespace gpupool::internal
