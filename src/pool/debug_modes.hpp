// SPDX-License-Identifier: Apache-2.0
// What pools do to find the bugs of those who use them.
#pragma once

#include <cstdint>

#include "base/status.hpp"

namespace gpupool::internal {

/// See docs/debugging.md. All off: a pool has nothing more to do than without any of this.
struct DebugModes {
  bool poison = false;       // blocks are filled with NaN when they are handed out, and when they are free
  bool canary = false;       // 512 bytes and more behind each block must stay as they are
  bool fence = false;        // blocks have mappings of their own, with nothing behind
  bool guard = false;        // a few of them have
  bool annotate = false;     // the simulated device and the host's memory checkers know where blocks are
  uint64_t fence_least = 0;  // the smallest block that is fenced
  uint64_t quarantine = 0;   // bytes of freed blocks that are held back

  bool any() const noexcept { return guard || slows(); }
  /// Whether every malloc and free must be seen.
  bool slows() const noexcept { return poison || canary || fence || annotate || quarantine != 0; }
};

/// Reads "poison,canary,fence,guard,annotate,quarantine=64MiB"; `name` is what a message calls the text.
Status parse_debug_modes(const char* name, const char* text, DebugModes& modes);

/// The modes of pools that are created from now on; comes before GPUPOOL_DEBUG.
void set_debug_modes(const DebugModes& modes) noexcept;
void unset_debug_modes() noexcept;

/// Those that were set, else those of GPUPOOL_DEBUG.
Status find_debug_modes(DebugModes& modes);

}  // namespace gpupool::internal
