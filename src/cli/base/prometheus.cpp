// SPDX-License-Identifier: Apache-2.0
#include "cli/base/prometheus.hpp"

#include <algorithm>

#include "cli/base/utf8.hpp"

namespace gpupool::cli {

std::string label_text(const std::string& text) {
  std::string escaped;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    for (const char c : harmless(std::string_view(text).substr(at, end - at))) {
      if (c == '\\' || c == '"') escaped += '\\';
      escaped += c;
    }
    if (end < text.size()) escaped += "\\n";
    at = end + 1;
  }
  return escaped;
}

}  // namespace gpupool::cli
