// SPDX-License-Identifier: Apache-2.0
// Sizes of what is timed: for `gpupool bench`, and for the comparison with other allocators.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace gpupool::cli {

/// Those of a program with a few: from 512 bytes to 1 MiB, each about three times the one before.
inline constexpr std::array<uint64_t, 8> kMixedSizes = {512,   1536,   4096,   12288,
                                                        36864, 110592, 331776, uint64_t{1} << 20};

/// Takes them in turn. Two that count alike name the same sizes.
class SizesInTurn {
 public:
  uint64_t next() noexcept { return kMixedSizes[turn_++ % kMixedSizes.size()]; }

 private:
  size_t turn_ = 0;
};

/// A row of one small size is a floor, since programs have many. Of large ones they have few.
constexpr bool is_floor(uint64_t size, uint64_t sizes) noexcept {
  return sizes == 1 && size != 0 && size < uint64_t{1} << 20;
}

}  // namespace gpupool::cli
