// SPDX-License-Identifier: Apache-2.0
#include "abi/options.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/parse.hpp"

namespace gpupool::internal::abi {
namespace {

void lower(Ceiling& ceiling, uint64_t bytes, const char* name) noexcept {
  if (bytes < ceiling.bytes) ceiling = {bytes, name};
}

Status lower_by_share(Ceiling& ceiling, double share, const DeviceInfo& device, const char* name) {
  uint64_t bytes = 0;
  const Status status = bytes_of_share(share, device.total, bytes);
  if (status == kSuccess) lower(ceiling, bytes, name);
  return status;
}

Status lower_by_size(Ceiling& ceiling, std::string_view text, const DeviceInfo& device, const char* name) {
  uint64_t bytes = 0;
  double share = 0;
  if (const Status status = parse_size(name, text, bytes, share); status != kSuccess) return status;
  if (share > 0) return lower_by_share(ceiling, share, device, name);
  lower(ceiling, bytes, name);
  return kSuccess;
}

/// GPUPOOL_CAP has a part for each that wants one. "auto" is for the Python package, which finds the number.
Status lower_by_caps(Ceiling& ceiling, std::string_view text, const DeviceInfo& device) {
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string_view part = trimmed(text.substr(at, end - at));
    at = end + 1;
    if (part.empty() || part == "auto") continue;
    if (const Status status = lower_by_size(ceiling, part, device, "GPUPOOL_CAP"); status != kSuccess)
      return status;
  }
  return kSuccess;
}

/// Empty if it is not set.
std::string_view setting(const char* name) noexcept {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

}  // namespace

Status find_ceiling(const DeviceInfo& device, Kind kind, Ceiling& ceiling) {
  ceiling = {};
  if (kind == Kind::pinned) return kSuccess;
  Status status = kSuccess;
  if (const auto text = setting("GPUPOOL_LIMIT"); !text.empty())
    status = lower_by_size(ceiling, text, device, "GPUPOOL_LIMIT");
  if (const auto text = setting("GPUPOOL_FRACTION"); !text.empty() && status == kSuccess) {
    double share = 0;
    status = parse_share("GPUPOOL_FRACTION", text, share);
    if (status == kSuccess) status = lower_by_share(ceiling, share, device, "GPUPOOL_FRACTION");
  }
  if (const auto text = setting("GPUPOOL_CAP"); !text.empty() && status == kSuccess)
    status = lower_by_caps(ceiling, text, device);
  return status;
}

}  // namespace gpupool::internal::abi
