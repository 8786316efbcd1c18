// SPDX-License-Identifier: Apache-2.0
// Serves a request that no thread's cache can: from the stream's heap, from the pool's source, and, if both
// are short, with what Shortage tries. The last resort is an error that explains.
#include <algorithm>
#include <array>
#include <cinttypes>

#include "base/defer.hpp"
#include "pool/pool.hpp"
#include "pool/registry.hpp"
#include "pool/shortage.hpp"

namespace gpupool::internal {
namespace {

/// The pools whose out-of-memory handlers this thread is inside, the outermost first. A malloc in a handler
/// asks none of them again, since that would never end.
class Asked {
 public:
  bool may_ask(const Pool* pool) const {
    const auto end = pools_.begin() + count_;
    return count_ < pools_.size() && std::find(pools_.begin(), end, pool) == end;
  }
  void enter(const Pool* pool) { pools_[count_++] = pool; }
  void leave() { --count_; }

 private:
  std::array<const Pool*, 8> pools_{};
  uint32_t count_ = 0;
};
constinit thread_local Asked asked;

}  // namespace

Status Pool::allocate_or_explain(Lock& lock, StreamState& state, uint64_t bytes, uint64_t alignment,
                                 Range*& block) {
  const uint64_t reserved = ledger_.used();
  StreamHeap& heap = state.heap(group_of(bytes));
  block = allocate_from_heap(lock, heap, bytes, alignment);
  if (block != nullptr) return kSuccess;
  // A failure changes nothing: however this function ends, what it created in vain does not stay.
  const auto release_again = [&] {
    const ErrorRecord cause = last_error();
    const Ledger::Standing before = ledger_.standing();
    bool blocked = false;
    (void)source_->release(lock, reserved, false, blocked);
    narrator_.released(before, "created for a malloc that fails");
    last_error() = cause;
  };
  Defer on_failure(release_again);
  Status status = grow(lock, state, bytes, alignment, false, block);
  if (is_shortage(status)) {
    ++setbacks_.retries;
    status = Shortage(*this, lock, state, bytes, alignment).relieve(status, block);
  }
  if (status != kSuccess && !is_shortage(status)) return status;
  on_failure.cancel();
  if (status == kSuccess) return status;
  release_again();  // before the report
  return fail_malloc(status, bytes);
}

/// Allocates from what the stream's heap has. Blocks that caches keep split its holes, so they are drained
/// first where it matters: always for large blocks, whose best fit needs whole holes (0.7 instead of 7 per
/// cent of waste on a training run), and for small ones only when nothing fits.
Range* Pool::allocate_from_heap(Lock& lock, StreamHeap& heap, uint64_t bytes, uint64_t alignment) {
  if (heap.group() == SizeGroup::large) drain_stream(lock, heap.lane_stream(), SizeGroup::large);
  if (Range* block = heap.allocate(bytes, alignment)) return block;
  drain_stream(lock, heap.lane_stream(), SizeGroup::small);
  settle_pending();
  return heap.allocate(bytes, alignment);
}

/// Gets memory for the heap, and a block from it. With `last`, the step before failing, it leaves nothing
/// out. It tries again because another thread may have been quicker while the lock was given up.
Status Pool::grow(Lock& lock, StreamState& state, uint64_t bytes, uint64_t alignment, bool last,
                  Range*& block) {
  if (const Status status = sleeper_.admit(lock); status != kSuccess) return status;
  drain_resting(lock);
  const bool capturing = captures_.note(state);
  StreamHeap& heap = state.heap(group_of(bytes));
  for (int tries = 0; tries < 16; ++tries) {
    if (last) {
      settle_all_pending(lock);
    } else {
      settle_pending();
    }
    block = heap.allocate(bytes, alignment, last);
    if (block != nullptr) {
      if (surplus_.is_due()) source_->release_surplus(lock, surplus_.kept());
      return kSuccess;
    }
    const uint64_t largest = std::max(source_->largest_run(bytes + alignment - kUnit), kGranule);
    if (run_stealer_.steal(state, bytes, alignment, largest, last)) continue;
    const Ledger::Standing before = ledger_.standing();
    const Status status = source_->grow(lock, state, bytes, alignment, capturing);
    if (status != kSuccess) return status;
    narrator_.grew(before, state, bytes);
  }
  return fail(GPUPOOL_ERROR_OUT_OF_MEMORY, "other threads took the memory that this request needed");
}

bool Pool::ask_handler(Lock& lock, uint64_t bytes, uint32_t attempt) {
  const gpupool_oom_fn_t fn = oom_fn_;
  void* user = oom_user_;
  if (fn == nullptr || !asked.may_ask(this)) return false;
  ++setbacks_.handler_calls;
  lock.unlock();
  const Defer relock([&] {
    asked.leave();
    lock.lock();
    streams_.next_round();
  });
  asked.enter(this);
  return fn(user, handle_, bytes, attempt) != 0;
}

/// Has a child's parent release what it has cached under the limit that they share. The children themselves
/// keep what they have. False if there is no parent, or if it released nothing.
bool Pool::make_room(Lock& lock, uint64_t bytes) {
  const std::shared_ptr<Pool> parent = parent_.lock();
  if (parent == nullptr) return false;
  lock.unlock();
  const Defer relock([&] {
    lock.lock();
    streams_.next_round();
  });
  const uint64_t missing = align_up(bytes, kGranule);
  const uint64_t used = parent->ledger_.used();
  uint64_t released = 0;
  return parent->trim(used - std::min(used, missing), released) == kSuccess && released != 0;
}

/// Empties other pools on the device, which may be keeping what this one needs. Children keep what they have.
void Pool::empty_other_pools(Lock& lock) {
  const DeviceInfo& own = device_.info();
  lock.unlock();
  const Defer relock([&] {
    lock.lock();
    streams_.next_round();
  });
  const auto pools = Registry::instance().all();
  for (const auto& pool : pools) {
    const DeviceInfo& other = pool->device_.info();
    // Pools that were inherited over fork have a device that must not be touched.
    if (pool.get() == this || !pool->handle_is_usable() || other.backend != own.backend ||
        other.ordinal != own.ordinal)
      continue;
    const bool has_ended = pool->handle_->life.load(std::memory_order_acquire) == Life::destroyed;
    uint64_t released = 0;
    if (has_ended || !pool->options_.is_child) (void)pool->trim(0, released, "another pool is short");
    if (has_ended) {
      Registry::instance().end_if_empty(*pool->handle_);
    }
  }
}

/// Explains the shortage in the thread's error record.
Status Pool::fail_malloc(Status status, uint64_t bytes) {
  ++setbacks_.failed_mallocs;
  watcher_.record_failure(bytes);
  const int32_t driver_code = last_error().driver_code;
  const std::string where = report_.text();
  const char* what =
      status == GPUPOOL_ERROR_OVER_LIMIT ? "over the pool's limit" : "the device is out of memory";
  (void)fail_driver(status, driver_code, "malloc of %" PRIu64 " bytes: %s. %s", bytes, what, where.c_str());
  return status;
}

}  // namespace gpupool::internal
