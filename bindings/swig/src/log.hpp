// SPDX-License-Identifier: Apache-2.0
// The log, on its way to a function of the language.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

#include "failure.hpp"

namespace binding {

/// A function of the language that receives lines of the log.
class LogReceiver {
 public:
  virtual ~LogReceiver() = default;
  /// Called on whatever thread the line comes from. Returns false if the language cannot be called there.
  virtual bool take(int32_t level, const char* message) noexcept = 0;
};

/// The one receiver of the process.
class LogSlot {
 public:
  static void set(gpupool_log_level_t level, std::shared_ptr<LogReceiver> receiver) {
    // Comes first, because it may refuse the level.
    check(gpupool_set_log(receiver ? receive : nullptr, nullptr, level));
    const std::lock_guard lock(slot().mutex_);
    slot().receiver_.swap(receiver);
  }

 private:
  /// Stays for ever, because lines may come while the process ends.
  static LogSlot& slot() {
    static auto& slot = *new LogSlot;
    return slot;
  }

  static void receive(void* /*user*/, int32_t level, const char* message) noexcept {
    std::shared_ptr<LogReceiver> receiver;
    {
      const std::lock_guard lock(slot().mutex_);
      receiver = slot().receiver_;
    }
    if (!receiver || !receiver->take(level, message)) (void)std::fprintf(stderr, "gpupool: %s\n", message);
  }

  std::mutex mutex_;
  std::shared_ptr<LogReceiver> receiver_;
};

}  // namespace binding
