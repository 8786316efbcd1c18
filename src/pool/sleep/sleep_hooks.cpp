// SPDX-License-Identifier: Apache-2.0
#include "pool/sleep/sleep_hooks.hpp"

#include "base/status.hpp"

namespace gpupool::internal {

/// What the hook itself does wrong is not this call's last failure.
bool SleepHooks::call(Lock& lock, gpupool_sleep_hook_fn_t hook, void* user, gpupool_t* pool, Address block) {
  if (hook == nullptr) return true;
  const KeepError keep_error;
  return lock.call_out([&] { return hook(user, pool, block) != 0; });
}

Status SleepHooks::before_release(Lock& lock, gpupool_t* pool, Address block) {
  if (call(lock, hooks_.before, hooks_.user, pool, block)) return kSuccess;
  return fail(GPUPOOL_ERROR_UNAVAILABLE, "the hook before_release refused: see gpupool_set_sleep_hooks");
}

Status SleepHooks::after_map(Lock& lock, gpupool_t* pool, Address block) {
  if (!owed_.contains(block)) return kSuccess;
  if (call(lock, hooks_.after, hooks_.user, pool, block)) {
    owed_.erase(block);
    return kSuccess;
  }
  return fail(GPUPOOL_ERROR_UNAVAILABLE, "the memory is there, but the hook after_map failed: wake it again");
}

Status SleepHooks::after_map_all(Lock& lock, gpupool_t* pool) {
  for (auto next = owed_.begin(); next != owed_.end();) {
    const Address block = *next;
    if (const Status status = after_map(lock, pool, block); status != kSuccess) return status;
    next = owed_.upper_bound(block);
  }
  return kSuccess;
}

}  // namespace gpupool::internal
