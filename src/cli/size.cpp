// SPDX-License-Identifier: Apache-2.0
#include "cli/size.hpp"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "cli/library.hpp"

namespace gpupool::cli {
namespace {

constexpr std::array<std::pair<std::string_view, uint64_t>, 6> kSuffixes = {{
    {"", 1},
    {"b", 1},
    {"kib", uint64_t{1} << 10},
    {"mib", uint64_t{1} << 20},
    {"gib", uint64_t{1} << 30},
    {"tib", uint64_t{1} << 40},
}};

/// 2^64 as a double; every smaller double converts to uint64_t.
constexpr double kTwoTo64 = 18446744073709551616.0;

std::optional<uint64_t> suffix_factor(std::string_view suffix) {
  std::string lower;
  for (const char c : suffix) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const auto& [name, factor] : kSuffixes) {
    if (lower == name) return factor;
  }
  return std::nullopt;
}

/// A decimal number without sign or exponent, from the whole of `text`.
std::optional<double> parse_decimal(std::string_view text) {
  double value = 0;
  if (text.empty() || text.front() == '-') return std::nullopt;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace

uint64_t parse_bytes(std::string_view text, std::string_view option) {
  const auto refuse = [&](std::string_view why) {
    return InputError(fmt::format("{}: '{}' {}", option, text, why));
  };
  const size_t number_end = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string_view digits = text.substr(0, number_end);
  const size_t suffix_begin = std::min(text.find_first_not_of(' ', number_end), text.size());
  const std::optional<uint64_t> factor = suffix_factor(text.substr(suffix_begin));
  const std::optional<double> value = parse_decimal(digits);
  if (!factor || !value) throw refuse("is not a size such as 4096, 512KiB or 1.5GiB");

  uint64_t whole = 0;  // kept apart from the double, which is exact only up to 2^53
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), whole);
  const bool is_whole = error == std::errc() && end == digits.data() + digits.size();
  if (is_whole && whole <= std::numeric_limits<uint64_t>::max() / *factor) {
    if (whole == 0) throw refuse("is no bytes at all");
    return whole * *factor;
  }
  const double bytes = *value * static_cast<double>(*factor);
  if (is_whole || bytes >= kTwoTo64) throw refuse("does not fit in 64 bits");
  if (bytes < 1 || bytes != std::floor(bytes)) throw refuse("is not a whole number of bytes");
  return static_cast<uint64_t>(bytes);
}

uint64_t Cap::for_peak(uint64_t peak_live_bytes) const {
  return bytes != 0 ? bytes : scale_bytes(peak_live_bytes, multiple);
}

Cap parse_cap(std::string_view text) {
  if (text.empty() || (text.back() != 'x' && text.back() != 'X')) return {parse_bytes(text, "--cap"), 0};
  const std::optional<double> multiple = parse_decimal(text.substr(0, text.size() - 1));
  if (!multiple || *multiple <= 0) {
    throw InputError(fmt::format("--cap: '{}' is not a multiple of the live peak such as 1.05x", text));
  }
  return {0, *multiple};
}

uint64_t scale_bytes(uint64_t bytes, double multiple) {
  const double scaled = std::ceil(static_cast<double>(bytes) * multiple);
  return scaled >= kTwoTo64 ? std::numeric_limits<uint64_t>::max() : static_cast<uint64_t>(scaled);
}

std::string format_bytes(uint64_t bytes) {
  static constexpr std::array<std::string_view, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  if (value == std::floor(value)) return fmt::format("{:.0f} {}", value, kUnits[unit]);
  return fmt::format("{:.{}f} {}", value, value < 100 ? 2 : 1, kUnits[unit]);
}

std::string format_count(uint64_t count) {
  std::string text = std::to_string(count);
  for (size_t place = text.size(); place > 3; place -= 3) text.insert(place - 3, 1, ',');
  return text;
}

}  // namespace gpupool::cli
