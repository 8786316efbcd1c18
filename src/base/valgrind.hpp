// SPDX-License-Identifier: Apache-2.0
// Requests to Valgrind, if the process runs under it.
#pragma once

#include <array>
#include <cstdint>

namespace gpupool::internal {

/// A request's number, and what it takes.
using ValgrindRequest = std::array<uint64_t, 6>;

/// What Valgrind answers; 0 without it, and on processors for which this is not written.
uint64_t ask_valgrind(const ValgrindRequest& request) noexcept;

bool is_under_valgrind() noexcept;

}  // namespace gpupool::internal
