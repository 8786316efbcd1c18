// SPDX-License-Identifier: Apache-2.0
// What the environment asks to be watched.
#pragma once

namespace gpupool::internal::abi {

/// Reads GPUPOOL_SAMPLE and GPUPOOL_RECORD when the process makes its first pool. What is wrong there is said
/// once on standard error.
void watch_from_environment() noexcept;

}  // namespace gpupool::internal::abi
