// SPDX-License-Identifier: Apache-2.0
// Sizes, shares, times and switches as people write them: one parser for the environment and for every
// language.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.hpp"

namespace gpupool::internal {

/// Without the blanks around it.
std::string_view trimmed(std::string_view text) noexcept;
bool equal_ignoring_case(std::string_view text, std::string_view lower_case) noexcept;
/// INVALID_ARGUMENT: "size is "twelve", not a size such as ...".
Status refuse(std::string_view name, std::string_view text, const char* why) noexcept;

/// Reads "4096", "512KiB", "1.5 GiB", "2g" (powers of 1,024), "8GB" (a power of 1,000) into `bytes`, or "40%"
/// into `share`, in (0, 1]; the other one becomes 0. `name` is what the message calls the text.
/// INVALID_ARGUMENT, with nothing written, for anything else, including zero and negative numbers.
Status parse_size(std::string_view name, std::string_view text, uint64_t& bytes, double& share);

/// Reads bytes as parse_size does, and refuses a share.
Status parse_bytes(std::string_view name, std::string_view text, uint64_t& bytes);

/// Reads "0.4" or "40%" into a share in (0, 1].
Status parse_share(std::string_view name, std::string_view text, double& share);

/// Reads "30s", "500ms", "5min", "1h" or "30" (seconds) into nanoseconds, at least a millisecond and at most
/// a year.
Status parse_time(std::string_view name, std::string_view text, uint64_t& nanoseconds);

/// Reads an environment variable that is 1 or 0; if it is unset or empty, is_on stays. INVALID_ARGUMENT, with
/// nothing written, for anything else.
Status read_switch(const char* name, bool& is_on);

/// A share of a total, in bytes. INVALID_ARGUMENT if the share is not in (0, 1], or is less than one byte.
Status bytes_of_share(double share, uint64_t total, uint64_t& bytes);

}  // namespace gpupool::internal
