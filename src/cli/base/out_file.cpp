// SPDX-License-Identifier: Apache-2.0
#include "cli/base/out_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "cli/base/library.hpp"
#include "cli/base/system.hpp"

namespace gpupool::cli {
namespace {

/// Whether a path leads, through links, to a device, a pipe or the like. So /dev/null is not replaced.
bool is_no_file(const std::string& path) {
  std::error_code ignored;
  const auto kind = std::filesystem::status(path, ignored).type();
  using Kind = std::filesystem::file_type;
  return kind != Kind::none && kind != Kind::not_found && kind != Kind::regular;
}

}  // namespace

OutFile::OutFile(const std::string& path, const std::vector<std::string>& read) : path_(path), file_(stdout) {
  if (path == "-") return;
  for (const std::string& file : read) {
    std::error_code ignored;  // "-", or not there
    if (!is_no_file(path) && std::filesystem::equivalent(path, file, ignored))
      throw InputError(fmt::format("{} is read by this command, and stays: name another file", path));
  }
  if (is_no_file(path)) {
    file_ = open_to_write(path.c_str());
    if (file_ == nullptr && errno == ENXIO)
      throw InputError(fmt::format("{} cannot be written: nobody reads from it", path));
  } else {
    partial_ = path + ".XXXXXX";
    const int file = create_unique(partial_);
    file_ = file < 0 ? nullptr : fdopen(file, "wb");
  }
  if (file_ == nullptr) throw InputError(fmt::format("{} cannot be written: {}", path, std::strerror(errno)));
}

OutFile::~OutFile() {
  if (file_ != nullptr && file_ != stdout) (void)std::fclose(file_);
  if (!partial_.empty()) (void)std::remove(partial_.c_str());
}

void OutFile::write(std::string_view text) {
  if (partial_.empty()) {
    held_ += text;
  } else {
    std::fwrite(text.data(), 1, text.size(), file_);
  }
}

void OutFile::let_all_read() const noexcept {
  if (!partial_.empty()) let_umask_decide(file_);
}

void OutFile::close() {
  std::fwrite(held_.data(), 1, held_.size(), file_);
  if (file_ == stdout) return;  // main checks whether it could be written
  const bool is_good = std::ferror(file_) == 0;
  const bool is_closed = std::fclose(std::exchange(file_, nullptr)) == 0;
  if (!is_good || !is_closed || (!partial_.empty() && !replace_file(partial_.c_str(), path_.c_str()))) {
    throw InputError(fmt::format("{} cannot be written: {}", path_, std::strerror(errno)));
  }
  partial_.clear();
}

}  // namespace gpupool::cli
