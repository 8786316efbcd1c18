// SPDX-License-Identifier: Apache-2.0
// What a pool in a debug mode has its device look at, and how the device answers.
//
// The GPU reads this layout too: device/cuda/inspection_kernel.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace gpupool::internal {

/// Memory that must hold a word of 32 bits, over and over: the byte at an address is the word's byte
/// `address % 4`.
struct Look {
  /// The most bytes of one look.
  static constexpr uint32_t kRoom = 1024;

  uint64_t address = 0;
  uint32_t size = 0;
  uint32_t word = 0;
  uint64_t block = 0;  // whose memory it is, by its number
};

/// The most looks of one call.
inline constexpr size_t kLooksAtOnce = 32;

/// A look that found something else.
struct Damage {
  uint32_t is_complete;  // written last
  uint32_t unused;
  Look look;
  std::array<uint8_t, Look::kRoom> bytes;  // what is there instead
};

/// In pinned memory, zero at first. The device only adds to it.
struct DamageReport {
  static constexpr size_t kRoom = 1024;

  uint32_t count;  // of all damages, also of those that have no place here
  uint32_t unused[15];
  std::array<Damage, kRoom> damages;
};

static_assert(sizeof(Look) == 24 && sizeof(Damage) == 1056 && offsetof(Damage, bytes) == 32);
static_assert(offsetof(DamageReport, damages) == 64);

/// The byte of a word that belongs at an address.
constexpr uint8_t byte_at(uint64_t address, uint32_t word) noexcept {
  return static_cast<uint8_t>(word >> 8 * (address % sizeof word));
}

/// Does a look, where the device's memory can be read: `bytes` is what is at its address.
inline void do_look(const Look& look, const uint8_t* bytes, DamageReport& report) noexcept {
  uint32_t right = 0;
  while (right < look.size && bytes[right] == byte_at(look.address + right, look.word)) ++right;
  if (right == look.size) return;
  const uint32_t place = report.count++;
  if (place >= DamageReport::kRoom) return;
  Damage& damage = report.damages[place];
  damage.look = look;
  std::copy_n(bytes, look.size, damage.bytes.begin());
  damage.is_complete = 1;
}

}  // namespace gpupool::internal
