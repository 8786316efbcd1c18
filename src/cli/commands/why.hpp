// SPDX-License-Identifier: Apache-2.0
// Finds the address in words that name one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace gpupool::cli {

/// An address that words name.
struct NamedAddress {
  uint64_t address = 0;
  uint64_t bytes = 1;  // that it may mean: the kernel names only the page
  std::string access;  // such as "write", if the words say so
};

/// Reads "0x7f8410b12345", "139742...", a line of the kernel's log with an Xid, or of compute-sanitizer.
std::optional<NamedAddress> find_address(const std::string& words);

}  // namespace gpupool::cli
