// SPDX-License-Identifier: Apache-2.0
// The page on which the pools of this process show figures to other processes: a memfd that goes with the
// process. docs/inside/stats_page.md describes the layout for readers.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/status.hpp"

namespace gpupool::internal::shown {

inline constexpr char kFileName[] = "gpupool-stats";    // of the memfd, as /proc/PID/fd shows it
inline constexpr uint64_t kMagic = 0x534c4f4f50555047;  // "GPUPOOLS" in little-endian order
inline constexpr uint32_t kLayout = 1;                  // changes when a field changes its place or meaning
inline constexpr size_t kSlots = 63;                    // pools shown at a time; others are only counted
inline constexpr size_t kTags = 8;                      // of a pool, the largest

/// One tag's live bytes, as samples estimate them.
struct Tag {
  char name[56];  // texts end with a 0
  uint64_t bytes;
};

// Bits of Figures::flags.
inline constexpr uint32_t kIsChild = 1;
inline constexpr uint32_t kIsAsleep = 2;   // or partly so
inline constexpr uint32_t kRunsAlone = 4;  // although it should share

/// What a pool shows. New fields take the place of reserved ones, which are 0.
struct Figures {
  uint64_t pool;     // its number, from 1
  uint32_t backend;  // gpupool_backend_t
  int32_t device;    // its number in this process
  uint32_t flags;
  uint32_t tag_count;
  uint64_t shown_ns;   // CLOCK_MONOTONIC, when these figures were written
  char device_id[64];  // such as a GPU's UUID
  char name[64];
  char group[56];  // of processes that share; "": none
  // Bytes, except for counts; gpupool_stats_t has most of these fields under the same names.
  uint64_t device_total;
  uint64_t limit;  // 0: none
  uint64_t live;
  uint64_t live_blocks;
  uint64_t live_peak;
  uint64_t pending;
  uint64_t pending_blocks;
  uint64_t cached;
  uint64_t slack;
  uint64_t reserved;
  uint64_t reserved_peak;
  uint64_t asleep;
  uint64_t backup;
  uint64_t free_ranges;         // that memory backs
  uint64_t largest_free_range;  // of those
  uint64_t hits;
  uint64_t misses;
  uint64_t steals;
  uint64_t stream_steals;
  uint64_t retries;
  uint64_t failed_mallocs;
  uint64_t driver_calls;
  uint64_t driver_ns;
  uint64_t streams;
  uint64_t group_limit;
  uint64_t group_used;
  uint64_t given;  // to the group, and
  uint64_t taken;  // from it, ever
  uint64_t reserved_words[8];
  std::array<Tag, kTags> tags;
};

inline constexpr size_t kFigureWords = sizeof(Figures) / sizeof(uint64_t);

enum class SlotState : uint32_t { free = 0, pool = 1 };

/// One thread writes it at a time. Meanwhile the sequence is odd, so a reader knows to read again; no reader
/// can delay the writer.
struct Slot {
  std::atomic<uint32_t> sequence;
  std::atomic<SlotState> state;
  std::array<std::atomic<uint64_t>, kFigureWords> words;
};

struct Header {
  std::atomic<uint64_t> magic;  // written last
  uint32_t layout;
  uint32_t header_bytes;
  uint32_t slot_bytes;
  uint32_t slots;
  uint64_t process;                  // as its own namespace numbers it
  std::atomic<uint32_t> slots_used;  // the slots behind were never used
  std::atomic<uint32_t> not_shown;   // live pools that found no slot
  char version[32];                  // of the library
  uint64_t reserved_words[119];
};

struct Page {
  Header header;
  std::array<Slot, kSlots> slots;
};

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);
static_assert(sizeof(Header) == 1024 && sizeof(Slot) == 1024 && sizeof(Page) == 65536);
static_assert(offsetof(Header, layout) == 8 && offsetof(Header, process) == 24 &&
              offsetof(Header, slots_used) == 32 && offsetof(Header, not_shown) == 36 &&
              offsetof(Header, version) == 40);
static_assert(offsetof(Slot, state) == 4 && offsetof(Slot, words) == 8);
static_assert(offsetof(Figures, backend) == 8 && offsetof(Figures, device) == 12 &&
              offsetof(Figures, flags) == 16 && offsetof(Figures, tag_count) == 20 &&
              offsetof(Figures, shown_ns) == 24 && offsetof(Figures, device_id) == 32 &&
              offsetof(Figures, name) == 96 && offsetof(Figures, group) == 160 &&
              offsetof(Figures, device_total) == 216 && offsetof(Figures, live) == 232 &&
              offsetof(Figures, pending) == 256 && offsetof(Figures, cached) == 272 &&
              offsetof(Figures, reserved) == 288 && offsetof(Figures, asleep) == 304 &&
              offsetof(Figures, free_ranges) == 320 && offsetof(Figures, hits) == 336 &&
              offsetof(Figures, retries) == 368 && offsetof(Figures, driver_calls) == 384 &&
              offsetof(Figures, streams) == 400 && offsetof(Figures, group_limit) == 408 &&
              offsetof(Figures, taken) == 432 && offsetof(Figures, tags) == 504 && sizeof(Figures) == 1016);

/// Copies as much of a text as there is room for, and adds a 0.
template <size_t Size>
void set_text(char (&field)[Size], std::string_view text) noexcept {
  const size_t length = text.copy(field, Size - 1);
  field[length] = '\0';
}

/// Replaces what a slot shows. One thread at a time.
void write(Slot& slot, SlotState state, const Figures& figures) noexcept;

/// Reads GPUPOOL_STATS: 1, the default, or 0, for no page.
Status read_switch();

// The page of this process. It is made for the first pool, and stays until the process ends. The registry's
// lock guards all of this.

/// Opens a slot for a pool; null if nothing is shown: not wanted, refused by the system, or too many pools.
Slot* open_slot() noexcept;
/// The pool has ended. Null: it was not shown.
void close_slot(Slot* slot) noexcept;
/// In a child after fork: the page is its parent's.
void forget_page() noexcept;

}  // namespace gpupool::internal::shown
