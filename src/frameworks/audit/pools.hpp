// SPDX-License-Identifier: Apache-2.0
// The driver's memory pools and its memory for graphs: what they hold is asked of the driver.
#pragma once

#include "frameworks/audit/pool_list.hpp"
#include "frameworks/audit/types.hpp"

namespace gpupool::audit {

/// Has the default pools of all `devices` known.
void find_default_pools(int devices) noexcept;

/// How a stream's number 0 is meant: by functions without and with `_ptsz`.
enum class Default { legacy, per_thread };
/// What is allocated becomes a node of the stream's graph, and takes memory when that is launched.
bool is_captured(CUstream stream, Default kind) noexcept;
/// That from which a stream's memory comes; null: it is not known.
Pool* pool_of(CUstream stream) noexcept;

/// Charges what the pool holds now.
void settle(Pool& pool, CUmemoryPool handle) noexcept;
/// What the device's graphs hold.
void settle_graphs(int device) noexcept;
/// Both, of all pools.
void settle_pools(int device) noexcept;
/// Has the device's pools give up what is not in use. False: there was nothing.
bool empty_pools(int device) noexcept;

}  // namespace gpupool::audit
