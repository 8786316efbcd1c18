// SPDX-License-Identifier: Apache-2.0
#include "cli/recording/frame.hpp"

#include "cli/base/lines.hpp"

namespace gpupool::cli {

Frame split_frame(const std::string& text) {
  const size_t open = text.rfind(" (");
  if (open == std::string::npos || text.back() != ')') return {text, "", 0};
  Frame frame{text.substr(0, open), text.substr(open + 2, text.size() - open - 3), 0};
  const size_t colon = frame.file.rfind(':');
  const std::string digits = colon == std::string::npos ? "" : frame.file.substr(colon + 1);
  if (!digits.empty() && digits.size() < 10 && digits.find_first_not_of("0123456789") == std::string::npos) {
    frame.line = std::stoull(digits);
    frame.file.resize(colon);
  }
  return frame;
}

std::vector<std::string> frames_of(const Recording& recording, uint32_t stack) {
  const auto found = recording.stacks.find(stack);
  if (stack == 0 || found == recording.stacks.end()) return {"(no stack)"};
  std::vector<std::string> frames;
  for (const std::string_view line : lines_of(found->second)) frames.push_back(one_line(line));
  return frames;
}

}  // namespace gpupool::cli
