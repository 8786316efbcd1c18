// SPDX-License-Identifier: Apache-2.0
// Memory that a pool gets from functions of the language: GPUPOOL_MODE_UPSTREAM.
#pragma once

#include <atomic>

#include "handler.hpp"

namespace binding {

/// Two functions of the language. They are called on any thread, also on those of the language's collector.
class Upstream {
 public:
  Upstream() = default;
  Upstream(const Upstream&) = delete;
  Upstream& operator=(const Upstream&) = delete;
  virtual ~Upstream() = default;
  /// The address of size bytes, aligned to 512; 0: no more memory. What the function throws counts as 0, and
  /// is thrown at the end of the call that asked.
  virtual gpupool_ptr_t malloc(uint64_t size, uint64_t stream) noexcept = 0;
  /// Takes back what malloc gave. What the function throws is printed, since the caller may be anybody.
  virtual void free(gpupool_ptr_t address, uint64_t size, uint64_t stream) noexcept = 0;

  /// Has pools of this configuration ask it: one pool, which ends it by leave().
  void serve(gpupool_config_t& config) noexcept {
    config.mode = GPUPOOL_MODE_UPSTREAM;
    config.upstream_malloc = on_malloc;
    config.upstream_free = on_free;
    config.upstream_user = this;
  }
  /// The pool has been destroyed. Blocks that are still live keep what they are in.
  void leave() noexcept {
    if (uses_.fetch_sub(1) == 1) delete this;
  }

 private:
  static int32_t on_malloc(void* user, uint64_t size, gpupool_stream_t stream, gpupool_ptr_t* address) {
    auto* const self = static_cast<Upstream*>(user);
    SleepHook::was_called = true;  // as a hook, it may have thrown although the malloc finds memory elsewhere
    *address = self->malloc(size, stream);
    if (*address == 0) return 1;
    self->uses_.fetch_add(1);
    return 0;
  }
  static void on_free(void* user, gpupool_ptr_t address, uint64_t size, gpupool_stream_t stream) {
    auto* const self = static_cast<Upstream*>(user);
    self->free(address, size, stream);
    self->leave();
  }

  std::atomic<uint64_t> uses_{1};  // by the pool, and by each piece of memory
};

}  // namespace binding
