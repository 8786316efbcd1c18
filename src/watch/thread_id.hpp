// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace gpupool::internal {

/// The calling thread's number, as the kernel and debuggers show it. One system call. glibc has gettid()
/// from 2.30 on only, and the wheels run on 2.28.
inline uint32_t thread_id() noexcept {
  return static_cast<uint32_t>(syscall(SYS_gettid));
}

}  // namespace gpupool::internal
