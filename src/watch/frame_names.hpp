// SPDX-License-Identifier: Apache-2.0
// What frames of native code are called.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpupool::internal {

/// Whether a file is of CUDA's driver, of its runtime, or of CUPTI: what lies between an allocation and who
/// wanted it.
bool is_of_driver(std::string_view module) noexcept;

/// A line for each frame: "function+0x1c (libname.so)", or "libname.so+0x12ab" for one without a name. The
/// first frames are omitted if they are the library's or a binding's own, or the driver's: where they are
/// part of the program, only their names tell. Asks the loader, and reads files: call it with no lock held.
/// Throws std::bad_alloc.
std::string frame_names(const std::vector<void*>& frames);

/// Around fork.
void lock_frame_names() noexcept;
void unlock_frame_names() noexcept;

}  // namespace gpupool::internal
