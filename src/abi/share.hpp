// SPDX-License-Identifier: Apache-2.0
// What a configuration and the environment say about sharing with other processes.
#pragma once

#include "pool/pool.hpp"

namespace gpupool::internal::abi {

/// Makes a new pool share, if requested. If the region cannot be used, the pool runs alone, with one message
/// on standard error. INVALID_ARGUMENT, UNSUPPORTED: the request makes no sense; OVER_LIMIT: the guarantee.
Status share_pool(const gpupool_config_t& config, Pool& pool);

}  // namespace gpupool::internal::abi
