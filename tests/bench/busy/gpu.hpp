// SPDX-License-Identifier: Apache-2.0
// Work on a GPU that takes a known time and shows whether anybody else wrote to a block.
#pragma once

#include <cstdint>
#include <memory>

#include "gpupool/gpupool.h"

namespace busy {

class Gpu {
 public:
  virtual ~Gpu() = default;
  /// Queues on `stream` a kernel of at least `nanoseconds` that fills the block with a pattern, or with
  /// `is_check` compares it. The host waits when some thousand kernels are queued, as with every CUDA
  /// program.
  virtual void touch(gpupool_stream_t stream, gpupool_ptr_t block, uint64_t bytes, uint32_t pattern,
                     bool is_check, uint64_t nanoseconds) = 0;
  /// False on the simulated device, which does not tell.
  virtual bool is_busy(gpupool_stream_t stream) = 0;
  /// Words that were not as they had been written; on the simulated device, accesses that broke its rules.
  /// Waits for all streams.
  virtual uint64_t mismatches() = 0;
  /// As in gpupool_config_t.
  virtual gpupool_backend_t backend() const = 0;
};

/// CUDA where the library finds a GPU, else the simulated device. Throws std::runtime_error.
std::unique_ptr<Gpu> open_gpu();

}  // namespace busy
