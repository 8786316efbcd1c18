// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gpupool::internal::os {

/// The calling thread's number, as the system and debuggers show it. At most one system call for a thread.
uint32_t thread_id() noexcept;
/// In a child of fork, whose thread has another number than its parent's.
void forget_thread_id() noexcept;
/// The calling thread's name, cut to the room; "" if it has none.
void read_thread_name(char* text, size_t room) noexcept;

inline constexpr uint64_t kNoKey = ~uint64_t{0};
/// Calls run(data) when the calling thread ends; for one function for each key, which begins as kNoKey. Where
/// thread-local storage ends before such calls come, run() gets a copy of the `bytes` as they were in the
/// thread's last call of this, so call it after every change.
void at_thread_end(std::atomic<uint64_t>& key, void (*run)(void*), void* data, size_t bytes) noexcept;

/// A thread of the library's own. No signal comes to it: they are for the application's threads.
class HelperThread {
 public:
  /// False: there is none, and errno says why. At most 15 characters of the name are shown.
  bool start(const char* name, void* (*run)(void*), void* with) noexcept;
  /// Whether the calling thread is this one.
  bool is_this() const noexcept;
  /// Once, after start(): either of them.
  void join() noexcept;
  void detach() noexcept;

 private:
  uintptr_t handle_ = 0;
};

}  // namespace gpupool::internal::os
