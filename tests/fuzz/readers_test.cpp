// SPDX-License-Identifier: Apache-2.0
// The seeds of the readers' fuzzer, and pseudo-random changes to them, the same in every run.
#include <gtest/gtest.h>

#include <random>

#include "fuzz/readers.hpp"

namespace gpupool::fuzz {
namespace {

constexpr uint32_t kChanges = 3'000;

bool read(const std::string& bytes) {
  return read_file(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

/// Some bytes replaced, a part cut out or put in twice, or the end cut off. The reader stays.
std::string changed(std::string bytes, std::mt19937& random) {
  const auto below = [&](size_t end) { return static_cast<size_t>(random()) % end; };
  // Most of what there is to know lies at the beginning.
  const auto place = [&] {
    return 1 + below(random() % 2 == 0 ? std::min<size_t>(bytes.size(), 200) : bytes.size());
  };
  for (size_t count = 1 + below(6); count != 0; --count) {
    if (bytes.size() < 2) break;
    const size_t at = std::min(place(), bytes.size() - 1);
    const size_t length = std::min(1 + below(40), bytes.size() - at);
    switch (below(5)) {
      case 0: bytes.erase(at, length); break;
      case 1: bytes.insert(at, bytes.substr(at, length)); break;
      case 2: bytes.resize(at); break;
      default: bytes[at] = static_cast<char>(random()); break;
    }
  }
  return bytes;
}

TEST(Readers, TakeTheirSeeds) {
  const auto seeds = reader_seeds();
  for (size_t i = 0; i < seeds.size(); ++i) EXPECT_TRUE(read(seeds[i])) << "seed " << i;
}

TEST(Readers, RefuseWhatIsBrokenWithItsPlace) {
  const auto seeds = reader_seeds();
  std::mt19937 random(1);
  uint32_t refused = 0;
  for (uint32_t i = 0; i < kChanges; ++i) {
    const std::string bytes = changed(seeds[i % seeds.size()], random);
    try {
      if (!read(bytes)) ++refused;
    } catch (const Misread& misread) {
      FAIL() << "change " << i << " of seed " << i % seeds.size() << ": " << misread.what();
    }
  }
  EXPECT_GT(refused, kChanges / 4);
  EXPECT_LT(refused, kChanges);
}

}  // namespace
}  // namespace gpupool::fuzz
