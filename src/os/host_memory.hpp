// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gpupool::internal::os {

/// How much of the host's memory is this process's to have, in bytes.
struct HostMemory {
  uint64_t total = 0;      // at most, whatever others have
  uint64_t available = 0;  // still, without swapping
};

/// The least of what the machine has, of what each of the process's control groups leaves (a container's, and
/// all that it lies in), and of what the limits of the process leave. Reads about a dozen small files, which
/// takes some 50 us. False, with nothing written, where the system does not say. `root` is before the paths
/// of the system's files.
bool read_host_memory(HostMemory& memory, const char* root = "") noexcept;

}  // namespace gpupool::internal::os
