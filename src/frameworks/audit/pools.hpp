// SPDX-License-Identifier: Apache-2.0
// The driver's memory pools and its memory for graphs: what they hold is asked of the driver.
#pragma once

#include "frameworks/audit/types.hpp"

namespace gpupool::audit {

/// Has the default pools of all devices known.
void find_default_pools() noexcept;
/// Below 0: it is not known, so it is another process's, or of a library that is left alone.
int device_of(CUmemoryPool pool) noexcept;

/// Charges what the device's pools and graphs hold now.
void settle_pools(int device) noexcept;
/// The same for the device of the current context.
void settle_graphs() noexcept;
/// Has the device's pools give up what is not in use. False: there was nothing.
bool empty_pools(int device) noexcept;

}  // namespace gpupool::audit
