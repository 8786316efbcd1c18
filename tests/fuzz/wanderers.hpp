// SPDX-License-Identifier: Apache-2.0
// Threads that take turns, so that what runs on them is the same in every run.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace gpupool::fuzz {

/// As long as it lives, so do its threads, each with what the library keeps for a thread.
class Wanderers {
 public:
  static constexpr size_t kCount = 4;

  Wanderers() = default;
  Wanderers(const Wanderers&) = delete;
  Wanderers& operator=(const Wanderers&) = delete;
  ~Wanderers() {
    for (size_t i = 0; i < kCount; ++i) {
      if (threads_[i].joinable()) run(i, nullptr);
    }
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }

  /// Runs it on thread number `which`, and returns, or throws what it threw, once it is over. Null ends the
  /// thread.
  void run(size_t which, std::function<void()> task) {
    if (!threads_[which].joinable()) threads_[which] = std::thread([this, which] { serve(which); });
    std::unique_lock lock(mutex_);
    task_ = std::move(task);
    turn_ = which;
    changed_.notify_all();
    changed_.wait(lock, [&] { return turn_ == kCount; });
    if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

 private:
  void serve(size_t which) {
    std::unique_lock lock(mutex_);
    for (bool goes_on = true; goes_on;) {
      changed_.wait(lock, [&] { return turn_ == which; });
      goes_on = task_ != nullptr;
      try {
        if (goes_on) task_();
      } catch (...) {
        failure_ = std::current_exception();
      }
      turn_ = kCount;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<std::thread, kCount> threads_;
  size_t turn_ = kCount;  // whose it is; kCount: the caller's
  std::function<void()> task_;
  std::exception_ptr failure_;
};

}  // namespace gpupool::fuzz
