// SPDX-License-Identifier: Apache-2.0
// A GPU's name that is the same in every process.
#pragma once

#include <array>
#include <cstddef>
#include <cstdio>

namespace gpupool::internal {

/// A UUID of the driver's in nvidia-smi's format, as "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f".
inline std::array<char, 41> gpu_id(const char (&uuid)[16]) noexcept {
  std::array<char, 41> text{'G', 'P', 'U'};
  size_t at = 3;
  for (size_t i = 0; i < sizeof uuid; ++i) {
    const char* const dash = i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
    const unsigned byte = static_cast<unsigned char>(uuid[i]);
    at += static_cast<size_t>(std::snprintf(text.data() + at, text.size() - at, "%s%02x", dash, byte));
  }
  return text;
}

}  // namespace gpupool::internal
