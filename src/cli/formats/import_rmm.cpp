// SPDX-License-Identifier: Apache-2.0
#include "cli/formats/import_rmm.hpp"

#include <fmt/format.h>

#include <charconv>

namespace gpupool::cli {

void RmmLog::feed(std::string_view text) {
  lines_.feed(text, [&](std::string_view line) { take_line(line); });
}

void RmmLog::finish() {
  (void)lines_.finish([&](std::string_view line) { take_line(line); });
  if (blocks_ == 0) throw lines_.refuse("nothing was allocated");
}

void RmmLog::take_line(std::string_view line) {
  if (line.empty()) return;
  std::array<std::string_view, kFields> fields;
  std::string_view rest = line;
  for (size_t i = 0; i < kFields; ++i) {
    const size_t end = rest.find(',');
    if ((end == std::string_view::npos) != (i + 1 == kFields)) {
      throw lines_.refuse("a line is 'Thread,Time,Action,Pointer,Size,Stream'");
    }
    fields[i] = rest.substr(0, end);
    rest.remove_prefix(i + 1 == kFields ? rest.size() : end + 1);
  }
  if (fields[0] == "Thread") return;  // the headline
  take(fields);
}

void RmmLog::take(const std::array<std::string_view, kFields>& fields) {
  const std::string_view action = fields[2];
  if (action == "allocate failure") {
    out_.write(fmt::format("# a malloc of {} bytes has failed\n", number(fields[4], "size")));
    return;
  }
  const uint64_t address = number(fields[3], "pointer");
  const uint64_t bytes = number(fields[4], "size");
  if (action == "allocate") {
    if (bytes == 0) return;
    if (live_.contains(address))
      throw lines_.refuse(fmt::format("0x{:x} is allocated again before it is freed", address));
    live_[address] = ++blocks_;
    out_.write(fmt::format("a {} {} {}\n", blocks_, bytes, number(fields[5], "stream")));
  } else if (action == "free") {
    const auto found = live_.find(address);
    if (found == live_.end()) return;  // it was allocated before the log began, or has no bytes
    out_.write(fmt::format("f {}\n", found->second));
    live_.erase(found);
  } else {
    throw lines_.refuse("the action is not allocate, allocate failure or free");
  }
}

/// Decimal, or with 0x; "(nil)" is what printf makes of 0.
uint64_t RmmLog::number(std::string_view text, std::string_view meaning) const {
  if (text == "(nil)") return 0;
  const bool is_hex = text.starts_with("0x");
  const std::string_view digits = is_hex ? text.substr(2) : text;
  uint64_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, is_hex ? 16 : 10);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) {
    throw lines_.refuse(fmt::format("the {} is not a number", meaning));
  }
  return value;
}

}  // namespace gpupool::cli
