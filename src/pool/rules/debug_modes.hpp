// SPDX-License-Identifier: Apache-2.0
// Modes in which a pool looks for bugs of the programs that use it.
#pragma once

#include <cstdint>

#include "base/status.hpp"

namespace gpupool::internal {

struct DeviceInfo;

/// See docs/debugging.md. With all of them off, a pool does no extra work.
struct DebugModes {
  bool poison = false;       // fill blocks with NaN when they are handed out, and once they are free
  bool canary = false;       // see whether anything wrote to the 512 bytes or more behind each block
  bool fence = false;        // give each block a mapping of its own, with nothing behind it
  bool guard = false;        // do so for a few blocks
  bool annotate = false;     // tell the device and memory checkers where blocks are
  uint64_t fence_least = 0;  // the smallest block that is fenced
  uint64_t quarantine = 0;   // bytes of freed blocks to hold back

  bool any() const noexcept { return guard || slows(); }
  bool has_fences() const noexcept { return fence || guard; }
  /// Whether every malloc and free must be seen.
  bool slows() const noexcept { return poison || canary || fence || annotate || quarantine != 0; }
};

/// Reads "poison,canary,fence,guard,annotate,quarantine=64MiB"; `name` is what a message calls the text.
Status parse_debug_modes(const char* name, const char* text, DebugModes& modes);

/// UNSUPPORTED if a device lacks something that the modes need, or if they do not go with each other there.
/// `vmm`: whether the pool maps its memory.
Status check_debug_modes(const DebugModes& modes, const DeviceInfo& info, bool vmm);

/// Sets the modes of pools that are created from now on. They take precedence over GPUPOOL_DEBUG.
void set_debug_modes(const DebugModes& modes) noexcept;
void unset_debug_modes() noexcept;

/// Gives the modes that were set, else those of GPUPOOL_DEBUG; without either, `modes` stays as it is.
Status find_debug_modes(DebugModes& modes);

}  // namespace gpupool::internal
