// SPDX-License-Identifier: Apache-2.0
// Addresses of the driver's functions that are data: where code calls through them, or keeps them, the loader
// does not tell its auditors.
#pragma once

#include <link.h>

namespace gpupool::audit {

/// Has the object's data hold our functions; after it has been relocated, before its code runs.
void hook_data(const link_map& object) noexcept;

}  // namespace gpupool::audit
