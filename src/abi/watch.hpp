// SPDX-License-Identifier: Apache-2.0
// Watching that the environment asks for.
#pragma once

namespace gpupool::internal::abi {

/// Reads GPUPOOL_SAMPLE, GPUPOOL_STATS, GPUPOOL_RECORD and GPUPOOL_CONTROL when the process creates its first
/// pool. Reports errors in them once on standard error.
void watch_from_environment() noexcept;

}  // namespace gpupool::internal::abi
