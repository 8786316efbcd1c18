// SPDX-License-Identifier: Apache-2.0
// Sizes as people write them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gpupool::cli {

/// "4096", "512KiB", "8GB": bytes, as gpupool_parse_size reads them. Throws InputError, prefixed with
/// `option`, for anything else, including shares.
uint64_t parse_bytes(std::string_view text, std::string_view option);

/// A cap as --cap takes it.
struct Cap {
  uint64_t bytes = 0;  // 0: a multiple of the live peak instead
  double multiple = 0;

  uint64_t for_peak(uint64_t peak_live_bytes) const;
};

/// "1.05x", or bytes as parse_bytes takes them.
Cap parse_cap(std::string_view text);

/// `multiple` times `bytes` in whole bytes, rounded up.
uint64_t scale_bytes(uint64_t bytes, double multiple);

/// "12.4 GiB".
std::string format_bytes(uint64_t bytes);

/// The same of an estimate, with no digit that says less than `error`, which bytes may be off by: "1.3 GiB".
std::string format_estimate(uint64_t bytes, double error);

/// "63,907".
std::string format_count(uint64_t count);

}  // namespace gpupool::cli
