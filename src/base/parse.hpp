// SPDX-License-Identifier: Apache-2.0
// Sizes, shares and devices as people write them: one parser for the environment and for every language.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.hpp"

namespace gpupool::internal {

/// Reads "4096", "512KiB", "1.5 GiB", "2g" (powers of 1,024), "8GB" (a power of 1,000) into `bytes`, or "40%"
/// into `share`, in (0, 1]; the other one becomes 0. `name` is what the message calls the text.
/// INVALID_ARGUMENT for anything else, zero and negative numbers included; nothing is written then.
Status parse_size(std::string_view name, std::string_view text, uint64_t& bytes, double& share);

/// Reads "0.4" or "40%" into a share in (0, 1].
Status parse_share(std::string_view name, std::string_view text, double& share);

/// Reads "cuda", "cuda:1", "sim", "sim:3", "auto" or "2" into a backend and a device's number.
Status parse_device(std::string_view text, gpupool_backend_t& backend, int32_t& ordinal);

/// The bytes that a share of a total comes to. INVALID_ARGUMENT where the share is not in (0, 1], or comes to
/// no byte.
Status bytes_of_share(double share, uint64_t total, uint64_t& bytes);

}  // namespace gpupool::internal
