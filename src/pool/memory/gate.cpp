// SPDX-License-Identifier: Apache-2.0
#include "pool/memory/gate.hpp"

#include <utility>

#include "pool/stream/streams.hpp"

namespace gpupool::internal {

Status Gate::refuse_or_wait(Lock& lock, WaitingMalloc& malloc) {
  if (holds_mallocs && owner != std::this_thread::get_id()) {
    if (!std::exchange(malloc.has_waited_, true)) ++waiting;
    const Status status = wait_until_ready(changed, lock, GPUPOOL_WAIT_WAKE, [&] { return is_awake(); });
    streams_.next_round();
    return status;
  }
  return fail(GPUPOOL_ERROR_ASLEEP, "the pool%s%s%s is asleep: wake it first", name.empty() ? "" : " '",
              name.c_str(), name.empty() ? "" : "'");
}

void Gate::end_wait(WaitingMalloc& malloc) noexcept {
  malloc.has_waited_ = false;
  if (--waiting == 0) changed.notify_all();
}

}  // namespace gpupool::internal
