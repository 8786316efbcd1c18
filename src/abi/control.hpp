// SPDX-License-Identifier: Apache-2.0
// What commands of other processes do to this one's pools.
#pragma once

#include "base/status.hpp"

namespace gpupool::internal::abi {

/// Takes commands from now on, if GPUPOOL_CONTROL says so. Throws std::bad_alloc.
Status control_from_environment();

}  // namespace gpupool::internal::abi
