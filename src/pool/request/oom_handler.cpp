// SPDX-License-Identifier: Apache-2.0
#include "pool/request/oom_handler.hpp"

#include <algorithm>
#include <array>

#include "base/defer.hpp"
#include "pool/memory/pool_state.hpp"
#include "pool/rules/pool_lock.hpp"

namespace gpupool::internal {
namespace {

/// The handlers that this thread is inside, the outermost first. A malloc in a handler
/// asks none of them again, since that would never end.
class Asked {
 public:
  bool may_ask(const OomHandler* handler) const {
    const auto end = handlers_.begin() + count_;
    return count_ < handlers_.size() && std::find(handlers_.begin(), end, handler) == end;
  }
  void enter(const OomHandler* handler) { handlers_[count_++] = handler; }
  void leave() { --count_; }

 private:
  std::array<const OomHandler*, 8> handlers_{};
  uint32_t count_ = 0;
};
constinit thread_local Asked asked;

}  // namespace

bool OomHandler::ask(PoolLock& lock, uint64_t bytes, uint32_t attempt) {
  const gpupool_oom_fn_t fn = fn_;
  void* user = user_;
  if (fn == nullptr || attempt > kMostAttempts || !asked.may_ask(this)) return false;
  ++pool_.shortages.handler_calls;
  asked.enter(this);
  const Defer leave([&] {
    asked.leave();
    pool_.streams.next_round();
  });
  return lock.call_out([&] { return fn(user, pool_.handle, bytes, attempt) != 0; });
}

bool OomHandler::has_destroyed_pool() const noexcept {
  return pool_.life() == Life::destroyed;
}

}  // namespace gpupool::internal
