// SPDX-License-Identifier: Apache-2.0
// The simulated devices of this process, and what happens to them in a forked child.
//
// Order of locks: the pools' come before all of these; then the registry's own, held only for lookups and
// around fork; then the devices', by number; then those that one device uses inside.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>

#include "device/sim/machine.hpp"

namespace gpupool::internal {

/// One simulated device, for the life of the process.
struct SimState {
  std::mutex mutex;  // for all below
  int64_t open = 0;
  std::unique_ptr<SimMachine> machine;  // stays the same while open
};

/// Runs a call. If the host has no memory for its records, it changes nothing.
template <class Action>
Status sim_attempt(Action&& action) {
  try {
    return action();
  } catch (const std::bad_alloc&) {
    return fail(GPUPOOL_ERROR_HOST_OUT_OF_MEMORY, "simulated device: the host has no memory for its records");
  }
}

/// The device with that number, created on first use. INVALID_ARGUMENT: no such number, or a bad GPUPOOL_SIM.
Status find_sim(int32_t ordinal, SimState*& state);

/// A new device, not yet stored anywhere. Fails if it cannot be shared as the environment asks.
Status make_sim_machine(int32_t ordinal, const SimSettings& settings, std::unique_ptr<SimMachine>& machine);

/// From now on a forked child has new devices, and its own copy of the memory of inherited blocks. Call it
/// once, before registering fork handlers for any lock that is held while a device is called.
void sim_watch_fork() noexcept;

/// Holds the lock of every existing device, for operations on the memory of several.
class AllSims {
 public:
  AllSims();

  const SimMachines& machines() const noexcept { return machines_; }
  /// The time on each of them.
  SimTimes now() const noexcept;

 private:
  std::array<std::unique_lock<std::mutex>, kSimDeviceCount> locks_;
  SimMachines machines_{};
};

}  // namespace gpupool::internal
