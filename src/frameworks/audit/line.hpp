// SPDX-License-Identifier: Apache-2.0
// What is said to the user, on standard error as it was when the program began.
#pragma once

#include <array>
#include <cstddef>

namespace gpupool::audit {

/// Before the program begins. A program may close standard error, and have a file of its own in its place,
/// into which nothing is written.
void remember_standard_error() noexcept;

/// Written in one piece, or not at all where nobody reads: it neither waits nor ends the program.
class Line {
 public:
  __attribute__((format(printf, 2, 3))) void add(const char* format, ...) noexcept;
  void write() noexcept;

 private:
  std::array<char, 512> text_{};
  size_t size_ = 0;
};

}  // namespace gpupool::audit
