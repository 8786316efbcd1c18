// SPDX-License-Identifier: Apache-2.0
#include "pool/debugger.hpp"

#include <new>
#include <utility>
#include <vector>

#include "os/thread.hpp"
#include "pool/holders.hpp"
#include "pool/pool.hpp"
#include "pool/story.hpp"

namespace gpupool::internal {
namespace {

/// Both kinds, since whoever debugs wants to see all.
constexpr StackKinds kAllStacks{true, true};

}  // namespace

Debugger::Debugger(Pool& pool, const DebuggedRooms& debugged, const DebugModes& modes)
    : pool_(pool),
      rooms_(debugged.rooms),
      door_(debugged.door),
      slow_path_(debugged.slow_path),
      way_back_(debugged.way_back),
      sleeper_(debugged.sleeper),
      watcher_(debugged.watcher),
      sampler_(debugged.sampler),
      modes_(modes),
      inspector_(rooms_.device),
      findings_(door_, book_, inspector_),
      quarantine_(modes.quarantine, book_, inspector_),
      fences_(rooms_, debugged.backing) {}

Status Debugger::begin() {
  const Status status = check_debug_modes(modes_, rooms_.device.info(), rooms_.options.vmm);
  if (status != kSuccess) return status;
  if (modes_.annotate) rooms_.device.begin_annotating();
  return modes_.canary || modes_.poison ? inspector_.begin() : kSuccess;
}

// ---- mallocs

bool Debugger::wants_fence(uint64_t size) const noexcept {
  return modes_.fence && rooms_.options.vmm && size >= modes_.fence_least;
}

Status Debugger::malloc(uint64_t size, uint64_t alignment, Stream stream, Address& address) {
  Sighting seen;
  const Status status = allocate(size, alignment, stream, address, seen);
  watcher_.tell_malloc(seen);
  if (is_shortage(status)) return name_holders(sampler_, status);
  if (status != kSuccess || address == 0) return status;
  if (!modes_.slows()) {
    guard(seen, alignment, address);
    return kSuccess;
  }
  const StackId stack = take_stack(kinds_to_take(kAllStacks));
  std::vector<Finding> found;
  {
    const QuietLock lock = door_.enter();
    begin_life(address, size, stack);
    found = findings_.collect();
  }
  findings_.tell(found);
  return kSuccess;
}

Status Debugger::allocate(uint64_t size, uint64_t alignment, Stream stream, Address& address,
                          Sighting& seen) {
  if (is_valid_size(size) && wants_fence(size)) {
    const Status status = allocate_fenced(size, alignment, stream, address, seen);
    if (status != GPUPOOL_ERROR_UNAVAILABLE && !is_shortage(status)) return status;
  }
  const bool is_apart = modes_.canary || modes_.annotate;
  const uint64_t padded = is_apart && is_valid_size(size) && size != 0 ? size + kApart : size;
  return slow_path_.malloc(padded, alignment, stream, address, seen);
}

/// UNAVAILABLE while the stream captures, since a graph's memory stays where it is. If memory is short, the
/// block gets no fence.
Status Debugger::allocate_fenced(uint64_t size, uint64_t alignment, Stream stream, Address& address,
                                 Sighting& seen) {
  if (const Status status = check_stream(stream); status != kSuccess) return status;
  ThreadCache& cache = *ThreadSlots::find(rooms_.id);
  QuietLock lock = door_.enter();
  if (const Status status = sleeper_.admit(lock); status != kSuccess) return status;
  StreamState* state = nullptr;
  if (const Status status = rooms_.streams.find(stream, state); status != kSuccess) return status;
  if (rooms_.captures.note(*state)) return GPUPOOL_ERROR_UNAVAILABLE;
  fences_.sweep();
  Range* block = nullptr;
  const Status status = fences_.allocate(*state, allocated_size(size), alignment, block);
  if (is_shortage(status)) ++unfenced_;
  if (status != kSuccess) return status;
  address = block->address;
  slow_path_.assign_block(block, cache, size, seen);
  return kSuccess;
}

void Debugger::begin_life(Address address, uint64_t size, StackId stack) noexcept {
  Range* block = rooms_.space.map.find(address);
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
  const bool may = Inspector::may_queue(state);
  life.is_captured = !may;
  rooms_.device.annotate(address, life.room, Standing::open);
  if (!may && (modes_.canary || modes_.poison)) inspector_.skip(1);
  if (modes_.poison && may) inspector_.poison(life, state, kNewPoison);
  // Behind a fenced block is only what it was rounded up by.
  if (modes_.canary && may && life.room != size) life.has_canary = inspector_.put_canary(life, state);
  life.is_poisoned = false;
  rooms_.device.annotate(address + size, life.room - size, Standing::closed);
  rooms_.device.annotate(address, size, Standing::block);
  try {
    book_.add(life);
  } catch (const std::bad_alloc&) {
    // The block has no story, and nobody looks at its canary.
  }
}

void Debugger::renew_canaries(Address start, uint64_t size) noexcept {
  const BlockRecord* first = book_.holder(start);
  book_.for_each_from(first != nullptr ? first->address : start, [&](BlockRecord& life) {
    if (life.address >= start + size) return false;
    if (!life.has_canary || life.end() <= start || life.address + life.requested >= start + size) return true;
    StreamState& state = heap_of(*rooms_.space.map.find(life.address)).state();
    const bool may = Inspector::may_queue(state);
    if (!may) inspector_.skip(1);
    life.has_canary = may && inspector_.put_canary(life, state);
    return true;
  });
}

// ---- frees

Status Debugger::free(Address address, Stream stream) {
  if (!modes_.slows()) {
    const QuietLock lock = door_.enter();
    if (book_.find(address) == nullptr) return slow_path_.free(address, stream);
  }
  const StackId stack = take_stack(kinds_to_take(kAllStacks));
  wait_for_work();
  std::vector<Finding> found;
  Status status = kSuccess;
  {
    const QuietLock lock = door_.enter();
    BlockRecord* life = book_.find(address);
    const bool was_live = life != nullptr && life->died_ns == 0;
    if (was_live) {
      life->died_ns = clock_ns();
      life->freed_by = stack;
      life->freed_in = os::thread_id();
      life->freed_on = stream;
    }
    const BlockRecord before = was_live ? *life : BlockRecord{};
    const bool is_captured = was_live && is_of_graph(*life);
    // The record may go with the block. It stays if the free fails.
    status = slow_path_.free(address, stream);
    if (status != kSuccess && was_live) life->died_ns = 0;
    if (status == kSuccess && was_live) close_block(before, is_captured);
    found = findings_.collect();
  }
  findings_.tell(found);
  return status == GPUPOOL_ERROR_UNKNOWN_POINTER ? tell_story_of(pool_, address, status) : status;
}

/// Work that uses a block may still be queued when it is freed, and is checked when it runs.
void Debugger::wait_for_work() {
  if (!modes_.annotate || !rooms_.device.info().is_under_sanitizer) return;
  QuietLock lock = door_.enter();
  (void)way_back_.wait_for_streams(lock, "compute-sanitizer");
}

/// For annotate: whether a graph may use a live block that is freed now.
bool Debugger::is_of_graph(const BlockRecord& life) const noexcept {
  if (!modes_.annotate || life.is_captured) return life.is_captured;
  const Range* block = rooms_.space.map.find(life.address);
  if (block == nullptr) return false;
  StreamOrder& order = heap_of(*block).state().order;
  return !order.is_retired() && order.capturing();
}

/// Tells the device that a block was freed.
void Debugger::close_block(const BlockRecord& life, bool is_captured) noexcept {
  rooms_.device.annotate(life.address, life.requested, Standing::freed);
  // The graph goes on using a captured block, and an unmapped block has no memory any more.
  const bool is_unmapped = life.is_fenced && rooms_.space.map.find(life.address) == nullptr;
  if (is_captured || is_unmapped) rooms_.device.annotate(life.address, life.requested, Standing::open);
}

void Debugger::settle(Range& block) noexcept {
  BlockRecord* life = book_.find(block.address);
  StreamState& state = heap_of(block).state();
  // Memory that is away cannot be looked at, nor what may be by the time that the look is done.
  if (is_ending_ || life == nullptr || !sleeper_.is_awake() || sleeper_.is_asleep(block)) {
    allow_reuse(block);
    return;
  }
  if (block.region->is_fence) {
    quarantine_.look_at(*life, state);
    allow_reuse(block);
    return;
  }
  if (modes_.poison) {
    const bool may = Inspector::may_queue(state) && !life->is_captured;
    may ? inspector_.poison(*life, state, kFreePoison) : inspector_.skip(1);
  }
  if (!modes_.canary && modes_.quarantine == 0) {
    allow_reuse(block);
    return;
  }
  quarantine_.add(block);
  if (quarantine_.is_full(rooms_.ledger.used()))
    quarantine_.make_room([this](Range& oldest) { allow_reuse(oldest); });
}

/// Lets the block's memory be handed out again.
void Debugger::allow_reuse(Range& block) noexcept {
  book_.move_to_gone(block.address);
  block.region->is_fence ? fences_.retire(block) : way_back_.free_to_heap(block);
}

bool Debugger::empty_quarantine() noexcept {
  const bool any = !quarantine_.empty();
  quarantine_.clear([this](Range& block) { allow_reuse(block); });
  fences_.sweep();
  return any;
}

bool Debugger::release_waiting() noexcept {
  return quarantine_.is_for_looks() && empty_quarantine();
}

// ---- guards

/// Whether there may be another guard: at most kMostGuards at a time, in a two-thousandth of the time.
bool Debugger::may_guard() noexcept {
  constexpr uint64_t kParts = 2000;
  constexpr uint64_t kFirst = 1'000'000;
  fences_.sweep();
  const uint64_t elapsed = rooms_.device.age_ns();
  return fences_.count() < kMostGuards && guard_ns_ < kFirst + elapsed / kParts;
}

void Debugger::guard(const Sighting& seen, uint64_t alignment, Address& address) {
  if (!modes_.guard || !seen.is_sampled || !rooms_.options.vmm) return;
  uint64_t start = 0;
  {
    const QuietLock lock = door_.enter();
    start = rooms_.device.raw().now_ns();
    if (!may_guard()) {
      guard_ns_ += rooms_.device.raw().now_ns() - start;  // earlier guards are unmapped there
      return;
    }
  }
  Sighting guarded;
  Address fenced = 0;
  Status status = kSuccess;
  try {
    status = allocate_fenced(seen.requested, alignment, seen.stream, fenced, guarded);
  } catch (const std::bad_alloc&) {
    status = GPUPOOL_ERROR_HOST_OUT_OF_MEMORY;  // the block that the caller has will do
  }
  const StackId stack = status == kSuccess ? take_stack(kinds_to_take(kAllStacks)) : 0;
  {
    const QuietLock lock = door_.enter();
    guard_ns_ += rooms_.device.raw().now_ns() - start;
    if (status != kSuccess) return;
    begin_life(fenced, seen.requested, stack);
    Range* block = rooms_.space.map.find(fenced);
    ThreadCache* owner = owner_of(*block);
    const std::lock_guard owner_lock(owner->lock);
    block->add_marks(kDebugged);
  }
  watcher_.tell_malloc(guarded);
  (void)pool_.free(std::exchange(address, fenced), seen.stream);
}

// ---- findings

/// Looks behind blocks in use, from an address on. True if those were all; else `from` is where to go on.
bool Debugger::look_at_lives(Address& from) noexcept {
  constexpr size_t kAtOnce = 1024;  // so that others get the lock
  bool done = true;
  size_t count = 0;
  Looks looks;
  StreamState* of = nullptr;  // whose they are
  book_.for_each_from(from, [&](const BlockRecord& life) {
    if (count++ == kAtOnce) {
      from = life.address;
      return done = false;
    }
    Range* block = rooms_.space.map.find(life.address);
    if (!life.has_canary || sleeper_.is_asleep(*block)) return true;
    StreamState& state = heap_of(*block).state();
    if (of != &state || looks.is_full()) {
      if (of != nullptr) inspector_.queue(std::exchange(looks, {}), *of);
      of = &state;
    }
    looks.add_behind(life);
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
      QuietLock lock = door_.enter();
      done = look_at_lives(from);
      status = way_back_.wait_for_streams(lock, "check");
      way_back_.settle_all_pending(lock);
      fences_.sweep();
      found = findings_.collect();
    }
    findings_.tell(found);
    if (status != kSuccess) return status;
  }
  const QuietLock lock = door_.enter();
  findings_.describe(count, text);
  if (unfenced_ != 0) text += std::to_string(unfenced_) + " blocks have no fence, for want of memory\n";
  return kSuccess;
}

bool Debugger::find_story(Address address, std::string& story) {
  BlockRecord life;
  {
    const QuietLock lock = door_.look();
    const BlockRecord* found = book_.holder(address);
    if (found == nullptr) return false;
    life = *found;
  }
  story = describe_life(life);
  return true;
}

void Debugger::end(QuietLock& lock) noexcept {
  // From here on, nobody but the log sees the findings.
  (void)empty_quarantine();
  (void)way_back_.wait_for_streams(lock, "the pool's end");
  const std::vector<Finding> found = findings_.collect();
  is_ending_ = true;
  way_back_.settle_all_pending(lock);
  (void)empty_quarantine();
  (void)way_back_.wait_for_streams(lock, "the pool's end");
  fences_.end();
  lock.unlock();
  findings_.tell(found);
  inspector_.end();
  lock.lock();
}

}  // namespace gpupool::internal
