// SPDX-License-Identifier: Apache-2.0
#include "device/sim/registry.hpp"

#include <atomic>
#include <cstdio>

#include "os/mutex.hpp"
#include "os/process.hpp"

namespace gpupool::internal {
namespace {

/// Never destroyed: pools use their devices until the process has gone.
struct SimRegistry {
  std::mutex mutex;
  SimAddressSpace addresses;
  std::unique_ptr<SimState> states[kSimDeviceCount];
  SimRegistry* older = nullptr;
};

std::atomic<SimRegistry*> current{nullptr};
constinit os::Mutex making;  // of the current one; held around fork

/// What fork left behind: kept visible to leak checkers, and because inherited blocks are in this memory.
std::atomic<SimRegistry*> forgotten{nullptr};

SimRegistry& registry() {
  SimRegistry* found = current.load(std::memory_order_acquire);
  if (found != nullptr) return *found;
  const std::lock_guard lock(making);
  found = current.load(std::memory_order_relaxed);
  if (found == nullptr) {
    found = std::make_unique<SimRegistry>().release();
    current.store(found, std::memory_order_release);
  }
  return *found;
}

// ---- fork
//
// The child finds consistent records, open locks, and its inherited blocks in its own memory.

/// Calls visit(state) for each device; those that earlier forks left behind come last.
template <class Visit>
void for_each_state(SimRegistry& registry, Visit&& visit) {
  for (const std::unique_ptr<SimState>& state : registry.states) {
    if (state != nullptr) visit(*state);
  }
}

template <class Visit>
void for_each_registry(Visit&& visit) {
  if (SimRegistry* const now = current.load(std::memory_order_acquire); now != nullptr) visit(*now);
  for (SimRegistry* old = forgotten.load(std::memory_order_acquire); old != nullptr; old = old->older)
    visit(*old);
}

void before_fork() noexcept {
  making.lock();
  for_each_registry([](SimRegistry& each) {
    each.mutex.lock();
    for_each_state(each, [](SimState& state) {
      state.mutex.lock();
      state.machine->memory.before_fork();
    });
  });
}

void after_fork_in_parent() noexcept {
  for_each_registry([](SimRegistry& each) {
    for_each_state(each, [](SimState& state) {
      state.machine->memory.after_fork_in_parent();
      state.mutex.unlock();
    });
    each.mutex.unlock();
  });
  making.unlock();
}

/// Forgets the devices, and makes their memory the child's own. Allocates nothing.
void after_fork_in_child() noexcept {
  for_each_registry([](SimRegistry& each) {
    for_each_state(each, [](SimState& state) {
      state.machine->memory.after_fork_in_child();
      state.mutex.unlock();
    });
    each.mutex.unlock();
  });
  if (SimRegistry* const old = current.exchange(nullptr, std::memory_order_relaxed); old != nullptr) {
    old->older = forgotten.load(std::memory_order_relaxed);
    forgotten.store(old, std::memory_order_relaxed);
  }
  making.unlock();
}

}  // namespace

void sim_watch_fork() noexcept {
  os::watch_fork(before_fork, after_fork_in_parent, after_fork_in_child);
}

AllSims::AllSims() {
  SimRegistry& all = registry();
  std::array<SimState*, kSimDeviceCount> states{};
  {
    const std::lock_guard lock(all.mutex);
    for (size_t i = 0; i < states.size(); ++i) states[i] = all.states[i].get();
  }
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i] == nullptr) continue;
    locks_[i] = std::unique_lock(states[i]->mutex);
    machines_[i] = states[i]->machine.get();
  }
}

SimTimes AllSims::now() const noexcept {
  SimTimes times{};
  for (size_t i = 0; i < times.size(); ++i) {
    if (machines_[i] != nullptr) times[i] = machines_[i]->clock.now();
  }
  return times;
}

Status make_sim_machine(int32_t ordinal, const SimSettings& settings, std::unique_ptr<SimMachine>& machine) {
  if (settings.data) {
    if (const Status status = check_host_backing(); status != kSuccess) return status;
  }
  std::unique_ptr<SimShared> shared;
  if (const Status status = SimShared::open(ordinal, shared); status != kSuccess) return status;
  machine = std::make_unique<SimMachine>(ordinal, settings, registry().addresses);
  std::snprintf(machine->info.id, sizeof machine->info.id, "%s", sim_shared_name(ordinal).c_str());
  machine->memory.capacity().share(std::move(shared));
  return kSuccess;
}

Status find_sim(int32_t ordinal, SimState*& state) {
  if (ordinal < 0 || ordinal >= kSimDeviceCount) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "no simulated device %d: there are %d", ordinal,
                kSimDeviceCount);
  }
  SimRegistry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::unique_ptr<SimState>& slot = all.states[ordinal];
  if (slot == nullptr) {
    SimSettings settings;
    if (const Status status = sim_settings_from_environment(settings); status != kSuccess) return status;
    auto made = std::make_unique<SimState>();
    if (const Status status = make_sim_machine(ordinal, settings, made->machine); status != kSuccess)
      return status;
    slot = std::move(made);
  }
  state = slot.get();
  return kSuccess;
}

}  // namespace gpupool::internal
