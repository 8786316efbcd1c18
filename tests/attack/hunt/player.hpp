// SPDX-License-Identifier: Apache-2.0
// Plays steps on an allocator in lockstep: each step by its own thread, and one thread at a time, so that all
// that threads can do to each other happens in the same order on any machine.
#pragma once

#include <semaphore.h>

#include <cstddef>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "attack/hunt/allocator.hpp"
#include "attack/hunt/script.hpp"

namespace hunt {

class Player {
 public:
  Player(Allocator& allocator, size_t threads, size_t slots);
  Player(const Player&) = delete;
  Player& operator=(const Player&) = delete;
  ~Player();

  /// Returns when the last step is done. Throws what the allocator threw.
  void play(const std::vector<Step>& steps);

  /// How long each step of the last play took, by the host's clock.
  const std::vector<uint32_t>& nanoseconds() const { return nanoseconds_; }
  uint64_t mallocs() const { return mallocs_; }
  /// Mallocs for which there was no memory.
  uint64_t failures() const { return failures_; }
  /// Locks that mallocs and frees took.
  uint64_t locks() const { return locks_; }

 private:
  /// POSIX's semaphore: that of libstdc++ 12 may sleep for ever (its bug 104928).
  class Turn {
   public:
    Turn() { sem_init(&semaphore_, 0, 0); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() { sem_destroy(&semaphore_); }
    void release() { sem_post(&semaphore_); }
    void acquire() {
      while (sem_wait(&semaphore_) != 0) continue;  // a signal came
    }

   private:
    sem_t semaphore_;
  };

  void run(size_t thread);
  void do_steps(size_t thread);
  void do_step(const Step& step);
  void do_timed(const Step& step, uint32_t& nanoseconds);

  Allocator& allocator_;
  std::vector<uint64_t> addresses_;  // by slot; 0: none
  std::vector<uint32_t> nanoseconds_;
  const std::vector<Step>* steps_ = nullptr;  // null: it is over
  size_t at_ = 0;
  uint64_t mallocs_ = 0;
  uint64_t failures_ = 0;
  uint64_t locks_ = 0;
  std::exception_ptr thrown_;
  // Whose turn it is: whoever waits here sees all that those before it did.
  Turn done_;
  std::vector<std::unique_ptr<Turn>> turns_;
  std::vector<std::jthread> threads_;
};

}  // namespace hunt
