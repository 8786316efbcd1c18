// SPDX-License-Identifier: Apache-2.0
// RMM's log as a trace: "Thread,Time,Action,Pointer,Size,Stream", a line for each call.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "cli/base/library.hpp"
#include "cli/base/out_file.hpp"

namespace gpupool::cli {

/// Writes the trace while it is fed with the log. Throws InputError "label:line: what is wrong".
class RmmLog {
 public:
  RmmLog(std::string label, OutFile& out) : label_(std::move(label)), out_(out) {}

  void feed(std::string_view text);
  void finish();

 private:
  static constexpr size_t kFields = 6;

  InputError refuse(const std::string& why, uint64_t ahead = 0) const;
  void take_line();
  void take(const std::array<std::string_view, kFields>& fields);
  uint64_t number(std::string_view text, std::string_view meaning) const;

  std::string label_;
  OutFile& out_;
  std::string begun_;
  uint64_t line_ = 0;
  uint64_t blocks_ = 0;
  std::unordered_map<uint64_t, uint64_t> live_;
};

}  // namespace gpupool::cli
