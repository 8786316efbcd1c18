// SPDX-License-Identifier: Apache-2.0
#include "support/pattern.hpp"

#include <algorithm>

namespace test_support {
namespace {

constexpr uint64_t kStep = 0x9E3779B97F4A7C15U;

}  // namespace

void write_pattern(gpupool_ptr_t block, uint64_t size, uint64_t seed) {
  auto* words = reinterpret_cast<uint64_t*>(block);
  for (uint64_t i = 0; i < size / 8; ++i) words[i] = seed * kStep + i;
}

bool has_pattern(gpupool_ptr_t block, uint64_t size, uint64_t seed) {
  const auto* words = reinterpret_cast<const uint64_t*>(block);
  for (uint64_t i = 0; i < size / 8; ++i) {
    if (words[i] != seed * kStep + i) return false;
  }
  return true;
}

bool is_filled(gpupool_ptr_t block, uint64_t size, unsigned char value) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(block);
  return std::all_of(bytes, bytes + size, [value](unsigned char byte) { return byte == value; });
}

}  // namespace test_support
