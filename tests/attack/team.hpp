// SPDX-License-Identifier: Apache-2.0
// Threads that take turns as told, so that several threads do the same in every run.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace attack {

class Team {
 public:
  explicit Team(size_t count) {
    for (size_t i = 0; i < count; ++i) members_.push_back(std::make_unique<Member>());
  }

  size_t size() const { return members_.size(); }

  /// Runs a function on a thread of the team, and waits for it.
  void run(size_t number, std::function<void()> function) { members_[number]->run(std::move(function)); }

  /// Ends one of the threads, and begins another in its place.
  void replace(size_t number) { members_[number] = std::make_unique<Member>(); }

 private:
  class Member {
   public:
    Member() : thread_([this] { work(); }) {}
    ~Member() {
      run(nullptr);
      thread_.join();
    }

    void run(std::function<void()> function) {
      std::unique_lock lock(mutex_);
      function_ = std::move(function);
      has_turn_ = true;
      changed_.notify_all();
      changed_.wait(lock, [this] { return !has_turn_; });
    }

   private:
    void work() {
      std::unique_lock lock(mutex_);
      for (;;) {
        changed_.wait(lock, [this] { return has_turn_; });
        const std::function<void()> function = std::move(function_);
        if (function) function();
        has_turn_ = false;
        changed_.notify_all();
        if (!function) return;
      }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::function<void()> function_;
    bool has_turn_ = false;
    std::thread thread_;  // last, so that it finds the others made
  };

  std::vector<std::unique_ptr<Member>> members_;
};

}  // namespace attack
