// SPDX-License-Identifier: Apache-2.0
// A process's answer to gpupool snapshot, as text.
#pragma once

#include <cstdint>
#include <string>

namespace gpupool::cli {

/// A line of JSON for each pool; with `as_report`, what gpupool_report says of it. Throws std::runtime_error
/// for a file that is no snapshot.
std::string text_of_snapshot(int file, uint64_t pid, bool as_report);

}  // namespace gpupool::cli
