// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/recording/recording.hpp"

namespace gpupool::cli {

/// "function (file:line)" in its parts; line 0 if there is none. A native frame has its module as the file.
struct Frame {
  std::string function;
  std::string file;
  uint64_t line = 0;
};

Frame split_frame(const std::string& text);

/// The lines of a stack, innermost first; "(no stack)" if there is none.
std::vector<std::string> frames_of(const Recording& recording, uint32_t stack);

}  // namespace gpupool::cli
