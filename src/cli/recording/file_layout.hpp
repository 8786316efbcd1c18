// SPDX-License-Identifier: Apache-2.0
// Where things are in the file of a recording: docs/watch.md has the format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace gpupool::cli {

inline constexpr std::string_view kMagic("GPUPOOL\1", 8);
inline constexpr uint32_t kVersion = 1;
inline constexpr size_t kHeaderLeast = 1144;
inline constexpr size_t kHeaderWithEnd = 1152;
inline constexpr std::string_view kChunkBegin = "GPCH";
inline constexpr size_t kChunkHeader = 40;

// Flags.
inline constexpr uint32_t kFlagEnded = 1;
inline constexpr uint32_t kFlagPacked = 2;
inline constexpr uint32_t kFlagCopy = 4;  // of the header, at the end
inline constexpr uint32_t kFlagCut = 8;   // damaged parts were left out

// Where the fields of the file's header are.
enum Offset : size_t {
  kAtVersion = 8,
  kAtHeaderBytes = 12,
  kAtChunkBytes = 16,
  kAtFlags = 20,
  kAtPid = 24,
  kAtShift = 28,
  kAtRate = 32,
  kAtStartTicks = 40,
  kAtRealtime = 56,
  kAtEndTicks = 64,
  kAtChunks = 72,
  kAtLost = 80,
  kAtLibrary = 88,
  kAtCommand = 120,
  kAtEnd = 1144,  // how the process ended, and a number
};
inline constexpr size_t kLibraryRoom = 32;
inline constexpr size_t kCommandRoom = 1024;

// And where those of a chunk's header are.
enum ChunkOffset : size_t { kAtThread = 4, kAtFirst = 8, kAtUsed = 16, kAtChecksum = 20, kAtName = 24 };
inline constexpr size_t kNameRoom = 16;

// Kinds that name things, and are not events.
enum NameKind : uint8_t { kTagName = 9, kStackText = 10, kPoolName = 11 };

/// The number at this place, which must be within.
template <typename Number>
Number number_in(std::string_view bytes, size_t at) {
  Number number{};
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}
/// Of a chunk that its thread has filled, as the library makes it.
inline uint32_t checksum_of(std::string_view chunk) {
  uint64_t sum = 0;
  for (size_t at = 0; at + sizeof sum <= chunk.size(); at += sizeof sum) {
    // The checksum itself counts for nothing.
    sum += (at == kAtUsed ? number_in<uint32_t>(chunk, at) : number_in<uint64_t>(chunk, at)) * (at + 1);
  }
  return static_cast<uint32_t>(sum ^ sum >> 32);
}
template <typename Number>
void put_number(std::string& bytes, size_t at, Number number) {
  std::memcpy(bytes.data() + at, &number, sizeof number);
}

}  // namespace gpupool::cli
