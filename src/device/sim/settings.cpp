// SPDX-License-Identifier: Apache-2.0
#include "device/sim/settings.hpp"

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <cmath>
#include <cstdlib>
#include <iterator>

#include "base/bits.hpp"
#include "base/parse.hpp"

namespace gpupool::internal {
namespace {

constexpr uint64_t kMinCapacity = 2 * kMiB;
constexpr uint64_t kMaxCapacity = 64 * kTiB;
constexpr double kMaxPriceScale = 1e6;

constexpr bool is_capacity(uint64_t bytes) noexcept {
  return bytes >= kMinCapacity && bytes <= kMaxCapacity;
}

bool is_price_scale(double scale) noexcept {
  return std::isfinite(scale) && scale > 0 && scale <= kMaxPriceScale;
}

/// Reads all of text as a number; false if it contains anything else.
bool parse_number(std::string_view text, double& number) noexcept {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

bool parse_capacity(std::string_view text, uint64_t& capacity) {
  return parse_bytes("capacity", text, capacity) == kSuccess && is_capacity(capacity);
}

/// A part of the text: its name, its allowed values, and how to read it.
struct Part {
  std::string_view key;
  const char* allowed;
  bool (*read)(std::string_view value, SimSettings& settings);
};

constexpr Part kParts[] = {
    {"capacity", "a size from 2MiB to 64TiB",
     [](std::string_view value, SimSettings& settings) { return parse_capacity(value, settings.capacity); }},
    {"host", "a size",
     [](std::string_view value, SimSettings& settings) {
       return parse_bytes("host", value, settings.host) == kSuccess;
     }},
    {"data", "0 or 1",
     [](std::string_view value, SimSettings& settings) {
       settings.data = value == "1";
       return value == "0" || value == "1";
     }},
    {"integrated", "0 or 1",
     [](std::string_view value, SimSettings& settings) {
       settings.is_integrated = value == "1";
       return value == "0" || value == "1";
     }},
    {"price_scale", "a number above 0, at most 1e6",
     [](std::string_view value, SimSettings& settings) {
       return parse_number(value, settings.price_scale) && is_price_scale(settings.price_scale);
     }},
    {"streams", "any or strict",
     [](std::string_view value, SimSettings& settings) {
       settings.strict_streams = value == "strict";
       return value == "any" || value == "strict";
     }},
    {"time", "virtual or real",
     [](std::string_view value, SimSettings& settings) {
       settings.real_time = value == "real";
       return value == "virtual" || value == "real";
     }},
};

Status parse_part(std::string_view text, SimSettings& settings) {
  const std::string_view key = text.substr(0, text.find('='));
  const int shown = static_cast<int>(std::min<size_t>(text.size(), 48));
  const auto part =
      std::find_if(std::begin(kParts), std::end(kParts), [key](const Part& each) { return each.key == key; });
  if (part == std::end(kParts)) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT,
                "GPUPOOL_SIM: '%.*s' is none of capacity=, host=, data=, integrated=, price_scale=, streams= "
                "and time=",
                shown, text.data());
  }
  const bool has_value = key.size() < text.size();
  if (has_value && part->read(text.substr(key.size() + 1), settings)) return kSuccess;
  return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "GPUPOOL_SIM: '%.*s' is not %.*s= and %s", shown, text.data(),
              static_cast<int>(key.size()), key.data(), part->allowed);
}

/// wanted has the defaults in place of the zeros.
Status check_fields(const gpupool_sim_config_t& config, const SimSettings& wanted) {
  if (config.data > 2) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT,
                "data is %u, not 1 (memory) or 2 (addresses only), nor 0 for the default", config.data);
  }
  if (!is_capacity(wanted.capacity)) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT,
                "capacity_bytes is %" PRIu64 ", not 2 MiB to 64 TiB, nor 0 for an H200's", wanted.capacity);
  }
  if (!is_price_scale(wanted.price_scale)) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "price_scale is %g, not in (0, 1e6], nor 0 for an H200's",
                wanted.price_scale);
  }
  if (config.streams > 2) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT,
                "streams is %u, not 1 (any number) or 2 (created ones), nor 0 for the default",
                config.streams);
  }
  if (config.reserved0 != 0) {
    return fail(GPUPOOL_ERROR_UNSUPPORTED, "reserved0 is %u, not 0", config.reserved0);
  }
  for (size_t i = 0; i < std::size(config.reserved); ++i) {
    if (config.reserved[i] == 0) continue;
    return fail(GPUPOOL_ERROR_UNSUPPORTED, "reserved[%zu] is %" PRIu64 ", not 0", i, config.reserved[i]);
  }
  return kSuccess;
}

}  // namespace

Status sim_settings_from(const gpupool_sim_config_t& config, SimSettings& settings) {
  SimSettings wanted = settings;
  if (config.capacity_bytes != 0) wanted.capacity = config.capacity_bytes;
  if (config.host_bytes != 0) wanted.host = config.host_bytes;
  if (config.price_scale != 0) wanted.price_scale = config.price_scale;
  if (config.data != 0) wanted.data = config.data == 1;
  if (config.streams != 0) wanted.strict_streams = config.streams == 2;
  if (const Status status = check_fields(config, wanted); status != kSuccess) return status;
  settings = wanted;
  return kSuccess;
}

Status sim_settings_from_environment(SimSettings& settings) {
  const char* const text = std::getenv("GPUPOOL_SIM");
  return text == nullptr ? kSuccess : sim_settings_from(std::string_view(text), settings);
}

Status sim_settings_from(std::string_view text, SimSettings& settings) {
  SimSettings wanted;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    if (const Status status = parse_part(part, wanted); status != kSuccess) return status;
  }
  settings = wanted;
  return kSuccess;
}

}  // namespace gpupool::internal
