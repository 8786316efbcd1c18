// SPDX-License-Identifier: Apache-2.0
// What a command writes: a file, or standard output.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace gpupool::cli {

/// A file that appears when it is whole: what is there already is replaced by close(), and stays if that is
/// never called. What is no file, such as /dev/null or a pipe, is written to.
class OutFile {
 public:
  /// "-": standard output. Throws InputError.
  explicit OutFile(const std::string& path);
  ~OutFile();
  OutFile(const OutFile&) = delete;
  OutFile& operator=(const OutFile&) = delete;

  void write(std::string_view text) { std::fwrite(text.data(), 1, text.size(), file_); }
  /// Throws InputError where something could not be written.
  void close();

 private:
  std::string path_;
  std::string partial_;  // "": standard output, or no file
  std::FILE* file_ = nullptr;
};

}  // namespace gpupool::cli
