// SPDX-License-Identifier: Apache-2.0
// What was counted against what NVML says the process has, so that a door that is not hooked is seen: at the
// first allocation on a device, when there is little more than its context, and at the end of the program;
// and of a program of which no hooked call came, at its end.
#pragma once

#include <link.h>

#include "frameworks/audit/ledger.hpp"

namespace gpupool::audit {

/// The program's C library, where the end of the program is learned.
void begin_libc(const link_map& object) noexcept;
/// Before the program's own code.
void begin_program() noexcept;

void begin_driver(const link_map& object, Lmid_t space) noexcept;
/// Even if the program closes it: what it has given stays given, and it is asked at the end of the program.
void keep_driver() noexcept;

/// No lock is held: NVML is loaded here, and the loader may call constructors that allocate.
bool see_device_first(int device) noexcept;
/// Before anything is taken of it. False: the driver has not begun, or has no such device, and will say so.
inline bool see_device(int device) noexcept {
  return Ledger::get().device(device).is_seen.load(std::memory_order_acquire) || see_device_first(device);
}

}  // namespace gpupool::audit
