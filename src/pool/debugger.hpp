// SPDX-License-Identifier: Apache-2.0
// The pool's debug modes: see docs/debugging.md.
//
// If all blocks must be seen, threads' caches keep no lanes, so every malloc and free takes the long way and
// comes here. A pool without debug modes has no debugger, and its short way has not one instruction more.
// Guards alone leave the caches as they are: they replace a few of the blocks that are sampled anyway.
#pragma once

#include <cstdint>
#include <string>

#include "pool/book.hpp"
#include "pool/debug_modes.hpp"
#include "pool/fences.hpp"
#include "pool/findings.hpp"
#include "pool/inspector.hpp"
#include "pool/quarantine.hpp"
#include "pool/quiet_lock.hpp"
#include "pool/sighting.hpp"

namespace gpupool::internal {

class Backing;
class Door;
class Pool;
class Sampler;
class Sleeper;
class SlowPath;
class Watcher;
class WayBack;
struct Range;
struct Rooms;
struct StreamState;

/// The rooms of a pool that its debug modes work with.
struct DebuggedRooms {
  const Rooms& rooms;
  Door& door;
  Backing& backing;
  SlowPath& slow_path;
  WayBack& way_back;
  Sleeper& sleeper;
  Watcher& watcher;
  const Sampler& sampler;
};

/// Guarded by the pool's lock, except what says otherwise.
class Debugger {
 public:
  /// From the pool itself it only asks what anybody may.
  Debugger(Pool& pool, const DebuggedRooms& debugged, const DebugModes& modes);
  Debugger(const Debugger&) = delete;
  Debugger& operator=(const Debugger&) = delete;

  const DebugModes& modes() const noexcept { return modes_; }
  bool has_fences() const noexcept { return modes_.fence || modes_.guard; }

  // ---- with no lock held

  /// Allocates what the modes need. UNSUPPORTED if the device lacks something that they need.
  Status begin();
  Status malloc(uint64_t size, uint64_t alignment, Stream stream, Address& address);
  Status free(Address address, Stream stream);
  /// May put a guard in place of a block that has just been handed out and is sampled.
  void guard(const Sighting& seen, uint64_t alignment, Address& address);
  /// Looks at all live blocks, and waits for that. Gives the number of findings so far, and the last of them
  /// in words. Throws std::bad_alloc.
  Status check(uint64_t& count, std::string& text);
  /// What the book says of an address; false if it knows nothing.
  bool find_story(Address address, std::string& story);

  // ---- with the pool's lock

  /// Handles a freed block that only its own stream still uses, in place of WayBack::free_to_heap.
  void settle(Range& block) noexcept;
  /// Lets all blocks in quarantine be reused, and unmaps the fences that streams have passed. False: there
  /// were none.
  bool empty_quarantine() noexcept;
  /// The same for those that wait only until there are enough for a look.
  bool release_waiting() noexcept;
  /// Memory has come back from sleep without the bytes that were in it, canaries among them.
  void renew_canaries(Address start, uint64_t size) noexcept;
  /// A stream is about to be released: nothing can be queued on it any more.
  void look_at_freed(Stream stream) noexcept { quarantine_.look_at(stream); }
  /// Call it at the pool's end. Gives the lock up meanwhile.
  void end(QuietLock& lock) noexcept;

  const AddressBook& book() const noexcept { return book_; }

 private:
  /// Bytes behind each block, for a canary or as closed memory.
  static constexpr uint64_t kApart = 512;
  static constexpr size_t kMostGuards = 64;

  bool wants_fence(uint64_t size) const noexcept;
  bool is_of_graph(const BlockRecord& life) const noexcept;
  Status allocate(uint64_t size, uint64_t alignment, Stream stream, Address& address, Sighting& seen);
  Status allocate_fenced(uint64_t size, uint64_t alignment, Stream stream, Address& address, Sighting& seen);
  void begin_life(Address address, uint64_t size, StackId stack) noexcept;
  void wait_for_work();
  void close_block(const BlockRecord& life, bool is_captured) noexcept;
  void allow_reuse(Range& block) noexcept;
  bool may_guard() noexcept;
  bool look_at_lives(Address& from) noexcept;

  Pool& pool_;
  const Rooms& rooms_;
  Door& door_;
  SlowPath& slow_path_;
  WayBack& way_back_;
  Sleeper& sleeper_;
  Watcher& watcher_;
  const Sampler& sampler_;
  const DebugModes modes_;
  AddressBook book_;
  Inspector inspector_;
  Findings findings_;
  Quarantine quarantine_;
  Fences fences_;
  uint64_t number_ = 0;
  uint64_t unfenced_ = 0;  // blocks without a fence, for want of memory
  uint64_t guard_ns_ = 0;  // time that guards took
  bool is_ending_ = false;
};

}  // namespace gpupool::internal
