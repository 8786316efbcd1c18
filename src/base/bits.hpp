// SPDX-License-Identifier: Apache-2.0
// Arithmetic on sizes and addresses.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace gpupool::internal {

inline constexpr uint64_t kKiB = uint64_t{1} << 10;
inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr uint64_t kGiB = uint64_t{1} << 30;
inline constexpr uint64_t kTiB = uint64_t{1} << 40;

constexpr bool is_power_of_two(uint64_t value) noexcept {
  return std::has_single_bit(value);
}

/// alignment is a power of two.
constexpr uint64_t align_down(uint64_t value, uint64_t alignment) noexcept {
  return value & ~(alignment - 1);
}

/// alignment is a power of two; value + alignment must not overflow.
constexpr uint64_t align_up(uint64_t value, uint64_t alignment) noexcept {
  return align_down(value + alignment - 1, alignment);
}

/// value > 0.
constexpr unsigned log2_floor(uint64_t value) noexcept {
  return 63U - static_cast<unsigned>(std::countl_zero(value));
}

/// The largest power of two that is at most value; value > 0.
constexpr uint64_t floor_power_of_two(uint64_t value) noexcept {
  return std::bit_floor(value);
}

/// Spreads a number over [0, 2^bits): Fibonacci hashing, one multiplication.
constexpr size_t hash_to(unsigned bits, uint64_t number) noexcept {
  return static_cast<size_t>(number * 0x9E3779B97F4A7C15U >> (64 - bits));
}

}  // namespace gpupool::internal
