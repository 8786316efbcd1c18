// SPDX-License-Identifier: Apache-2.0
#include "base/log_form.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <iterator>

#include "os/clock.hpp"
#include "os/files.hpp"
#include "os/process.hpp"
#include "os/thread.hpp"

namespace gpupool::internal {
namespace {

constexpr std::string_view kLevels[] = {"off", "error", "warning", "info", "debug"};
constexpr std::string_view kFile = "file=";

bool read_part(std::string_view part, LogForm& form) noexcept {
  const auto level = std::find(std::begin(kLevels), std::end(kLevels), part);
  if (level != std::end(kLevels)) {
    form.level = static_cast<int>(level - std::begin(kLevels));
  } else if (part == "time") {
    form.has_time = true;
  } else if (part == "process") {
    form.has_process = true;
  } else if (part == "thread") {
    form.has_thread = true;
  } else if (part.starts_with(kFile) && part.size() > kFile.size() &&
             part.size() - kFile.size() < form.file.size()) {
    form.file = {};
    part.substr(kFile.size()).copy(form.file.data(), form.file.size() - 1);
  } else {
    return false;
  }
  return true;
}

/// A text in a buffer, cut where that ends.
class Text {
 public:
  void add(std::string_view more) noexcept {
    const size_t length = std::min(more.size(), text_.size() - 1 - used_);
    more.copy(text_.data() + used_, length);
    used_ += length;
  }
  void add_number(uint64_t number) noexcept {
    std::array<char, 24> digits{};
    std::snprintf(digits.data(), digits.size(), "%" PRIu64, number);
    add(digits.data());
  }
  const char* begin() const noexcept { return text_.data(); }
  size_t size() const noexcept { return used_; }

 private:
  std::array<char, 2048> text_{};  // the longest line and path, and more
  size_t used_ = 0;
};

Text path_of(std::string_view pattern) noexcept {
  Text path;
  for (size_t at = pattern.find("%p"); at != std::string_view::npos; at = pattern.find("%p")) {
    path.add(pattern.substr(0, at));
    path.add_number(os::process_id());
    pattern.remove_prefix(at + 2);
  }
  path.add(pattern);
  return path;
}

}  // namespace

bool LogForm::read(std::string_view text, LogForm& form, std::string_view& wrong) noexcept {
  LogForm found;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    if (read_part(part, found)) continue;
    wrong = part;
    return false;
  }
  form = found;
  return true;
}

void LogForm::write(const char* line) const noexcept {
  Text text;
  text.add("gpupool");
  if (has_time) {
    std::array<char, 32> now{};
    os::write_time(now.data(), now.size());
    text.add(" ");
    text.add(now.data());
  }
  if (has_process) {
    text.add(" process ");
    text.add_number(os::process_id());
  }
  if (has_thread) {
    text.add(" thread ");
    text.add_number(os::thread_id());
  }
  text.add(": ");
  text.add(line);
  text.add("\n");
  if (file[0] != '\0' && os::append_to_file(path_of(file.data()).begin(), text.begin(), text.size())) return;
  std::fputs(text.begin(), stderr);
}

}  // namespace gpupool::internal
