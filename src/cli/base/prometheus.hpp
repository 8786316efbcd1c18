// SPDX-License-Identifier: Apache-2.0
// Writes the text format of Prometheus, 0.0.4: base units, one family of metrics after another, and no
// timestamps, which node_exporter's textfile collector refuses.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace gpupool::cli {

/// A label's value, as it stands between quotes: any bytes as `harmless` shows them, with what would end it,
/// and ends of lines, escaped.
std::string label_text(const std::string& text);

class MetricsText {
 protected:
  void family(std::string_view name, std::string_view type, std::string_view help) {
    text_ += fmt::format("# HELP gpupool_{} {}\n# TYPE gpupool_{} {}\n", name, help, name, type);
  }
  /// Of the family that was begun last. `row` has the labels of all that it tells.
  template <typename Row, typename Value>
  void sample(std::string_view name, const Row& row, std::string_view labels, Value value) {
    text_ += fmt::format("gpupool_{}{{{}{}}} {}\n", name, row.labels, labels, value);
  }
  /// A family with one sample of each row, except of those whose value is 0 where `skips_zero`.
  template <typename Rows, typename Value>
  void each(std::string_view name, std::string_view type, std::string_view help, const Rows& rows,
            Value value, bool skips_zero = false) {
    family(name, type, help);
    for (const auto& row : rows)
      if (!skips_zero || value(row) != 0) sample(name, row, "", value(row));
  }

  std::string text_;
};

}  // namespace gpupool::cli
