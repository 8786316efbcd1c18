// SPDX-License-Identifier: Apache-2.0
// The command's readers of files, given any bytes: recordings, traces, RMM's logs and PyTorch's snapshots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace gpupool::fuzz {

/// A reader did what it must not: an error without a place, or a file that it took and then could not use.
class Misread : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Gives the bytes to the reader that the first of them chooses. True if it took them. Throws Misread.
bool read_file(const uint8_t* data, size_t size);

/// What the readers take: for each of them at least one input.
std::vector<std::string> reader_seeds();

}  // namespace gpupool::fuzz
