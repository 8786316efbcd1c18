// SPDX-License-Identifier: Apache-2.0
#define WIN32_LEAN_AND_MEAN
#include <fcntl.h>
#include <io.h>
#include <stdio.h>
#include <sys/stat.h>
#include <windows.h>

#include <cerrno>
#include <cstdint>

#include "cli/base/system.hpp"

namespace gpupool::cli {

void prepare_process() noexcept {
  (void)_setmode(_fileno(stdin), _O_BINARY);
  (void)_setmode(_fileno(stdout), _O_BINARY);
}

bool is_terminal(std::FILE* file) noexcept {
  DWORD mode = 0;
  return GetConsoleMode(reinterpret_cast<HANDLE>(_get_osfhandle(_fileno(file))), &mode) != 0;
}

int create_new(const char* path) noexcept {
  return _open(path, _O_WRONLY | _O_CREAT | _O_EXCL | _O_BINARY | _O_NOINHERIT, _S_IREAD | _S_IWRITE);
}

void close_file(int file) noexcept {
  _close(file);
}

int create_unique(std::string& path) noexcept {
  constexpr size_t kLetters = 6;
  constexpr int kTries = 100;
  uint64_t number = GetTickCount64() << 16 ^ GetCurrentProcessId();
  for (int tries = 0; tries < kTries; ++tries, ++number) {
    uint64_t left = number * 0x9e3779b97f4a7c15 >> 32;
    for (size_t at = path.size() - kLetters; at < path.size(); ++at, left /= 26)
      path[at] = static_cast<char>('a' + left % 26);
    const int file = create_new(path.c_str());
    if (file >= 0 || errno != EEXIST) return file;
  }
  return -1;
}

/// Whoever may use the folder may use the file, from the start.
void let_umask_decide(std::FILE*) noexcept {}

std::FILE* open_to_write(const char* path) noexcept {
  return std::fopen(path, "wb");
}

bool replace_file(const char* from, const char* to) noexcept {
  if (MoveFileExA(from, to, MOVEFILE_REPLACE_EXISTING) != 0) return true;
  errno = EACCES;
  return false;
}

std::tm local_time(std::time_t moment) noexcept {
  std::tm local{};
  if (_localtime64_s(&local, &moment) != 0) return {};
  return local;
}

}  // namespace gpupool::cli
