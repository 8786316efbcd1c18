// SPDX-License-Identifier: Apache-2.0
// The capacity of a simulated device that several processes use, as they use a GPU: GPUPOOL_SIM_SHARED=NAME
// in the environment of each.
//
// A file in /dev/shm records how much each process holds; a lock on a byte of the file shows that the process
// is alive. What a process holds becomes free when it ends, for whatever reason. No process waits for
// another: each first adds what it wants, then sums up, and takes its addition back if the sum is too high.
// So two simultaneous requests may both be refused although there was room for one, but the total never
// exceeds the capacity.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/no_copy.hpp"
#include "base/status.hpp"

namespace gpupool::internal {

/// Not thread-safe: the device's lock is held, around fork too.
class SimShared : NoCopy {
 public:
  /// `shared` stays null if the environment has no GPUPOOL_SIM_SHARED. INVALID_ARGUMENT: it is not a valid
  /// name; UNAVAILABLE: the file cannot be used.
  static Status open(int32_t ordinal, std::unique_ptr<SimShared>& shared);
  ~SimShared();

  /// False, and nothing charged, if all processes together would hold more than `capacity`.
  bool charge(uint64_t bytes, uint64_t capacity) noexcept;
  void refund(uint64_t bytes) noexcept;
  /// What all living processes hold.
  uint64_t used() const noexcept;

  /// In a child after fork, whose parent owned this device.
  void forget() noexcept { charged_ = nullptr; }

 private:
  SimShared(std::string path, std::atomic<uint64_t>* charged, uint32_t slot)
      : path_(std::move(path)), charged_(charged), slot_(slot) {}

  std::string path_;
  std::atomic<uint64_t>* charged_;  // bytes by slot, in the mapped file
  uint32_t slot_;
};

/// Identifies all processes that share the device, and no others: the value of GPUPOOL_SIM_SHARED.
std::string sim_shared_name(int32_t ordinal);

}  // namespace gpupool::internal
