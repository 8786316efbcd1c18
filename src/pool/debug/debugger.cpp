// SPDX-License-Identifier: Apache-2.0
#include "pool/debug/debugger.hpp"

#include <cstdio>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "os/thread.hpp"
#include "pool/cache/thread_slots.hpp"
#include "pool/debug/descriptions.hpp"
#include "pool/memory/pool_state.hpp"
#include "pool/request/reclaimer.hpp"
#include "pool/request/slow_free.hpp"
#include "pool/request/slow_malloc.hpp"
#include "pool/request/watcher.hpp"

namespace gpupool::internal {
namespace {

/// Both kinds, since whoever debugs wants to see all.
constexpr StackKinds kAllStacks{true, true};

}  // namespace

Debugger::Debugger(PoolState& pool, SlowMalloc& slow_malloc, SlowFree& slow_free, Reclaimer& reclaimer,
                   Watcher& watcher)
    : pool_(pool),
      slow_malloc_(slow_malloc),
      slow_free_(slow_free),
      reclaimer_(reclaimer),
      watcher_(watcher),
      modes_(pool.options.debug),
      inspector_(pool.device, pool.streams),
      findings_(pool, history_, inspector_),
      quarantine_(modes_.quarantine, history_, inspector_),
      fences_(pool) {}

Status Debugger::begin() {
  const Status status = check_debug_modes(modes_, pool_.device.info(), pool_.options.vmm);
  if (status != kSuccess) return status;
  if (modes_.annotate) pool_.device.begin_annotating();
  return modes_.canary || modes_.poison ? inspector_.begin() : kSuccess;
}

// ---- mallocs

bool Debugger::wants_fence(uint64_t size) const noexcept {
  return modes_.fence && pool_.options.vmm && size >= modes_.fence_least;
}

Status Debugger::malloc(uint64_t size, uint64_t alignment, const StreamUser& user, Address& address) {
  WatchedCall seen;
  const Status status = allocate(size, alignment, user, address, seen);
  watcher_.tell_malloc(seen);
  if (status != kSuccess || address == 0) return status;
  if (!modes_.slows()) {
    guard(user, seen, alignment, address);
    return kSuccess;
  }
  const StackId stack = take_stack(kinds_to_take(kAllStacks));
  std::vector<Finding> found;
  {
    const PoolLock lock = pool_.enter();
    begin_life(address, size, stack);
    found = findings_.collect();
  }
  findings_.tell(found);
  return kSuccess;
}

Status Debugger::allocate(uint64_t size, uint64_t alignment, const StreamUser& user, Address& address,
                          WatchedCall& seen) {
  if (is_valid_size(size) && wants_fence(size)) {
    const Status status = allocate_fenced(size, alignment, user, address, seen);
    if (status != GPUPOOL_ERROR_UNAVAILABLE && !is_shortage(status)) return status;
  }
  const bool is_apart = modes_.canary || modes_.annotate;
  const uint64_t padded = is_apart && is_valid_size(size) && size != 0 ? size + kApart : size;
  return slow_malloc_.malloc(padded, alignment, user, address, seen);
}

/// UNAVAILABLE while the stream captures, since a graph's memory stays where it is. If memory is short, the
/// block gets no fence.
Status Debugger::allocate_fenced(uint64_t size, uint64_t alignment, StreamUser user, Address& address,
                                 WatchedCall& seen) {
  if (const Status status = check_stream(user); status != kSuccess) return status;
  ThreadCache& cache = *ThreadSlots::find(pool_.id);
  PoolLock lock = pool_.enter();
  if (const Status status = pool_.gate.admit(lock); status != kSuccess) return status;
  StreamState* state = nullptr;
  if (const Status status = pool_.streams.find(user, state); status != kSuccess) return status;
  if (pool_.captures.note(*state, user)) return GPUPOOL_ERROR_UNAVAILABLE;
  sweep();
  Range* block = nullptr;
  const Status status = fences_.allocate(*state, allocated_size(size), alignment, block);
  if (is_shortage(status)) ++unfenced_;
  if (status != kSuccess) return status;
  address = block->address;
  slow_malloc_.assign_block(block, cache, size, seen);
  return kSuccess;
}

void Debugger::begin_life(Address address, uint64_t size, StackId stack) noexcept {
  Range* block = pool_.space.map.find(address);
  StreamState& state = heap_of(*block).state();
  BlockRecord life;
  life.address = address;
  life.requested = size;
  life.room = block->size;
  life.number = ++number_;
  life.stream = state.order.stream();
  life.born_ns = clock_ns();
  life.made_by = stack;
  life.made_in = os::thread_id();
  life.tag = current_tag();
  life.is_fenced = block->region->is_fence;
  life.is_captured = !Inspector::may_queue_as_user(state);
  // A sleep may have begun since the block was taken, and has waited for streams already.
  const bool may = !life.is_captured && pool_.gate.is_awake();
  pool_.device.annotate(address, life.room, Accessibility::open);
  if (!may && (modes_.canary || modes_.poison)) inspector_.skip(1);
  if (modes_.poison && may) inspector_.poison(life, state, kNewPoison);
  // Behind a fenced block is only what it was rounded up by.
  if (modes_.canary && may && life.room != size) life.has_canary = inspector_.put_canary(life, state);
  life.is_poisoned = false;
  pool_.device.annotate(address + size, life.room - size, Accessibility::closed);
  pool_.device.annotate(address, size, Accessibility::block);
  try {
    history_.add(life);
  } catch (const std::bad_alloc&) {
    // The block has no story, and nobody looks at its canary.
  }
}

void Debugger::renew_canaries(Address start, uint64_t size) noexcept {
  const BlockRecord* first = history_.holder(start);
  history_.for_each_from(first != nullptr ? first->address : start, [&](BlockRecord& life) {
    if (life.address >= start + size) return false;
    if (!life.has_canary || life.end() <= start || life.address + life.requested >= start + size) return true;
    StreamState& state = heap_of(*pool_.space.map.find(life.address)).state();
    const bool may = inspector_.may_queue(state);
    if (!may) inspector_.skip(1);
    life.has_canary = may && inspector_.put_canary(life, state);
    return true;
  });
}

// ---- frees

Status Debugger::free(Address address, const StreamUser& user) {
  if (!modes_.slows()) {
    const PoolLock lock = pool_.enter();
    if (history_.find(address) == nullptr) return slow_free_.free(address, user);
  }
  const StackId stack = take_stack(kinds_to_take(kAllStacks));
  wait_for_work();
  std::vector<Finding> found;
  Status status = kSuccess;
  {
    const PoolLock lock = pool_.enter();
    BlockRecord* life = history_.find(address);
    const bool was_live = life != nullptr && life->died_ns == 0;
    if (was_live) {
      life->died_ns = clock_ns();
      life->freed_by = stack;
      life->freed_in = os::thread_id();
      life->freed_on = user.stream();
      // What nobody owns any more is not saved: it may be awake again before the free's streams have passed.
      if (!pool_.gate.is_awake() || has_asleep(*pool_.space.map.find(address)))
        life->has_canary = life->is_poisoned = false;
    }
    const BlockRecord before = was_live ? *life : BlockRecord{};
    const bool is_captured = was_live && is_of_graph(*life);
    // The record may go with the block. It stays if the free fails.
    status = slow_free_.free(address, user);
    pool_.streams.leave_event_now(user);
    sweep();
    if (status != kSuccess && was_live) life->died_ns = 0;
    if (status == kSuccess && was_live) close_block(before, is_captured);
    found = findings_.collect();
  }
  findings_.tell(found);
  return status == GPUPOOL_ERROR_UNKNOWN_POINTER ? tell_story_of(address, status) : status;
}

/// Work that uses a block may still be queued when it is freed, and is checked when it runs.
void Debugger::wait_for_work() {
  if (!modes_.annotate || !pool_.device.info().is_under_sanitizer) return;
  PoolLock lock = pool_.enter();
  (void)reclaimer_.wait_for_streams(lock, "compute-sanitizer", Reclaimer::Extent::everything);
}

/// For annotate: whether a graph may use a live block that is freed now.
bool Debugger::is_of_graph(const BlockRecord& life) const noexcept {
  if (!modes_.annotate || life.is_captured) return life.is_captured;
  const Range* block = pool_.space.map.find(life.address);
  if (block == nullptr) return false;
  StreamOrder& order = heap_of(*block).state().order;
  return !order.is_retired() && order.capturing();
}

/// Tells the device that a block was freed.
void Debugger::close_block(const BlockRecord& life, bool is_captured) noexcept {
  pool_.device.annotate(life.address, life.requested, Accessibility::freed);
  // The graph goes on using a captured block, and an unmapped block has no memory any more.
  const bool is_unmapped = life.is_fenced && pool_.space.map.find(life.address) == nullptr;
  if (is_captured || is_unmapped) pool_.device.annotate(life.address, life.requested, Accessibility::open);
}

void Debugger::take(Range& block) noexcept {
  BlockRecord* life = history_.find(block.address);
  StreamState& state = heap_of(block).state();
  // Memory that is away cannot be looked at, nor what may be by the time that the look is done.
  if (is_ending_ || life == nullptr || !pool_.gate.is_awake() || has_asleep(block)) {
    allow_reuse(block);
    return;
  }
  if (block.region->is_fence) {
    quarantine_.look_at(*life, state);
    allow_reuse(block);
    return;
  }
  if (modes_.poison) {
    const bool may = inspector_.may_queue(state) && !life->is_captured;
    may ? inspector_.poison(*life, state, kFreePoison) : inspector_.skip(1);
  }
  if (!modes_.canary && modes_.quarantine == 0) {
    allow_reuse(block);
    return;
  }
  quarantine_.add(block);
  if (quarantine_.is_full(pool_.ledger.used()))
    quarantine_.make_room([this](Range& oldest) { allow_reuse(oldest); });
}

/// Fences go as soon as their streams have passed, those of recorded streams too: a malloc of a fenced block
/// asks no heap, which would look.
void Debugger::sweep() noexcept {
  reclaimer_.settle_pending();
  fences_.sweep();
}

/// Lets the block's memory be handed out again.
void Debugger::allow_reuse(Range& block) noexcept {
  history_.move_to_gone(block.address);
  block.region->is_fence ? fences_.retire(block) : reclaimer_.free_to_heap(block);
}

bool Debugger::release(bool all) noexcept {
  if (!all && !quarantine_.is_for_looks()) return false;
  const bool any = !quarantine_.empty();
  quarantine_.clear([this](Range& block) { allow_reuse(block); });
  fences_.sweep();
  return any;
}

// ---- guards

/// Whether there may be another guard: at most kMostGuards at a time, in a two-thousandth of the time.
bool Debugger::may_guard() noexcept {
  constexpr uint64_t kParts = 2000;
  constexpr uint64_t kFirst = 1'000'000;
  sweep();
  const uint64_t elapsed = pool_.device.age_ns();
  return fences_.count() < kMostGuards && guard_ns_ < kFirst + elapsed / kParts;
}

void Debugger::guard(const StreamUser& user, const WatchedCall& seen, uint64_t alignment, Address& address) {
  if (!modes_.guard || !seen.is_sampled || !pool_.options.vmm) return;
  uint64_t start = 0;
  {
    const PoolLock lock = pool_.enter();
    start = pool_.device.now_ns();
    if (!may_guard()) {
      guard_ns_ += pool_.device.now_ns() - start;  // earlier guards are unmapped there
      return;
    }
  }
  WatchedCall guarded;
  Address fenced = 0;
  Status status = kSuccess;
  try {
    status = allocate_fenced(seen.requested, alignment, user, fenced, guarded);
  } catch (const std::bad_alloc&) {
    status = GPUPOOL_ERROR_HOST_OUT_OF_MEMORY;  // the block that the caller has will do
  }
  const StackId stack = status == kSuccess ? take_stack(kinds_to_take(kAllStacks)) : 0;
  {
    const PoolLock lock = pool_.enter();
    guard_ns_ += pool_.device.now_ns() - start;
    if (status != kSuccess) return;
    begin_life(fenced, seen.requested, stack);
    Range* block = pool_.space.map.find(fenced);
    ThreadCache* owner = owner_of(*block);
    const std::lock_guard owner_lock(owner->lock);
    block->add_marks(kDebugged);
  }
  watcher_.tell_malloc(guarded);
  const PoolLock lock = pool_.enter();
  (void)slow_free_.free(std::exchange(address, fenced), user);
}

// ---- findings

/// Looks behind blocks in use and into those in quarantine, from an address on. True if those were all; else
/// `from` is where to go on.
bool Debugger::look_at_lives(Address& from) noexcept {
  if (!pool_.gate.is_awake()) return true;  // a sleep waits for no more looks
  constexpr size_t kAtOnce = 1024;          // so that others get the lock
  bool done = true;
  size_t count = 0;
  Looks looks;
  StreamState* of = nullptr;  // whose they are
  history_.for_each_from(from, [&](const BlockRecord& life) {
    if (count++ == kAtOnce) {
      from = life.address;
      return done = false;
    }
    Range* block = pool_.space.map.find(life.address);
    const bool is_held = life.is_poisoned && !quarantine_.is_for_looks();
    if ((!life.has_canary && !is_held) || has_asleep(*block)) return true;
    StreamState& state = heap_of(*block).state();
    if (of != &state || looks.is_full()) {
      if (of != nullptr) inspector_.queue(std::exchange(looks, {}), *of);
      of = &state;
    }
    if (life.has_canary) looks.add_behind(life);
    if (is_held) looks.add_inside(life);
    return true;
  });
  if (of != nullptr) inspector_.queue(looks, *of);
  return done;
}

Status Debugger::check(uint64_t& count, std::string& text) {
  Address from = 0;
  for (bool done = false; !done;) {
    std::vector<Finding> found;
    Status status = kSuccess;
    {
      PoolLock lock = pool_.enter();
      done = look_at_lives(from);
      status = reclaimer_.wait_for_streams(lock, "check", Reclaimer::Extent::everything);
      reclaimer_.settle_all_pending(lock);
      fences_.sweep();
      found = findings_.collect();
    }
    findings_.tell(found);
    if (status != kSuccess) return status;
  }
  const PoolLock lock = pool_.enter();
  findings_.describe(count, text);
  if (unfenced_ != 0) text += std::to_string(unfenced_) + " blocks have no fence, for want of memory\n";
  return kSuccess;
}

/// Adds what was at an address to the thread's last error.
Status Debugger::tell_story_of(Address address, Status status) {
  BlockRecord life;
  {
    const PoolLock lock = pool_.look();
    const BlockRecord* found = history_.holder(address);
    if (found == nullptr) return status;
    life = *found;
  }
  ErrorRecord& record = last_error();
  const size_t length = std::strlen(record.message);
  std::snprintf(record.message + length, sizeof record.message - length, ": %s", describe_life(life).c_str());
  return status;
}

void Debugger::end(PoolLock& lock) noexcept {
  // From here on, nobody but the log sees the findings.
  (void)release(true);
  (void)reclaimer_.wait_for_streams(lock, "the pool's end", Reclaimer::Extent::everything);
  const std::vector<Finding> found = findings_.collect();
  is_ending_ = true;
  reclaimer_.settle_all_pending(lock);
  (void)release(true);
  (void)reclaimer_.wait_for_streams(lock, "the pool's end", Reclaimer::Extent::everything);
  fences_.end();
  lock.give_up_for([&] {
    findings_.tell(found);
    inspector_.end();
  });
}

}  // namespace gpupool::internal
