// SPDX-License-Identifier: Apache-2.0
// The capacity of a simulated device that several processes use, as they use a GPU: GPUPOOL_SIM_SHARED=NAME
// in the environment of each.
//
// A file in /dev/shm records how much each process holds; a lock on a byte of the file shows that the process
// is alive. What a process holds becomes free when it ends, for whatever reason. No process waits for
// another: each first announces what it wants, then sums up what all hold and want, and takes its
// announcement back if the sum is too high. So two simultaneous requests may both be refused although there
// was room for one, but the total that is held never exceeds the capacity.
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
  /// What all living processes hold. Not of one moment: memory that moves meanwhile may count twice.
  uint64_t used() const noexcept;

  /// In a child after fork, whose parent owned this device.
  void forget() noexcept { table_ = nullptr; }

 private:
  struct Table;

  SimShared(std::string path, Table* table, uint32_t slot)
      : path_(std::move(path)), table_(table), slot_(slot) {}
  uint64_t sum(bool counts_wanted) const noexcept;

  std::string path_;
  Table* table_;  // in the mapped file
  uint32_t slot_;
};

/// Identifies all processes that share the device, and no others: the value of GPUPOOL_SIM_SHARED.
std::string sim_shared_name(int32_t ordinal);
/// The file of such a device, which nobody removes. Only on Linux.
std::string sim_shared_path(int32_t ordinal);

}  // namespace gpupool::internal
