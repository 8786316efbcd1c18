// SPDX-License-Identifier: Apache-2.0
// What frames of native code are called.
#pragma once

#include <string>
#include <vector>

namespace gpupool::internal {

/// A line for each frame: "function+0x1c (libname.so)", or "libname.so+0x12ab" for one without a name. The
/// first frames are omitted if they are the library's or a binding's own: where they are part of the program,
/// only their names tell. Asks the loader, and reads files: call it with no lock held. Throws std::bad_alloc.
std::string frame_names(const std::vector<void*>& frames);

/// Around fork.
void lock_frame_names() noexcept;
void unlock_frame_names() noexcept;

}  // namespace gpupool::internal
