// SPDX-License-Identifier: Apache-2.0
// Text as lines.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/base/library.hpp"

namespace gpupool::cli {

/// The lines of a text; there is one more than there are line feeds.
inline std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

/// The lines of a file whose text comes in pieces, cut anywhere; `take(line)` gets each without its end,
/// which may be Windows's.
class FileLines {
 public:
  /// `label` is what messages call the file.
  explicit FileLines(std::string label) : label_(std::move(label)) {}

  template <typename Take>
  void feed(std::string_view text, Take take) {
    while (!text.empty()) {
      const size_t end = text.find('\n');
      const std::string_view piece = text.substr(0, end);
      if (begun_.size() + piece.size() > kLongest) {
        ++number_;
        throw refuse(fmt::format("the line is longer than {} characters", kLongest));
      }
      if (end == std::string_view::npos || !begun_.empty()) begun_ += piece;
      if (end == std::string_view::npos) return;
      pass_line(begun_.empty() ? piece : begun_, take);
      begun_.clear();
      text.remove_prefix(end + 1);
    }
  }

  /// Returns whether the last line had an end.
  template <typename Take>
  bool finish(Take take) {
    if (begun_.empty()) return true;
    pass_line(begun_, take);
    return false;
  }

  /// Of the last line that was taken, from 1 on.
  uint64_t number() const noexcept { return number_; }
  InputError refuse(std::string_view why) const {
    return InputError(fmt::format("{}:{}: {}", label_, number_, why));
  }
  const std::string& label() const noexcept { return label_; }

 private:
  /// Bounds what is kept, so that a small packed file cannot fill the memory.
  static constexpr size_t kLongest = 4096;

  template <typename Take>
  void pass_line(std::string_view line, Take& take) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++number_;
    take(line);
  }

  std::string label_;
  std::string begun_;  // the beginning of a line whose end is in a later piece
  uint64_t number_ = 0;
};

}  // namespace gpupool::cli
