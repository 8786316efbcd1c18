// SPDX-License-Identifier: Apache-2.0
// The output of a command: a file, or standard output.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace gpupool::cli {

/// A file that appears when it is complete: close() replaces an existing file, which stays if close() is
/// never called. Anything but a regular file, such as /dev/null or a pipe, gets all of it in close(), or
/// nothing: who reads from a pipe would take a part for the whole.
class OutFile {
 public:
  /// "-": standard output. Throws InputError, also if it would replace a file that the command has read.
  explicit OutFile(const std::string& path, const std::vector<std::string>& read = {});
  ~OutFile();
  OutFile(const OutFile&) = delete;
  OutFile& operator=(const OutFile&) = delete;

  void write(std::string_view text);
  /// Makes the file readable by all users that the umask allows; without this, by its owner only.
  void let_all_read() const noexcept;
  /// Throws InputError if something could not be written.
  void close();

 private:
  std::string path_;
  std::string partial_;  // "": standard output, or no file
  std::string held_;     // what goes there
  std::FILE* file_ = nullptr;
};

}  // namespace gpupool::cli
