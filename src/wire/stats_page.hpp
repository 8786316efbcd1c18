// SPDX-License-Identifier: Apache-2.0
// The page on which a process shows figures of its pools. docs/inside/stats_page.md describes it for readers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace gpupool::wire::stats {

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

/// In bytes, except for counts; gpupool_stats_t has most of these fields under the same names.
struct Counts {
  uint64_t device_total = 0;
  uint64_t limit = 0;  // 0: none
  uint64_t live = 0;
  uint64_t live_blocks = 0;
  uint64_t live_peak = 0;
  uint64_t pending = 0;
  uint64_t pending_blocks = 0;
  uint64_t cached = 0;
  uint64_t slack = 0;
  uint64_t reserved = 0;
  uint64_t reserved_peak = 0;
  uint64_t asleep = 0;
  uint64_t backup = 0;
  uint64_t free_ranges = 0;         // that memory backs
  uint64_t largest_free_range = 0;  // of those
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t steals = 0;
  uint64_t stream_steals = 0;
  uint64_t retries = 0;
  uint64_t failed_mallocs = 0;
  uint64_t driver_calls = 0;
  uint64_t driver_ns = 0;
  uint64_t streams = 0;
  uint64_t group_limit = 0;
  uint64_t group_used = 0;
  uint64_t given = 0;  // to the group, and
  uint64_t taken = 0;  // from it, ever
};

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
  Counts counts;
  uint64_t reserved_words[8];
  std::array<Tag, kTags> tags;
};

inline constexpr size_t kFigureWords = sizeof(Figures) / sizeof(uint64_t);

enum class SlotState : uint32_t { free = 0, pool = 1 };

/// One thread writes it at a time. Meanwhile the sequence is odd, so a reader knows to read again; no reader
/// can delay the writer.
struct Slot {
  uint32_t sequence;
  SlotState state;
  std::array<uint64_t, kFigureWords> words;  // of the Figures
};

struct Header {
  uint64_t magic;  // written last
  uint32_t layout;
  uint32_t header_bytes;
  uint32_t slot_bytes;
  uint32_t slots;
  uint64_t process;     // as its own namespace numbers it
  uint32_t slots_used;  // the slots behind were never used
  uint32_t not_shown;   // live pools that found no slot
  char version[32];     // of the library
  uint64_t reserved_words[119];
};

struct Page {
  Header header;
  std::array<Slot, kSlots> slots;
};

static_assert(sizeof(Header) == 1024 && sizeof(Slot) == 1024 && sizeof(Page) == 65536);
static_assert(offsetof(Header, layout) == 8 && offsetof(Header, process) == 24 &&
              offsetof(Header, slots_used) == 32 && offsetof(Header, not_shown) == 36 &&
              offsetof(Header, version) == 40);
static_assert(offsetof(Slot, state) == 4 && offsetof(Slot, words) == 8);
static_assert(offsetof(Figures, backend) == 8 && offsetof(Figures, device) == 12 &&
              offsetof(Figures, flags) == 16 && offsetof(Figures, tag_count) == 20 &&
              offsetof(Figures, shown_ns) == 24 && offsetof(Figures, device_id) == 32 &&
              offsetof(Figures, name) == 96 && offsetof(Figures, group) == 160 &&
              offsetof(Figures, counts) == 216 && offsetof(Figures, tags) == 504 && sizeof(Figures) == 1016);
static_assert(offsetof(Counts, live) == 16 && offsetof(Counts, pending) == 40 &&
              offsetof(Counts, cached) == 56 && offsetof(Counts, reserved) == 72 &&
              offsetof(Counts, asleep) == 88 && offsetof(Counts, free_ranges) == 104 &&
              offsetof(Counts, hits) == 120 && offsetof(Counts, retries) == 152 &&
              offsetof(Counts, driver_calls) == 168 && offsetof(Counts, streams) == 184 &&
              offsetof(Counts, group_limit) == 192 && offsetof(Counts, taken) == 216 &&
              sizeof(Counts) == 224);

}  // namespace gpupool::wire::stats
