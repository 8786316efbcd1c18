// SPDX-License-Identifier: Apache-2.0
// What both ends compute from a layout. Where its fields are, the headers assert themselves.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "wire/recording.hpp"
#include "wire/region.hpp"

namespace gpupool::wire {
namespace {

TEST(Wire, DifferencesOfEitherSignAreSmallNumbersAndComeBack) {
  EXPECT_EQ(recording::fold_sign(0), 0U);
  EXPECT_EQ(recording::fold_sign(~uint64_t{0}), 1U) << "-1";
  EXPECT_EQ(recording::fold_sign(1), 2U);
  for (unsigned bit = 0; bit < 64; ++bit) {
    const uint64_t number = uint64_t{1} << bit;
    EXPECT_EQ(recording::unfold_sign(recording::fold_sign(number)), number);
    EXPECT_EQ(recording::unfold_sign(recording::fold_sign(~number)), ~number);
  }
}

TEST(Wire, AChunksChecksumHasEachBitOfItButItself) {
  std::vector<char> chunk(256);
  const auto sum = [&](uint32_t used = 99) {
    return recording::checksum_of(chunk.data(), chunk.size(), used);
  };
  const uint32_t empty = sum();
  for (size_t at = 0; at < chunk.size(); ++at) {
    const bool counts =
        at < offsetof(recording::ChunkHeader, used) || at >= offsetof(recording::ChunkHeader, name);
    for (int bit = 0; bit < 8; ++bit) {
      chunk[at] = static_cast<char>(1 << bit);
      EXPECT_EQ(sum() != empty, counts) << "byte " << at;
    }
    chunk[at] = 0;
  }
  EXPECT_NE(sum(100), empty) << "what is used is told, before its field says so";
}

TEST(Wire, ARegionIsAsLongAsItsParts) {
  const region::Begin begin;
  EXPECT_EQ(begin.region_bytes, begin.header_bytes + uint64_t{begin.slot_bytes} * begin.slot_count);
}

}  // namespace
}  // namespace gpupool::wire
