// SPDX-License-Identifier: Apache-2.0
// Files that processes send: snapshots, as text, and who holds live bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpupool::cli {

/// A line of JSON for each pool; with `as_report`, what gpupool_report says of it. Throws std::runtime_error
/// for a file that is no snapshot.
std::string text_of_snapshot(int file, uint64_t pid, bool as_report);

/// As gpupool_holders has it, with texts that are harmless.
struct ShownHolder {
  uint64_t pool = 0;
  uint64_t live_bytes = 0;
  uint64_t samples = 0;
  uint64_t oldest_ns = 0;
  uint64_t newest_ns = 0;
  std::string tag;
  std::vector<std::string> frames;  // innermost first, and at least one
};

/// Throws std::runtime_error for a file that lists no holders.
std::vector<ShownHolder> read_holders(int file);

}  // namespace gpupool::cli
