// SPDX-License-Identifier: Apache-2.0
// Which function a program gets in place of which. By address and not by name: the driver has chosen among
// its versions by then, and what it does not have stays missing.
#pragma once

#include <link.h>

namespace gpupool::audit {

/// The driver or NVML is loaded, or unloaded; the loader has its lock.
void begin_library(const link_map& object) noexcept;
void end_library(const link_map& object) noexcept;

/// Ours for one of theirs; any other address as it is.
void* hook_for(void* address) noexcept;
/// The same for an answer of cuGetProcAddress, which may be a function that is not exported.
void* hook_for_answer(void* address) noexcept;

}  // namespace gpupool::audit
