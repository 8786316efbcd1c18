// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

#include "cli/base/system.hpp"

namespace gpupool::cli {

void prepare_process() noexcept {
  // The next file that is opened would take the place of a stream that is closed, and get what is written to
  // that. Reading from the first, and writing to the second, still fails; what the third would say is lost.
  constexpr int kModes[] = {O_WRONLY, O_RDONLY, O_WRONLY};
  for (int file = 0; file < 3; ++file) {
    if (fcntl(file, F_GETFD) < 0) (void)open("/dev/null", kModes[file]);
  }
#ifdef __GLIBC__
  // Left alone, it keeps up to 64 MiB of what has been freed, once something of 32 MiB was.
  (void)mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
}

bool is_terminal(std::FILE* file) noexcept {
  return isatty(fileno(file)) == 1;
}

int create_new(const char* path) noexcept {
  return open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

void close_file(int file) noexcept {
  close(file);
}

int create_unique(std::string& path) noexcept {
  return mkstemp(path.data());
}

void let_umask_decide(std::FILE* file) noexcept {
  const mode_t mask = umask(0);
  (void)umask(mask);
  (void)fchmod(fileno(file), 0666 & ~mask);
}

std::FILE* open_to_write(const char* path) noexcept {
  constexpr int kTries = 500;
  constexpr timespec kBetween{0, 10'000'000};
  int file = -1;
  for (int tries = 0; file < 0 && tries < kTries; ++tries) {
    if (tries != 0) nanosleep(&kBetween, nullptr);
    file = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (file < 0 && errno != ENXIO) return nullptr;
  }
  if (file < 0) return nullptr;
  (void)fcntl(file, F_SETFL, fcntl(file, F_GETFL) & ~O_NONBLOCK);
  return fdopen(file, "wb");
}

bool replace_file(const char* from, const char* to) noexcept {
  return std::rename(from, to) == 0;
}

std::tm local_time(std::time_t moment) noexcept {
  std::tm local{};
  if (localtime_r(&moment, &local) == nullptr) return {};
  return local;
}

}  // namespace gpupool::cli
