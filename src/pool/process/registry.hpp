// SPDX-License-Identifier: Apache-2.0
// All pools of the process: handles that stay readable for ever, threads that end, fork.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/lasting.hpp"
#include "core/list.hpp"
#include "gpupool/gpupool.h"
#include "os/mutex.hpp"
#include "pool/handle.hpp"

namespace gpupool::internal {

class Pool;
struct ThreadCache;

/// The list of handles, and the lock that comes before every pool's.
class Registry {
 public:
  static Registry& instance() noexcept;

  /// From now on the registry's lock and those of all pools are taken around fork, before the locks of
  /// whatever was registered earlier. Call it once.
  static void watch_fork() noexcept;

  /// Wraps a pool in a handle and lists it. Throws std::bad_alloc.
  gpupool_t* add(std::shared_ptr<Pool> pool);

  /// Lets a destroyed pool go, once its last block is gone and the device has all its memory again: its
  /// handle stays, marked gone. May wait for the GPU. Otherwise whoever needs memory tries again.
  void end_if_empty(gpupool_t& handle);

  /// Tries again to end the destroyed pools that could not go before, such as for a capture or a call that
  /// was under way. The thread's last failure stays as it was. Nothing to do is cheap.
  void end_those_left();

  /// The CUDA driver is about to go: nothing may call it any more.
  void mark_exiting() noexcept;

  /// Notes which pools have lost their memory, because a context was reset or destroyed: when a driver's call
  /// has failed, and before a context is made anew. Throws std::bad_alloc.
  void find_lost();

  /// The mark of this copy of the library.
  static const void* copy_mark() noexcept { return &kCopyMark; }

  /// The pool behind a number; null if it is gone. The result keeps it from going.
  std::shared_ptr<Pool> find(uint64_t id) noexcept;

  /// Every pool that is not gone. Throws std::bad_alloc.
  std::vector<std::shared_ptr<Pool>> all();

  /// Visits them with the registry's lock, and needs no memory.
  template <typename Visit>
  void for_each(Visit visit) noexcept {
    const std::lock_guard lock(mutex_);
    for_each_live([&](const gpupool_t& handle) { visit(*handle.owner); });
  }

 private:
  using LiveList = List<gpupool_t, &gpupool_t::live_prev, &gpupool_t::live_next>;

  friend Lasting<Registry>;
  constexpr Registry() = default;
  template <typename Visit>
  void for_each_live(Visit visit) const {
    for (gpupool_t* handle = live_.first(); handle != nullptr; handle = LiveList::after(handle))
      visit(*handle);
  }
  gpupool_t* next_left(uint64_t id) noexcept;
  static void before_fork() noexcept;
  static void after_fork_in_parent() noexcept;
  static void after_fork_in_child() noexcept;

  static constexpr char kCopyMark = 0;

  os::Mutex mutex_;
  // Of all pools there ever were, by number from 1. Made with the first one: before g++ 12 a vector cannot be
  // initialised before anything runs.
  std::unique_ptr<std::vector<gpupool_t*>> handles_;
  LiveList live_;                       // those that are not gone
  std::atomic<bool> some_left_{false};  // destroyed ones may be among them
};

/// What to tell the layers below in the child after fork; set by the layer that knows the devices.
void set_after_fork_hook(void (*hook)() noexcept) noexcept;

}  // namespace gpupool::internal
