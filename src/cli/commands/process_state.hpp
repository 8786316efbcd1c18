// SPDX-License-Identifier: Apache-2.0
// gpupool info --process. In a header of its own, since other systems include it too, to refuse.
#pragma once

#include <string>

namespace gpupool::cli {

/// Prints what a whole process is to the driver, and changes nothing. `who`: a number, or a name.
int show_process(const std::string& who, bool json);

}  // namespace gpupool::cli
