// SPDX-License-Identifier: Apache-2.0
#include "watch/clock.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <string_view>

namespace gpupool::internal {

bool has_processor_clock() noexcept {
#if defined(__x86_64__)
  char name[16] = {};
  const int file =
      open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t length = read(file, name, sizeof name - 1);
  close(file);
  return length >= 3 && std::string_view(name).starts_with("tsc");
#else
  return false;
#endif
}

}  // namespace gpupool::internal
