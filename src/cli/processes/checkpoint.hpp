// SPDX-License-Identifier: Apache-2.0
// Processes that the CUDA driver itself takes off the GPU and puts back: any that uses CUDA, whole.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cli/processes/checkpoint_types.hpp"

namespace gpupool::cli {

/// What the driver's calls on processes return. All wait at most for the time that is given, but for lock: a
/// call of the driver that takes longer cannot be ended, so the command then says so and ends itself.
class Checkpoint {
 public:
  /// Loads libcuda.so.1, or what GPUPOOL_LIBCUDA names. Throws InputError if there is none, or an older one.
  /// `limit`: seconds for each step.
  explicit Checkpoint(double limit);

  /// Throws InputError if the process does not use CUDA.
  driver::CUprocessState state(uint64_t pid);

  /// These throw std::runtime_error with the driver's words; a process that could not be locked runs on.
  void lock(uint64_t pid);
  void save(uint64_t pid);
  void restore(uint64_t pid);
  void unlock(uint64_t pid);

 private:
  unsigned call(const char* what, uint64_t pid, const std::function<unsigned()>& step);
  void must(const char* what, uint64_t pid, const std::function<unsigned()>& step);

  struct Functions;
  static const Functions& functions();
  double limit_;
};

}  // namespace gpupool::cli
