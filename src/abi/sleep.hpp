// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/status.hpp"
#include "pool/sleep/sleep_options.hpp"

namespace gpupool::internal::abi {

/// Checks a caller's options; null: all defaults. Only `takes_target` lets them have a target.
Status read_sleep_options(const gpupool_sleep_options_t* in, bool takes_target, SleepOptions& options);

}  // namespace gpupool::internal::abi
