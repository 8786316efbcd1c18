// SPDX-License-Identifier: Apache-2.0
// Reads what /proc has of a process.
#pragma once

#include <dirent.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace gpupool::cli {

struct CloseFolder {
  void operator()(DIR* folder) const noexcept { (void)closedir(folder); }
};
using Folder = std::unique_ptr<DIR, CloseFolder>;

/// A descriptor, closed at the end.
class OpenFile {
 public:
  explicit OpenFile(int number = -1) noexcept : number_(number) {}
  OpenFile(OpenFile&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  OpenFile& operator=(OpenFile&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~OpenFile() {
    if (number_ >= 0) (void)close(number_);
  }
  int get() const noexcept { return number_; }
  explicit operator bool() const noexcept { return number_ >= 0; }

 private:
  int number_;
};

/// Opens a folder in another one. Null if it is gone or closed to us; errno says which.
Folder open_folder(int in, const char* name);

/// The number that a text is; 0 if it is none.
uint64_t number_of(std::string_view text);

/// The beginning of a small file; "" if it cannot be read.
std::string read_begin(int in, const char* name, size_t most = 4096);

/// How the process numbers itself: the last of its numbers in nested namespaces.
uint64_t inner_number(int process, uint64_t outer);

/// Whether a descriptor in a folder of them is a memfd of this name.
bool is_memfd(int files, const char* descriptor, std::string_view name);

}  // namespace gpupool::cli
