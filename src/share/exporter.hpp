// SPDX-License-Identifier: Apache-2.0
// The process that exported a block, as its handle names it: a number, and the PID namespace whose number it
// is. Another namespace may have another process of that number, as containers do.
#pragma once

#include <cstdint>

#include "base/status.hpp"
#include "share/region.hpp"

namespace gpupool::internal::share {

struct ProcessName {
  int pid = 0;         // as its own namespace numbers it
  uint64_t space = 0;  // the inode of that namespace; 0: the system does not tell
};

/// This process's.
ProcessName own_name() noexcept;

/// Opens the process, which must be in this namespace or in one below. UNAVAILABLE, with the reason: it has
/// ended, or cannot be seen from here. UNSUPPORTED: the system is too old.
Status open_process(const ProcessName& name, File& process);

}  // namespace gpupool::internal::share
