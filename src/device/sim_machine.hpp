// SPDX-License-Identifier: Apache-2.0
// A simulated device from the factory: all that sim_configure replaces, and the work that streams do on it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "device/device.hpp"
#include "device/sim_clock.hpp"
#include "device/sim_memory.hpp"
#include "device/sim_script.hpp"
#include "device/sim_settings.hpp"
#include "device/sim_streams.hpp"

namespace gpupool {

/// Not thread-safe but for clock.now(): the device's lock is held.
struct SimMachine {
  SimMachine(int32_t ordinal, const SimSettings& settings, SimAddressSpace& addresses);

  /// Begins a call of the driver: charges its price, and fails it if the script says so.
  Status enter(SimCall call, double price) noexcept {
    clock.charge(price);
    return script.check(call);
  }

  // Work is checked, and refused whole where it breaks a rule: 700 for memory that is not usable, 719 for a
  // race. On a capturing stream nothing is executed, and only addresses are checked.

  Status work(Stream stream, Address address, uint64_t size, uint64_t nanoseconds);
  Status fill(Address destination, uint8_t value, uint64_t size, Stream stream);
  Status copy(Address destination, Address source, uint64_t size, Stream stream);

  DeviceInfo info;
  SimClock clock;
  SimFaults faults;
  SimScript script;
  SimStreams streams;
  SimMemory memory;

 private:
  struct Access {
    Address address = 0;
    uint64_t size = 0;
    bool writes = true;
  };

  /// Queues work behind what the stream has, and executes it at once.
  Status queue(const char* what, Stream stream, std::span<const Access> accesses, uint64_t nanoseconds,
               const std::function<Status()>& execute);
  Status transfer(Address destination, bool to_host, Address source, bool from_host, uint64_t size);
  Status copy_over_host(Address destination, Address source, uint64_t size);
};

}  // namespace gpupool
