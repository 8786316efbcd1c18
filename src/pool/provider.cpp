// SPDX-License-Identifier: Apache-2.0
#include "pool/provider.hpp"

#include <algorithm>
#include <cinttypes>
#include <string>

#include "base/defer.hpp"
#include "pool/report.hpp"
#include "pool/rooms.hpp"
#include "pool/run_stealer.hpp"
#include "pool/source.hpp"
#include "pool/watcher.hpp"
#include "pool/way_back.hpp"

namespace gpupool::internal {

Status Provider::provide(QuietLock& lock, Sleeper::Guest& guest, StreamState& state, uint64_t bytes,
                         uint64_t alignment, Range*& block) {
  const uint64_t reserved = rooms_.ledger.used();
  StreamHeap& heap = state.heap(group_of(bytes));
  block = allocate_from_heap(lock, heap, bytes, alignment);
  if (block != nullptr) return kSuccess;
  // A failure changes nothing: however this function ends, what it created in vain does not stay.
  const auto release_again = [&] {
    const ErrorRecord cause = last_error();
    const Ledger::Standing before = rooms_.ledger.standing();
    bool blocked = false;
    (void)source_.release(lock, reserved, false, blocked);
    rooms_.narrator.released(before, "created for a malloc that fails");
    last_error() = cause;
  };
  Defer on_failure(release_again);
  Status status = grow(lock, state, bytes, alignment, false, block);
  if (is_shortage(status)) {
    ++rooms_.setbacks.retries;
    guest.leave();  // it may wait for the pool's own sleep
    status = Shortage(*this, means_, lock, state, bytes, alignment).relieve(status, block);
  }
  if (status != kSuccess && !is_shortage(status)) return status;
  on_failure.cancel();
  if (status == kSuccess) return status;
  release_again();  // before the report
  return explain(status, bytes);
}

/// Allocates from what the stream's heap has. Blocks that caches keep split its holes, so they are drained
/// where it matters: always before a large block, whose best fit needs whole holes (0.7 instead of 7 per cent
/// of waste on a training run), and before a small one only when nothing fits, beginning with one block that
/// is large enough.
Range* Provider::allocate_from_heap(QuietLock& lock, StreamHeap& heap, uint64_t bytes, uint64_t alignment) {
  const Stream stream = heap.lane_stream();
  if (heap.group() == SizeGroup::large) way_back_.drain_stream(lock, stream, SizeGroup::large);
  if (Range* block = heap.allocate(bytes, alignment)) return block;
  if (heap.group() == SizeGroup::small) {
    if (way_back_.drain_larger(stream, bytes)) {
      if (Range* block = heap.allocate(bytes, alignment)) return block;
    }
    way_back_.drain_stream(lock, stream, SizeGroup::small);
  }
  way_back_.settle_pending();
  return heap.allocate(bytes, alignment);
}

/// It tries again because another thread may have been quicker while the lock was given up.
Status Provider::grow(QuietLock& lock, StreamState& state, uint64_t bytes, uint64_t alignment, bool last,
                      Range*& block) {
  if (const Status status = sleeper_.admit(lock); status != kSuccess) return status;
  way_back_.drain_resting(lock);
  const bool capturing = rooms_.captures.note(state);
  StreamHeap& heap = state.heap(group_of(bytes));
  for (int tries = 0; tries < 16; ++tries) {
    if (last) {
      way_back_.settle_all_pending(lock);
    } else {
      way_back_.settle_pending();
    }
    block = heap.allocate(bytes, alignment, last);
    if (block != nullptr) {
      if (rooms_.surplus.is_due()) source_.release_surplus(lock, rooms_.surplus.kept());
      return kSuccess;
    }
    const uint64_t largest = std::max(source_.largest_run(bytes + alignment - kUnit), kGranule);
    if (run_stealer_.steal(state, bytes, alignment, largest, last)) continue;
    const Ledger::Standing before = rooms_.ledger.standing();
    const Status status = source_.grow(lock, state, bytes, alignment, capturing);
    if (status != kSuccess) return status;
    rooms_.narrator.grew(before, state, bytes);
  }
  return fail(GPUPOOL_ERROR_OUT_OF_MEMORY, "other threads took the memory that this request needed");
}

Status Provider::explain(Status status, uint64_t bytes) {
  ++rooms_.setbacks.failed_mallocs;
  watcher_.record_failure(bytes);
  const int32_t driver_code = last_error().driver_code;
  const std::string where = report_.text();
  const char* what =
      status == GPUPOOL_ERROR_OVER_LIMIT ? "over the pool's limit" : "the device is out of memory";
  (void)fail_driver(status, driver_code, "malloc of %" PRIu64 " bytes: %s. ", bytes, what);
  internal::explain(where);
  return status;
}

}  // namespace gpupool::internal
