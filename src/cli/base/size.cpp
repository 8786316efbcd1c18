// SPDX-License-Identifier: Apache-2.0
#include "cli/base/size.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "cli/base/library.hpp"
#include "cli/base/output.hpp"

namespace gpupool::cli {
namespace {

/// 2^64 as a double; every smaller double converts to uint64_t.
constexpr double kTwoTo64 = 18446744073709551616.0;

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
  uint64_t bytes = 0;
  const gpupool_status_t status = gpupool_parse_size(std::string(text).c_str(), &bytes, nullptr);
  if (status != GPUPOOL_SUCCESS) throw InputError(fmt::format("{}: {}", option, last_words(status)));
  return bytes;
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
  return format_estimate(bytes, 0);
}

std::string format_estimate(uint64_t bytes, double error) {
  static constexpr std::array<std::string_view, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  error = std::min(error, value);  // one digit always remains
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    error /= 1024;
    ++unit;
  }
  int digits = value < 100 ? 2 : 1;
  if (error > 0) {
    digits = std::min(digits, -static_cast<int>(std::floor(std::log10(error))));
    value = round_to(value, digits);
  }
  if (value == std::floor(value)) digits = 0;
  return fmt::format("{:.{}f} {}", value, std::max(digits, 0), kUnits[unit]);
}

std::string format_count(uint64_t count) {
  std::string text = std::to_string(count);
  for (size_t place = text.size(); place > 3; place -= 3) text.insert(place - 3, 1, ',');
  return text;
}

}  // namespace gpupool::cli
