// SPDX-License-Identifier: Apache-2.0
#include "cli/base/process_files.hpp"

#include <fcntl.h>

#include <array>
#include <charconv>

namespace gpupool::cli {

Folder open_folder(int in, const char* name) {
  const int number = openat(in, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (number < 0) return nullptr;
  Folder folder(fdopendir(number));
  if (folder == nullptr) (void)close(number);
  return folder;
}

uint64_t number_of(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() ? number : 0;
}

std::string read_begin(int in, const char* name, size_t most) {
  const OpenFile file(openat(in, name, O_RDONLY | O_CLOEXEC));
  std::string text(most, '\0');
  const ssize_t count = file.get() < 0 ? -1 : read(file.get(), text.data(), text.size());
  text.resize(count < 0 ? 0 : static_cast<size_t>(count));
  return text;
}

uint64_t inner_number(int process, uint64_t outer) {
  constexpr std::string_view kLabel = "\nNSpid:";
  std::string text = read_begin(process, "status");
  const size_t label = text.find(kLabel);
  if (label == std::string::npos || text.find('\n', label + 1) == std::string::npos) {
    // It is behind the line of all groups that the process is in: up to 65536, of 11 characters each.
    constexpr size_t kMostStatus = size_t{1} << 20;
    text = read_begin(process, "status", kMostStatus);
  }
  const size_t begin = text.find(kLabel);
  if (begin == std::string::npos) return outer;
  const std::string_view line =
      std::string_view(text).substr(begin + 1, text.find('\n', begin + 1) - begin - 1);
  return number_of(line.substr(line.find_last_of(" \t") + 1));
}

bool is_memfd(int files, const char* descriptor, std::string_view name) {
  std::array<char, 64> target{};
  const ssize_t length = readlinkat(files, descriptor, target.data(), target.size());
  return length > 0 && std::string_view(target.data(), static_cast<size_t>(length)) ==
                           "/memfd:" + std::string(name) + " (deleted)";
}

}  // namespace gpupool::cli
