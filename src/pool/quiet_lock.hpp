// SPDX-License-Identifier: Apache-2.0
// A lock under which nothing is sent to the log.
#pragma once

#include <mutex>

#include "base/log.hpp"

namespace gpupool::internal {

/// As std::unique_lock; what the thread logs meanwhile is sent once it has been given up, since the log's
/// receiver may call the library again.
class QuietLock {
 public:
  explicit QuietLock(std::mutex& mutex) : lock_(mutex) { hold_lines(); }
  QuietLock(QuietLock&&) noexcept = default;
  QuietLock& operator=(QuietLock&&) = delete;
  ~QuietLock() {
    if (lock_.owns_lock()) unlock();
  }

  void lock() {
    lock_.lock();
    hold_lines();
  }
  void unlock() {
    lock_.unlock();
    send_lines();
  }

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace gpupool::internal
