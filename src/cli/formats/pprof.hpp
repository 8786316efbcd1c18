// SPDX-License-Identifier: Apache-2.0
// A recording as a profile for pprof, and for whatever reads its format.
#pragma once

#include <string>

#include "cli/recording/recording.hpp"

namespace gpupool::cli {

/// The profile, packed, as `go tool pprof` and Perfetto read it: objects and bytes that were allocated, that
/// are live at the end, and that were live at the pool's peak. Samples carry tag, stream, thread and size as
/// labels.
std::string pprof_of(const Recording& recording, uint64_t pool);

}  // namespace gpupool::cli
