// SPDX-License-Identifier: Apache-2.0
// gpupool as a pattern's allocator, on the simulated device or on a GPU.
#pragma once

#include <gpupool/gpupool.h>

#include <string>
#include <vector>

#include "attack/hunt/allocator.hpp"
#include "attack/hunt/pattern.hpp"

namespace hunt {

/// What pools and the device have counted so far, of all pools together.
struct Counts {
  uint64_t hits = 0;
  uint64_t misses = 0;
  /// Those that move memory or wait, and their time; and of all kinds.
  uint64_t driver_calls = 0;
  uint64_t driver_ns = 0;
  uint64_t all_calls = 0;
  uint64_t reserved_bytes = 0;
};

class Pools : public Allocator {
 public:
  /// With as many pools as the pattern says, each with a limit of so many bytes (0: none).
  Pools(const Pattern& pattern, gpupool_backend_t backend, uint64_t limit);
  ~Pools() override;
  Pools(const Pools&) = delete;
  Pools& operator=(const Pools&) = delete;

  uint64_t malloc(int pool, uint64_t bytes, int stream) override;
  void free(int pool, uint64_t address, uint64_t bytes, int stream) override;
  void record_stream(int pool, uint64_t address, int stream) override;
  void work(uint64_t address, int stream, uint64_t nanoseconds) override;
  void begin_capture(int stream) override;
  void end_capture(int stream) override;
  void advance(uint64_t nanoseconds) override;
  void synchronize() override;
  uint64_t reserved_bytes() const override;
  uint64_t locks_taken() const override;

  Counts counts() const;
  /// Rules of the simulated device that were broken since the pools were created, and the pools' own records
  /// that are wrong; the last of them in words.
  uint64_t faults(std::string& words) const;

 private:
  gpupool_t* pool(int number) const { return pools_[static_cast<size_t>(number)]; }
  gpupool_stream_t stream(int number) const { return streams_[static_cast<size_t>(number)]; }

  const bool is_simulated_;
  std::vector<gpupool_t*> pools_;
  std::vector<gpupool_stream_t> streams_;
  uint64_t capture_ = 0;
  uint64_t faults_before_ = 0;
};

}  // namespace hunt
