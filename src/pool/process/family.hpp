// SPDX-License-Identifier: Apache-2.0
// What a call on one pool changes for others: those that share its device, or its captures. Call these with
// no lock held. They throw std::bad_alloc.
#pragma once

#include <cstdint>

#include "base/status.hpp"

namespace gpupool::internal {

class Pool;

/// Lets a device access the memory of a pool, and of those that share its device.
Status enable_peer(Pool& pool, int32_t peer);

/// What gpupool_announce_capture does.
Status announce_capture(Pool& pool, bool begins);

}  // namespace gpupool::internal
