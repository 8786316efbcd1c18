// SPDX-License-Identifier: Apache-2.0
// RMM's log as a trace: "Thread,Time,Action,Pointer,Size,Stream", a line for each call.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "cli/base/lines.hpp"
#include "cli/base/out_file.hpp"

namespace gpupool::cli {

/// Writes the trace while it is fed with the log. Throws InputError "label:line: what is wrong".
class RmmLog {
 public:
  RmmLog(std::string label, OutFile& out) : lines_(std::move(label)), out_(out) {}

  void feed(std::string_view text);
  void finish();

 private:
  static constexpr size_t kFields = 6;

  void take_line(std::string_view line);
  void take(const std::array<std::string_view, kFields>& fields);
  uint64_t number(std::string_view text, std::string_view meaning) const;

  FileLines lines_;
  OutFile& out_;
  uint64_t blocks_ = 0;
  std::unordered_map<uint64_t, uint64_t> live_;
};

}  // namespace gpupool::cli
