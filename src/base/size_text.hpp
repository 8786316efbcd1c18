// SPDX-License-Identifier: Apache-2.0
// A size as messages write it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <string>

namespace gpupool::internal {

/// "1.50 GiB". Of an estimate that may be off by `error` bytes it writes no digit that says less: "1.5 GiB".
inline std::string size_text(uint64_t bytes, double error = 0) {
  static constexpr const char* kNames[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  error = std::min(error, value);  // one digit always remains
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kNames); ++unit) {
    value /= 1024;
    error /= 1024;
  }
  double step = unit == 0 ? 1 : 0.01;
  if (error > step) step = std::pow(10, std::floor(std::log10(error)));
  const int digits = step < 0.1 ? 2 : step < 1 ? 1 : 0;
  if (step > 1) value = std::round(value / step) * step;
  char text[32];
  std::snprintf(text, sizeof text, "%.*f %s", digits, value, kNames[unit]);
  return text;
}

}  // namespace gpupool::internal
