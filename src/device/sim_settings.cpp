// SPDX-License-Identifier: Apache-2.0
#include "device/sim_settings.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/bits.hpp"

namespace gpupool {
namespace {

constexpr uint64_t kMinCapacity = 2 * kMiB;
constexpr uint64_t kMaxCapacity = 64 * kTiB;
constexpr double kMaxPriceScale = 1e6;

bool is_valid(const SimSettings& settings) noexcept {
  return settings.capacity >= kMinCapacity && settings.capacity <= kMaxCapacity &&
         std::isfinite(settings.price_scale) && settings.price_scale > 0 &&
         settings.price_scale <= kMaxPriceScale;
}

/// Reads all of text as a number; false where something else is in it.
template <class Number>
bool parse_number(std::string_view text, Number& number) noexcept {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

bool parse_size(std::string_view text, uint64_t& size) noexcept {
  uint64_t unit = 1;
  for (const auto& [name, value] : {std::pair{std::string_view("KiB"), kKiB},
                                    {std::string_view("MiB"), kMiB},
                                    {std::string_view("GiB"), kGiB},
                                    {std::string_view("TiB"), kTiB}}) {
    if (!text.ends_with(name)) continue;
    unit = value;
    text.remove_suffix(name.size());
  }
  uint64_t number = 0;
  if (!parse_number(text, number) || number > kMaxCapacity / unit) return false;
  size = number * unit;
  return true;
}

bool parse_part(std::string_view part, SimSettings& settings) noexcept {
  const size_t equals = part.find('=');
  if (equals == std::string_view::npos) return false;
  const std::string_view key = part.substr(0, equals);
  const std::string_view value = part.substr(equals + 1);
  if (key == "capacity") return parse_size(value, settings.capacity);
  if (key == "price_scale") return parse_number(value, settings.price_scale);
  if (key != "data" || (value != "0" && value != "1")) return false;
  settings.data = value == "1";
  return true;
}

}  // namespace

Status sim_settings_from(const gpupool_sim_config_t& config, SimSettings& settings) {
  SimSettings wanted;
  if (config.capacity_bytes != 0) wanted.capacity = config.capacity_bytes;
  if (config.price_scale != 0) wanted.price_scale = config.price_scale;
  wanted.data = config.data != 2;
  if (config.data > 2 || !is_valid(wanted)) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT,
                "sim config: data %u (0 to 2), capacity_bytes %llu (2 MiB to 64 TiB) or price_scale %g "
                "(above 0, at most 1e6) is out of range",
                config.data, static_cast<unsigned long long>(config.capacity_bytes), config.price_scale);
  }
  if (std::any_of(std::begin(config.reserved), std::end(config.reserved), [](auto v) { return v != 0; })) {
    return fail(GPUPOOL_ERROR_UNSUPPORTED, "sim config: reserved fields must be 0");
  }
  settings = wanted;
  return kSuccess;
}

Status sim_settings_from(std::string_view text, SimSettings& settings) {
  SimSettings wanted;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    if (!parse_part(part, wanted) || !is_valid(wanted)) {
      return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "GPUPOOL_SIM: '%.*s' is not understood or out of range",
                  static_cast<int>(part.size()), part.data());
    }
  }
  settings = wanted;
  return kSuccess;
}

}  // namespace gpupool
