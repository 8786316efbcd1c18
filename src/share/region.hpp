// SPDX-License-Identifier: Apache-2.0
// The region of a group: a file that its members map, one for each group and GPU.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.hpp"
#include "share/word.hpp"
#include "wire/region.hpp"

namespace gpupool::internal::share {

using wire::region::kRegionBytes;
using wire::region::kSlots;

using Number = std::atomic<uint64_t>;
using Bell = std::atomic<uint32_t>;  // the word that a futex waits on
static_assert(Bell::is_always_lock_free && sizeof(Bell) == 4);

// Fields have fixed widths, in the machine's byte order, and no pointers: 32-bit and 64-bit programs, with
// any compiler and C library, see the same. Data from the region only guides decisions: it is never used as
// an address, and as an index or bound only once checked.

struct Header {
  wire::region::Begin begin;
  // ---- changes seldom
  alignas(64) Number limit;  // units, as all amounts here unless marked as bytes
  Number foreign;            // bytes of the device that no member had at the last quiet moment
  // ---- changes with every growth
  alignas(64) Word used;
  // ---- changes when memory is short
  alignas(64) Bell freed;  // rings when memory is refunded and a member waits
  std::atomic<uint32_t> reserved1;
  Number tickets;                           // the last one given out
  std::array<Number, kSlots / 64> waiting;  // a bit for each waiting slot
};

/// A place in the group. Belongs to the holder of its byte's lock.
struct alignas(64) Slot {
  Account account;
  // ---- the owner writes, others read
  Number reserved;  // bytes; hints, as are the next ones
  Number live;
  Number guaranteed;
  Number given;     // total bytes given back because a neighbour asked
  Number taken;     // total bytes obtained by asking neighbours
  Number ticket;    // while it waits: its place in the queue,
  Number want;      // bytes that it waits for,
  Number deadline;  // and until when, in ns of the monotonic clock
  Number pid;       // as its own namespace sees it; 0: the place is free
  Number uid;
  std::array<Number, 4> name;      // of the program; 32 bytes
  Number active_at;                // when it last took memory, in ns of the monotonic clock; 0: never
  std::atomic<uint32_t> sleepers;  // its pools that may be put to sleep
  // ---- others write, the owner reads
  Number limit;                          // bytes; 0: only the group's
  Number wanted_guarantee;               // bytes + 1; 0: no change requested
  Number asked;                          // bytes to give back
  Number asked_until;                    // when the asker will stop waiting
  std::atomic<uint32_t> asked_by_rich;   // 1: the asker holds more than an equal share
  std::atomic<uint32_t> asked_to_sleep;  // 1: if what is cached is not enough
  std::atomic<int32_t> asked_priority;
  std::atomic<int32_t> priority;
  Bell bell;      // rings when a request arrives
  Bell answered;  // the last ring that was answered
  // ---- written by the member that found the owner dead
  Number dead_since;  // ns of the monotonic clock; 0: alive, or nothing left of it
};

struct Layout {
  union {
    Header header;
    unsigned char page[wire::region::kHeaderBytes];
  };
  std::array<Slot, kSlots> slots;
};
static_assert(sizeof(Slot) == wire::region::kSlotBytes && sizeof(Layout) == kRegionBytes);

inline Account& account_of(Layout& layout, uint32_t slot) noexcept {
  return layout.slots[slot % kSlots].account;
}

/// Identifies the region, and holds its initial values if it must be created.
struct Place {
  std::string folder;  // empty: /dev/shm/gpupool-UID, created if missing
  std::string socket;  // not empty: of a broker, which has the region instead
  std::string group;
  std::string device;  // such as a GPU's UUID
  uint64_t device_bytes = 0;
  uint64_t limit = 0;  // bytes; 0: what the device has

  std::string path() const;
};

/// Whether this is a valid group name: 1 to 48 letters, digits, '-', '_' and '.', no '.' first.
/// INVALID_ARGUMENT, and `what` is what the message calls it.
Status check_group(const char* what, const char* name);

/// A descriptor, closed at the end.
class File {
 public:
  File() = default;
  explicit File(int descriptor) noexcept : descriptor_(descriptor) {}
  File(File&& other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = -1; }
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  int get() const noexcept { return descriptor_; }
  explicit operator bool() const noexcept { return descriptor_ >= 0; }

 private:
  int descriptor_ = -1;
};

/// Opens the region of a folder, after checking the folder, the file and its header; creates it if there is
/// none and `makes` is set. UNAVAILABLE, with the reason: no such region, or one that must not be used.
Status open_region(const Place& place, bool makes, File& file);

/// Maps a region from open_region. A child after fork does not have the mapping.
Status map_region(const File& file, Layout*& layout);
void unmap_region(Layout* layout) noexcept;

// Each slot's lock is on one byte of the file and belongs to the open file description: it goes with the last
// descriptor and mapping.

/// Takes a slot's place; false: another process holds it, or the system has no such locks.
bool lock_slot(const File& file, uint32_t slot) noexcept;
void unlock_slot(const File& file, uint32_t slot) noexcept;
/// Whether another open file description holds it.
bool is_locked(const File& file, uint32_t slot) noexcept;

// System services: time, and waiting for another process.

uint64_t now_ns() noexcept;
/// Waits until the word rings, or the time is up. No limit: ~0. May end early.
void wait_for(Bell& bell, uint32_t seen, uint64_t nanoseconds) noexcept;
void ring(Bell& bell) noexcept;

}  // namespace gpupool::internal::share
