// SPDX-License-Identifier: Apache-2.0
// Writes a recording that was not made by the library, in the same format.
#pragma once

#include <string>

#include "cli/recording/recording.hpp"

namespace gpupool::cli {

/// The bytes of a packed recording of one thread, before gzip. Events are in the order of time, and none is a
/// mark.
std::string bytes_of_recording(const Recording& recording);

}  // namespace gpupool::cli
