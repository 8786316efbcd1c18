// SPDX-License-Identifier: Apache-2.0
// What the caller wants to be asked before memory goes, and told when it is there again.
#pragma once

#include <set>

#include "base/status.hpp"
#include "core/size.hpp"
#include "gpupool/gpupool.h"
#include "pool/rules/pool_lock.hpp"

namespace gpupool::internal {

/// Guarded by the pool's lock, which it gives up while a hook runs. Address 0 stands for all of the pool.
class SleepHooks {
 public:
  using Lock = PoolLock;

  void set(gpupool_sleep_hook_fn_t before, gpupool_sleep_hook_fn_t after, void* user) noexcept {
    hooks_ = {before, after, user};
  }

  /// Takes note that after_map is due once `block` is awake. False if it was due. Throws std::bad_alloc.
  bool owe(Address block) { return owed_.insert(block).second; }
  void forget(Address block) noexcept { owed_.erase(block); }
  template <typename Predicate>
  void forget_if(Predicate predicate) {
    std::erase_if(owed_, predicate);
  }
  bool owes_any() const noexcept { return !owed_.empty(); }

  /// UNAVAILABLE if the hook refuses.
  Status before_release(Lock& lock, gpupool_t* pool, Address block);
  /// Calls the hook if it is due. UNAVAILABLE if it fails; it stays due.
  Status after_map(Lock& lock, gpupool_t* pool, Address block);
  /// The same for all that are due, until one fails.
  Status after_map_all(Lock& lock, gpupool_t* pool);

 private:
  struct Hooks {
    gpupool_sleep_hook_fn_t before = nullptr;
    gpupool_sleep_hook_fn_t after = nullptr;
    void* user = nullptr;
  };

  static bool call(Lock& lock, gpupool_sleep_hook_fn_t hook, void* user, gpupool_t* pool, Address block);

  Hooks hooks_;
  std::set<Address> owed_;
};

}  // namespace gpupool::internal
