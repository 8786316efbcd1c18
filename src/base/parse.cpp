// SPDX-License-Identifier: Apache-2.0
#include "base/parse.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cinttypes>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>

namespace gpupool::internal {
namespace {

struct Unit {
  std::string_view name;
  uint64_t factor;
};

constexpr std::array<Unit, 14> kUnits = {{
    {"", 1},
    {"b", 1},
    {"k", uint64_t{1} << 10},
    {"m", uint64_t{1} << 20},
    {"g", uint64_t{1} << 30},
    {"t", uint64_t{1} << 40},
    {"kib", uint64_t{1} << 10},
    {"mib", uint64_t{1} << 20},
    {"gib", uint64_t{1} << 30},
    {"tib", uint64_t{1} << 40},
    {"kb", 1000},
    {"mb", 1000 * 1000},
    {"gb", uint64_t{1000} * 1000 * 1000},
    {"tb", uint64_t{1000} * 1000 * 1000 * 1000},
}};

/// 2^64 as a double; every smaller double converts to uint64_t.
constexpr double kTwoTo64 = 18446744073709551616.0;

/// For "%.*s": at most 64 characters, so that the rest of a message is not lost.
int shown_length(std::string_view text) noexcept {
  return static_cast<int>(std::min<size_t>(text.size(), 64));
}

char lower(char letter) noexcept {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

std::optional<uint64_t> factor_of(std::string_view unit) noexcept {
  for (const Unit& each : kUnits) {
    if (equal_ignoring_case(unit, each.name)) return each.factor;
  }
  return std::nullopt;
}

/// A finite decimal number without a sign, from all of the text. In every locale the decimal sign is a point.
std::optional<double> decimal(std::string_view text) noexcept {
  double value = 0;
  if (text.empty() || text.front() == '-' || text.front() == '+') return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

/// "40" of "40%".
std::optional<double> percentage(std::string_view text) noexcept {
  if (text.empty() || text.back() != '%') return std::nullopt;
  const std::optional<double> percent = decimal(trimmed(text.substr(0, text.size() - 1)));
  if (!percent || !(*percent > 0 && *percent <= 100)) return std::nullopt;
  return *percent / 100;
}

bool is_percentage(std::string_view all) noexcept {
  return !all.empty() && all.back() == '%';
}

/// A size alone. `wanted` says what the text is not.
Status read_bytes(std::string_view name, std::string_view text, const char* wanted, uint64_t& bytes) {
  const std::string_view all = trimmed(text);
  const size_t number_end = std::min(all.find_first_not_of("0123456789."), all.size());
  const std::string_view digits = all.substr(0, number_end);
  const std::optional<uint64_t> factor = factor_of(trimmed(all.substr(number_end)));
  const std::optional<double> value = decimal(digits);
  if (!factor || !value) return refuse(name, text, wanted);
  uint64_t result = 0;  // whole numbers stay apart from the double, which is exact only up to 2^53
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), result);
  const bool is_whole = error == std::errc() && end == digits.data() + digits.size();
  if (is_whole && result <= std::numeric_limits<uint64_t>::max() / *factor) {
    result *= *factor;
  } else {
    const double scaled = *value * static_cast<double>(*factor);
    if (is_whole || scaled >= kTwoTo64) return refuse(name, text, "which does not fit in 64 bits");
    if (scaled != std::floor(scaled)) return refuse(name, text, "not a whole number of bytes");
    result = static_cast<uint64_t>(scaled);
  }
  if (result == 0) return refuse(name, text, "which is no bytes at all");
  bytes = result;
  return kSuccess;
}

}  // namespace

bool equal_ignoring_case(std::string_view text, std::string_view lower_case) noexcept {
  if (text.size() != lower_case.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (lower(text[i]) != lower_case[i]) return false;
  }
  return true;
}

Status refuse(std::string_view name, std::string_view text, const char* why) noexcept {
  return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "%.*s is \"%.*s\", %s", shown_length(name), name.data(),
              shown_length(text), text.data(), why);
}

std::string_view trimmed(std::string_view text) noexcept {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

Status parse_bytes(std::string_view name, std::string_view text, uint64_t& bytes) {
  if (is_percentage(trimmed(text))) return refuse(name, text, "a share, and bytes are wanted");
  return read_bytes(name, text, "not a size such as 4096, 512KiB, 1.5GiB or 8GB", bytes);
}

Status parse_size(std::string_view name, std::string_view text, uint64_t& bytes, double& share) {
  const std::string_view all = trimmed(text);
  if (is_percentage(all)) {
    const std::optional<double> found = percentage(all);
    if (!found) return refuse(name, text, "not a share in (0%, 100%]");
    bytes = 0;
    share = *found;
    return kSuccess;
  }
  const char* const wanted = "not a size such as 4096, 512KiB, 1.5GiB or 8GB, or a share such as 40%";
  if (const Status status = read_bytes(name, text, wanted, bytes); status != kSuccess) return status;
  share = 0;
  return kSuccess;
}

Status parse_share(std::string_view name, std::string_view text, double& share) {
  const std::string_view all = trimmed(text);
  std::optional<double> found = percentage(all);
  if (!found) found = decimal(all);
  if (!found || !(*found >= 1e-12 && *found <= 1))
    return refuse(name, text, "not a share such as 0.4 or 40%");
  share = *found;
  return kSuccess;
}

Status parse_time(std::string_view name, std::string_view text, uint64_t& nanoseconds) {
  struct TimeUnit {
    std::string_view name;
    double seconds;
  };
  static constexpr TimeUnit kTimeUnits[] = {{"", 1}, {"s", 1}, {"ms", 1e-3}, {"min", 60}, {"h", 3600}};
  constexpr double kYear = 366.0 * 86400;
  const std::string_view all = trimmed(text);
  const size_t number_end = std::min(all.find_first_not_of("0123456789."), all.size());
  const std::optional<double> value = decimal(all.substr(0, number_end));
  const std::string_view unit = trimmed(all.substr(number_end));
  for (const TimeUnit& each : kTimeUnits) {
    if (!value || !equal_ignoring_case(unit, each.name)) continue;
    const double seconds = *value * each.seconds;
    if (!(seconds >= 1e-3 && seconds <= kYear)) break;
    nanoseconds = static_cast<uint64_t>(seconds * 1e9);
    return kSuccess;
  }
  return refuse(name, text, "not a time such as 500ms, 30s, 5min or 1h, up to a year");
}

Status read_switch(const char* name, bool& is_on) {
  const char* const text = std::getenv(name);
  if (text == nullptr || *text == '\0') return kSuccess;
  const bool is_digit = (*text == '0' || *text == '1') && text[1] == '\0';
  if (!is_digit) return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "%s is \"%.64s\", not 0 or 1", name, text);
  is_on = *text == '1';
  return kSuccess;
}

Status bytes_of_share(double share, uint64_t total, uint64_t& bytes) {
  if (!(share > 0 && share <= 1)) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "fraction is %g, not in (0, 1]", share);
  }
  const auto result = static_cast<uint64_t>(share * static_cast<double>(total));
  if (result == 0) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "fraction is %g, and of %" PRIu64 " bytes that is no byte",
                share, total);
  }
  bytes = result;
  return kSuccess;
}

}  // namespace gpupool::internal
