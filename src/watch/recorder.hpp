// SPDX-License-Identifier: Apache-2.0
// Writes what happens in the pools of this process to a journal, 5 to 15 bytes per event.
//
// Each thread writes to its own chunk, without a lock. An event's time, and which recording it is for, are
// read under the lock of the cache or pool concerned, so the events of one address are in order; except for
// rare ones, the event itself is written after the lock is released. If its recording has ended by then, it
// goes into no file: the next one begins with what is live, and so has the event's outcome.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "os/mutex.hpp"
#include "watch/clock.hpp"
#include "watch/ring.hpp"
#include "watch/stack.hpp"
#include "watch/tags.hpp"
#include "wire/recording.hpp"

namespace gpupool::internal {

using wire::recording::EventKind;

struct Entry {
  EventKind kind;
  uint32_t recording;  // the generation that it is for
  uint64_t time;       // in ticks
  uint64_t pool;
  uint64_t stream;
  uint64_t address;
  uint64_t bytes;
  TagId tag = 0;
  StackId stack = 0;
};

class Recorder {
 public:
  /// Odd during a recording; each recording has another number.
  static uint32_t generation() noexcept { return generation_.load(std::memory_order_acquire); }
  static bool is_on() noexcept { return (generation() & 1) != 0; }
  static uint64_t now() noexcept { return ticks(by_processor_.load(std::memory_order_relaxed)); }
  /// Which stacks the recording wants.
  static StackKinds stacks() noexcept { return stacks_.load(std::memory_order_relaxed); }

  /// Held while a recording starts or stops, until the last pool knows: a pool takes marks on its blocks for
  /// those of the recording under way. Comes before the registry's lock.
  static std::unique_lock<os::Mutex> begin_change() noexcept;
  /// As begin_change, and has no lock where another change is under way.
  static std::unique_lock<os::Mutex> try_change() noexcept;

  // Within a change.

  /// Before the first file of a recording. `turn` has a ring's file make way for the next one; it is called
  /// with no lock held.
  using TakeTurn = void (*)() noexcept;
  static void prepare(StackKinds stacks, TakeTurn turn) noexcept;
  /// None may be under way.
  static Status start(Plan plan);
  /// From here on, events count for when a ring's file is full: what was live does not.
  static void begin_count() noexcept;
  /// No later event is for the recording under way. Until its file is closed, those seen before still come,
  /// but for one that a thread has seen and, being interrupted, not written.
  static void end() noexcept;
  // After end(), one of these.
  static void close() noexcept;
  /// The file goes.
  static void discard() noexcept;
  /// Of a ring: the file is put aside, and `plan` is for the next one.
  static Status close_part(Plan& plan) noexcept;
  /// Whether a ring's file is to make way. If not, turn_if_due() does nothing until it may be.
  static bool is_part_due() noexcept;

  // For a ring.

  /// Call it with no lock held. Takes a turn if it is worth asking is_part_due() at this time. One relaxed
  /// load where it is not.
  static void turn_if_due(uint64_t time) noexcept {
    if (time >= due_.load(std::memory_order_relaxed)) [[unlikely]]
      take_turn();
  }
  /// A malloc has failed: a ring keeps what it has. Within a change, in which the failure was written.
  static void keep_failure() noexcept;
  /// The next turn_if_due() asks.
  static void ask_again() noexcept { due_.store(0, std::memory_order_relaxed); }

  static void write(const Entry& event) noexcept;
  /// As write(); also writes the names of the tag and the stack if the file does not have them yet, or had no
  /// room for them. Call it with no lock held.
  static void write_named(const Entry& event) noexcept {
    if ((event.tag | event.stack) != 0) write_names(event);
    write(event);
  }
  static void write_names(const Entry& event) noexcept;
  /// Waits while a ring's file makes way: what is rare and tells all that the program wants known must not
  /// fall between two files. Call it with no lock held.
  static void mark(const char* text) noexcept;
  /// False: the file has no room for it now.
  static bool name_pool(uint32_t generation, uint64_t pool, const char* text) noexcept;

  // Around fork. A child is not recorded until it starts a recording of its own. No recording starts or stops
  // meanwhile, so the child knows of each descriptor.
  static void lock_changes() noexcept;
  static void unlock_changes() noexcept;
  static void lock() noexcept;
  static void unlock() noexcept;
  static void forget() noexcept;

 private:
  [[gnu::cold]] static void take_turn() noexcept;

  static std::atomic<uint32_t> generation_;
  static std::atomic<bool> by_processor_;
  static std::atomic<StackKinds> stacks_;
  static std::atomic<uint64_t> due_;  // in ticks
  static std::atomic<TakeTurn> turn_;
};

}  // namespace gpupool::internal
