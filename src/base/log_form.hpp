// SPDX-License-Identifier: Apache-2.0
// What GPUPOOL_LOG says: the level, what a line begins with, and where it goes if nobody receives it.
#pragma once

#include <array>
#include <string_view>

#include "gpupool/gpupool.h"

namespace gpupool::internal {

struct LogForm {
  int level = GPUPOOL_LOG_OFF;
  bool has_time = false;
  bool has_process = false;
  bool has_thread = false;
  std::array<char, 1024> file{};  // with "%p" for the process's number; "": standard error

  /// Reads "info,time,process,thread,file=/tmp/gpupool-%p.log": a level or nothing, and the rest in any
  /// order. False, with nothing written but the part that is wrong, for anything else.
  static bool read(std::string_view text, LogForm& form, std::string_view& wrong) noexcept;

  /// Writes a line with one call of the system, so that lines of several processes stay apart. A file is
  /// opened for each line: then neither fork, nor a program that closes what it has not opened, nor a
  /// rotation of logs matters. If that fails, the line goes to standard error.
  void write(const char* line) const noexcept;
};

}  // namespace gpupool::internal
