// SPDX-License-Identifier: Apache-2.0
// What gpupool_sim_* do: a test's control of a simulated device, whether or not anybody has it open.
#include <cstdio>
#include <mutex>
#include <utility>

#include "device/sim/registry.hpp"
#include "device/sim/sim.hpp"

namespace gpupool::internal {
namespace {

/// Runs action(machine) under the lock of a device, which need not be open.
template <class Action>
Status with_machine(int32_t ordinal, Action&& action) {
  return sim_attempt([&]() -> Status {
    SimState* state = nullptr;
    if (const Status status = find_sim(ordinal, state); status != kSuccess) return status;
    const std::lock_guard lock(state->mutex);
    return action(*state->machine);
  });
}

/// Runs action(machine, all) under the locks of all devices.
template <class Action>
Status with_all_machines(int32_t ordinal, Action&& action) {
  return sim_attempt([&]() -> Status {
    SimState* state = nullptr;
    if (const Status status = find_sim(ordinal, state); status != kSuccess) return status;
    const AllSims all;
    return action(*state->machine, all.machines());
  });
}

}  // namespace

Status sim_configure(int32_t ordinal, const gpupool_sim_config_t& config) {
  SimSettings settings;
  if (const Status status = sim_settings_from_environment(settings); status != kSuccess) return status;
  if (const Status status = sim_settings_from(config, settings); status != kSuccess) return status;
  return sim_attempt([&]() -> Status {
    SimState* state = nullptr;
    if (const Status status = find_sim(ordinal, state); status != kSuccess) return status;
    const AllSims all;
    if (state->open != 0) {
      return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "simulated device %d is in use", ordinal);
    }
    std::unique_ptr<SimMachine> made;
    if (const Status status = make_sim_machine(ordinal, settings, made); status != kSuccess) return status;
    for (SimMachine* const machine : all.machines()) {
      if (machine != nullptr) machine->memory.forget_work_of(ordinal);
    }
    state->machine = std::move(made);
    return kSuccess;
  });
}

Status sim_script(int32_t ordinal, const char* script) {
  if (script == nullptr) return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "sim script: NULL");
  return with_machine(ordinal, [&](SimMachine& machine) { return machine.script.set(script); });
}

Status sim_work(int32_t ordinal, Stream stream, Address address, uint64_t size, uint64_t nanoseconds) {
  return with_all_machines(ordinal, [&](SimMachine& machine, const SimMachines& all) {
    return machine.work(all, stream, address, size, nanoseconds);
  });
}

Status sim_advance(int32_t ordinal, uint64_t nanoseconds) {
  return with_machine(ordinal, [&](SimMachine& machine) {
    machine.clock.advance(nanoseconds);
    return kSuccess;
  });
}

Status sim_capture(int32_t ordinal, Stream stream, bool begin, bool alone) {
  return with_machine(ordinal, [&](SimMachine& machine) {
    return begin ? machine.streams.begin_capture(stream, alone) : machine.streams.end_capture(stream);
  });
}

Status sim_launch(int32_t ordinal, uint64_t capture, Stream stream) {
  return with_all_machines(ordinal, [&](SimMachine& machine, const SimMachines& all) {
    return machine.launch(all, capture, stream);
  });
}

Status sim_hold(int32_t ordinal, Address address) {
  return with_machine(ordinal, [&](SimMachine& machine) { return machine.memory.hold(address); });
}

Status sim_faults(int32_t ordinal, uint64_t& count, char* text, size_t capacity) {
  if (text == nullptr && capacity != 0) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "sim faults: text is NULL, capacity is not 0");
  }
  return with_machine(ordinal, [&](SimMachine& machine) {
    count = machine.faults.count();
    if (capacity != 0) std::snprintf(text, capacity, "%s", machine.faults.last());
    return kSuccess;
  });
}

}  // namespace gpupool::internal
