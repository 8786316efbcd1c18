// SPDX-License-Identifier: Apache-2.0
// A set of small numbers, with fast search.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/bits.hpp"

namespace gpupool::internal {

/// A set of numbers below kBits, with a summary bit for each nonempty word: a search reads one or two words
/// and at most kBits / 4096 summary words, however sparse the set is.
template <size_t kBits>
class Bitmap {
  static_assert(kBits % 64 == 0);

 public:
  static constexpr size_t kNone = ~size_t{0};

  void set(size_t bit) noexcept {
    words_[bit / 64] |= mask(bit);
    filled_[bit / 4096] |= mask(bit / 64);
  }

  void clear(size_t bit) noexcept {
    words_[bit / 64] &= ~mask(bit);
    if (words_[bit / 64] == 0) filled_[bit / 4096] &= ~mask(bit / 64);
  }

  bool has(size_t bit) const noexcept { return (words_[bit / 64] & mask(bit)) != 0; }

  /// The least member that is at least `bit`, or kNone.
  size_t first_from(size_t bit) const noexcept {
    if (bit >= kBits) return kNone;
    const size_t word = bit / 64;
    if (const uint64_t bits = words_[word] & ~(mask(bit) - 1)) return first_of(word, bits);
    size_t top = word / 64;
    uint64_t filled = filled_[top] & ~up_to(word);
    while (filled == 0) {
      if (++top == filled_.size()) return kNone;
      filled = filled_[top];
    }
    const size_t next = first_of(top, filled);
    return first_of(next, words_[next]);
  }

  /// The greatest member that is at most `bit`, or kNone.
  size_t last_to(size_t bit) const noexcept {
    const size_t word = bit / 64;
    if (const uint64_t bits = words_[word] & up_to(bit)) return last_of(word, bits);
    size_t top = word / 64;
    uint64_t filled = filled_[top] & (mask(word) - 1);
    while (filled == 0) {
      if (top == 0) return kNone;
      filled = filled_[--top];
    }
    const size_t before = last_of(top, filled);
    return last_of(before, words_[before]);
  }

 private:
  static constexpr uint64_t mask(size_t bit) noexcept { return uint64_t{1} << (bit % 64); }
  static constexpr uint64_t up_to(size_t bit) noexcept { return mask(bit) | (mask(bit) - 1); }
  static size_t first_of(size_t word, uint64_t bits) noexcept {
    return word * 64 + static_cast<size_t>(std::countr_zero(bits));
  }
  static size_t last_of(size_t word, uint64_t bits) noexcept { return word * 64 + log2_floor(bits); }

  std::array<uint64_t, kBits / 64> words_{};
  std::array<uint64_t, (kBits + 4095) / 4096> filled_{};
};

}  // namespace gpupool::internal
