// SPDX-License-Identifier: Apache-2.0
// macOS's loader knows all functions itself; on Windows they are in files that only other tools read.
#include "os/symbols.hpp"

namespace gpupool::internal::os {

void Symbols::complete(Origin&, const void*) {}

}  // namespace gpupool::internal::os
