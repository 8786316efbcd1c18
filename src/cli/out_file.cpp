// SPDX-License-Identifier: Apache-2.0
#include "cli/out_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "cli/library.hpp"

namespace gpupool::cli {

OutFile::OutFile(const std::string& path) : path_(path), file_(stdout) {
  if (path == "-") return;
  partial_ = path + ".XXXXXX";
  const int file = mkstemp(partial_.data());
  file_ = file < 0 ? nullptr : fdopen(file, "wb");
  if (file_ == nullptr) throw InputError(fmt::format("{} cannot be written: {}", path, std::strerror(errno)));
}

OutFile::~OutFile() {
  if (partial_.empty()) return;
  if (file_ != nullptr) (void)std::fclose(file_);
  (void)unlink(partial_.c_str());
}

void OutFile::close() {
  if (partial_.empty()) return;  // main looks whether standard output could be written
  const bool is_good = std::ferror(file_) == 0;
  const bool is_closed = std::fclose(std::exchange(file_, nullptr)) == 0;
  if (!is_good || !is_closed || std::rename(partial_.c_str(), path_.c_str()) != 0) {
    throw InputError(fmt::format("{} cannot be written: {}", path_, std::strerror(errno)));
  }
  partial_.clear();
}

}  // namespace gpupool::cli
