// SPDX-License-Identifier: Apache-2.0
// What NVIDIA's management library says of GPUs, including memory that no pool of ours holds.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gpupool::cli {

struct GpuUser {
  uint64_t pid = 0;
  uint64_t bytes = 0;
};

struct Gpu {
  uint32_t number = 0;  // NVML's, which need not be CUDA's
  std::string id;       // "GPU-..."
  std::string name;
  uint64_t total = 0;
  uint64_t used = 0;
  uint64_t free = 0;
  std::vector<GpuUser> users;  // whose memory is known; none if the driver does not say
};

/// Loads libnvidia-ml.so.1, or what GPUPOOL_LIBNVML names; without that library it sees no GPUs.
class Nvml {
 public:
  Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  ~Nvml();

  /// The GPUs that answer.
  std::vector<Gpu> look() const;

 private:
  struct Functions;
  std::unique_ptr<Functions> functions_;  // null: no library
};

}  // namespace gpupool::cli
