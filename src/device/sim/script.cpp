// SPDX-License-Identifier: Apache-2.0
#include "device/sim/script.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "device/sim/clock.hpp"
#include "os/process.hpp"

namespace gpupool::internal {

/// Adds "CALL:NUMBER[=ERROR]" to table; false if it is something else.
bool SimScript::parse_entry(std::string_view entry, Table& table) {
  const size_t colon = entry.find(':');
  if (colon == std::string_view::npos) return false;
  const auto name = std::find(kCallNames.begin(), kCallNames.end(), entry.substr(0, colon));
  if (name == kCallNames.end()) return false;
  Rules& rules = table[static_cast<size_t>(name - kCallNames.begin())];

  std::string_view occurrence = entry.substr(colon + 1);
  Failure failure = Failure::error;
  if (const size_t equals = occurrence.find('='); equals != std::string_view::npos) {
    const std::string_view error = occurrence.substr(equals + 1);
    if (error == "out_of_memory") {
      failure = Failure::out_of_memory;
    } else if (error == "kill") {
      failure = Failure::kill;
    } else if (error != "error") {
      return false;
    }
    occurrence = occurrence.substr(0, equals);
  }
  if (occurrence == "*") {
    rules.every = failure;
    return true;
  }
  uint64_t number = 0;
  const char* const last = occurrence.data() + occurrence.size();
  const auto [end, error] = std::from_chars(occurrence.data(), last, number);
  if (error != std::errc{} || end != last || number == 0) return false;
  rules.at.insert_or_assign(number, failure);
  return true;
}

Status SimScript::set(std::string_view text) {
  Table table;
  const bool active = !text.empty();
  for (bool more = active; more;) {
    const size_t comma = text.find(',');
    const std::string_view entry = text.substr(0, comma);
    if (!parse_entry(entry, table)) {
      return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "sim script: '%.*s' is not understood",
                  static_cast<int>(std::min<size_t>(entry.size(), 64)), entry.data());
    }
    more = comma != std::string_view::npos;
    if (more) text.remove_prefix(comma + 1);
  }
  table_ = std::move(table);
  active_ = active;
  return kSuccess;
}

Status SimScript::check(Call call) noexcept {
  if (!active_) return kSuccess;
  const auto index = static_cast<size_t>(call);
  Rules& rules = table_[index];
  ++rules.seen;
  std::optional<Failure> failure = rules.every;
  if (const auto found = rules.at.find(rules.seen); found != rules.at.end()) failure = found->second;
  if (!failure) return kSuccess;
  if (*failure == Failure::kill) os::kill_process();
  const bool out_of_memory = *failure == Failure::out_of_memory;
  return fail_driver(out_of_memory ? GPUPOOL_ERROR_OUT_OF_MEMORY : GPUPOOL_ERROR_DRIVER,
                     out_of_memory ? driver_code::kOutOfMemory : driver_code::kUnknown,
                     "simulated device: %s number %llu fails, as scripted", kCallNames[index],
                     static_cast<unsigned long long>(rules.seen));
}

}  // namespace gpupool::internal
