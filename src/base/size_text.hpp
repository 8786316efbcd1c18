// SPDX-License-Identifier: Apache-2.0
// A size as messages write it.
#pragma once

#include <cstdint>
#include <cstdio>
#include <iterator>
#include <string>

namespace gpupool::internal {

/// "1.50 GiB"
inline std::string size_text(uint64_t bytes) {
  static constexpr const char* kNames[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kNames); ++unit) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.2f %s", value, kNames[unit]);
  return text;
}

}  // namespace gpupool::internal
