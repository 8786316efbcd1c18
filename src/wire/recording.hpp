// SPDX-License-Identifier: Apache-2.0
// The file of a recording: a header, and chunks of events, each chunk of one thread. docs/watch.md has the
// format, and what follows each event.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace gpupool::wire::recording {

inline constexpr std::string_view kMagic("GPUPOOL\1", 8);
inline constexpr std::string_view kChunkBegin = "GPCH";
inline constexpr uint32_t kChunkMagic = 0x48435047;  // the same
inline constexpr uint32_t kVersion = 1;
inline constexpr uint32_t kHeaderBytes = 4096;             // as the library writes it, with zeroes behind
inline constexpr uint64_t kMostBytes = uint64_t{4} << 30;  // of a file, packed or not
inline constexpr uint64_t kAddressUnit = 512;              // of which addresses are multiples

// Flags.
inline constexpr uint32_t kEnded = 1;   // nothing was cut off
inline constexpr uint32_t kPacked = 2;  // each chunk is as long as it says
inline constexpr uint32_t kCopy = 4;    // of the header, at the end
inline constexpr uint32_t kCut = 8;     // damaged parts were left out

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t header_bytes;
  uint32_t chunk_bytes;
  uint32_t flags;
  uint32_t pid;
  uint32_t tick_shift;  // times are ticks shifted to the right by this
  uint64_t ticks_per_second;
  uint64_t start_ticks;
  uint64_t start_monotonic_ns;
  uint64_t start_realtime_ns;
  uint64_t end_ticks;
  uint64_t chunks;  // begun by threads
  uint64_t lost;    // events for which the disk had no room
  char library[32];
  char command[1024];  // arguments, each followed by a zero
  // How the process ended, and a number; whoever packs the file writes it.
  uint32_t end;
  uint32_t end_number;
};
/// A header may be so short.
inline constexpr size_t kLeastHeader = offsetof(Header, end);

struct ChunkHeader {
  uint32_t magic;
  uint32_t thread;  // the system's number of it
  uint64_t first_ticks;
  uint32_t used;      // bytes after this header; 0: up to a zero
  uint32_t checksum;  // of a chunk of which `used` is known
  char name[16];      // of the thread
};

static_assert(offsetof(Header, flags) == 20 && offsetof(Header, ticks_per_second) == 32 &&
              offsetof(Header, end_ticks) == 64 && offsetof(Header, lost) == 80 && kLeastHeader == 1144 &&
              sizeof(Header) == 1152);
static_assert(offsetof(ChunkHeader, used) == 16 && sizeof(ChunkHeader) == 40);

enum class EventKind : uint8_t {
  end = 0,
  malloc = 1,
  free = 2,
  use = 3,     // another stream uses a block
  failed = 4,  // a malloc has failed
  map = 5,     // a chunk backs addresses of a stream
  unmap = 6,
  mark = 7,
  have = 8,  // a block that was live when the recording began
  // These name things.
  tag_name = 9,
  stack_text = 10,
  pool_name = 11,
};

// An event's first byte has its kind, and what it leaves out since the last event of its chunk had the same.
inline constexpr uint8_t kKindBits = 0x0f;
inline constexpr uint8_t kSameStream = 0x10;
inline constexpr uint8_t kSameTag = 0x20;
inline constexpr uint8_t kHasStack = 0x40;
inline constexpr uint8_t kSamePool = 0x80;

constexpr bool has_bytes(EventKind kind) {
  return kind != EventKind::free && kind != EventKind::use;
}

/// Differences of either sign as small numbers.
constexpr uint64_t fold_sign(uint64_t difference) {
  return difference << 1 ^ (~(difference >> 63) + 1);
}
constexpr uint64_t unfold_sign(uint64_t number) {
  return number >> 1 ^ (~(number & 1) + 1);
}

/// Of a chunk that its thread has filled, whatever its header says of `used` and the checksum.
inline uint32_t checksum_of(const void* chunk, size_t bytes, uint32_t used) noexcept {
  const auto word_at = [&](size_t at) {
    uint64_t word = 0;
    std::memcpy(&word, static_cast<const char*>(chunk) + at, sizeof word);
    return word;
  };
  constexpr size_t kUsedAt = offsetof(ChunkHeader, used);
  uint64_t sum = (used - word_at(kUsedAt)) * (kUsedAt + 1);
  for (size_t at = 0; at + sizeof sum <= bytes; at += sizeof sum)
    sum += word_at(at) * (at + 1);  // odd: each bit counts
  return static_cast<uint32_t>(sum ^ sum >> 32);
}

}  // namespace gpupool::wire::recording
