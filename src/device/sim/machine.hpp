// SPDX-License-Identifier: Apache-2.0
// One simulated device: everything that sim_configure replaces, and the work that streams do on it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "device/device.hpp"
#include "device/sim/clock.hpp"
#include "device/sim/devices.hpp"
#include "device/sim/memory.hpp"
#include "device/sim/script.hpp"
#include "device/sim/settings.hpp"
#include "device/sim/streams.hpp"
#include "device/sim/work.hpp"

namespace gpupool::internal {

struct SimMachine;

/// By number; null if there is none yet.
using SimMachines = std::array<SimMachine*, kSimDeviceCount>;

/// Not thread-safe, except clock.now(): the device's lock is held.
struct SimMachine {
  SimMachine(int32_t ordinal, const SimSettings& settings, SimAddressSpace& addresses);

  /// Begins a driver call: charges its price, and fails it if the script says so.
  Status enter(Call call, double price) noexcept {
    clock.charge(price);
    return script.check(call);
  }

  // Work may touch the memory of every device; their locks are held. If it breaks a rule, all of it is
  // refused: 700 for unusable memory, 719 for a race with another stream of this device. On a capturing
  // stream nothing is executed: only addresses are checked, and the capture records the work.

  Status work(const SimMachines& all, Stream stream, Address address, uint64_t size, uint64_t nanoseconds);
  Status fill(const SimMachines& all, Address destination, uint32_t word, uint64_t size, Stream stream,
              bool is_own);
  Status copy(const SimMachines& all, Address destination, Address source, uint64_t size, Stream stream);
  /// A copy between device and host memory over the bus, which does one at a time in each direction. On a
  /// device without data it takes time, but copies nothing.
  Status transfer(const SimMachines& all, Address destination, Address source, uint64_t size, Stream stream);
  /// Looks, in one piece of the device's time.
  Status inspect(const SimMachines& all, std::span<const Look> looks, Address report, Stream stream);
  /// Executes what an ended capture recorded, under the current rules.
  Status launch(const SimMachines& all, uint64_t capture, Stream stream);

  DeviceInfo info;
  SimClock clock;
  SimFaults faults;
  SimScript script;
  SimStreams streams;
  SimMemory memory;

  /// Until when the bus is busy, in the direction of the host and from it.
  std::array<uint64_t, 2> bus_until{};

 private:
  /// A part of one mapping, in this device's memory or another's.
  struct Touch {
    SimMachine* owner = nullptr;
    SimMemory::ExtentPart part;
    bool writes = false;
  };
  /// One piece of work at its time.
  struct Step {
    const SimWork* work = nullptr;
    uint64_t start = 0;
    uint64_t end = 0;
    std::vector<Touch> touches;
  };
  /// For messages: which stream wants to do what.
  struct Caller {
    Stream stream = 0;
    uint64_t capture = 0;  // whose graph it is; 0: none
  };

  Status find_for_pool(const char* what, Stream stream, SimStream*& queue);
  Status run(const SimMachines& all, const Caller& caller, std::span<const SimWork> works);
  Status plan(const SimMachines& all, const Caller& caller, Step& step);
  Status touch(const SimMachines& all, const Caller& caller, Address address, bool writes, Step& step);
  Status check_races(const Caller& caller, const Step& step);
  void add_accesses(Stream stream, const Step& step, std::vector<SimAccesses::Access>& accesses) const;
  Status execute(const Step& step);
  Status move_bytes(const Step& step);
  Status copy_over_host(Address destination, Address source, uint64_t size);
};

}  // namespace gpupool::internal
