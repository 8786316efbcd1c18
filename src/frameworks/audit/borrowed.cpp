// SPDX-License-Identifier: Apache-2.0
// What src/share needs of src/base and src/os, without threads, thread-local storage and the C++ library.
#include <fcntl.h>
#include <sys/resource.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>

#include "base/spin_lock.hpp"
#include "base/status.hpp"
#include "frameworks/audit/line.hpp"
#include "os/files.hpp"

namespace gpupool::internal {

/// There is no record of a thread's last failure: it is said.
Status fail(Status status, const char* format, ...) noexcept {
  std::array<char, 400> text{};
  va_list values;
  va_start(values, format);
  (void)std::vsnprintf(text.data(), text.size(), format, values);
  va_end(values);
  audit::Line line;
  line.add("gpupool run: no budget of a group: %s", text.data());
  line.write();
  return status;
}

void cpu_relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

bool os::may_be_as_large(uint64_t bytes) noexcept {
  rlimit limit{};
  const bool may = getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= bytes;
  if (!may) errno = EFBIG;
  return may;
}

bool os::allocate_room(int file, uint64_t offset, uint64_t bytes) noexcept {
  if (!may_be_as_large(offset + bytes)) return false;
  do {
    errno = posix_fallocate(file, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (errno == EINTR);
  return errno == 0;
}

}  // namespace gpupool::internal
