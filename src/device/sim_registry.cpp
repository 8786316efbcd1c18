// SPDX-License-Identifier: Apache-2.0
#include "device/sim_registry.hpp"

#include <atomic>
#include <cstdlib>

#include "device/sim.hpp"

namespace gpupool {
namespace {

/// Never destroyed: pools use their devices until the process has gone.
struct Registry {
  std::mutex mutex;
  SimAddressSpace addresses;
  std::unique_ptr<SimState> states[kSimDeviceCount];
  Registry* older = nullptr;
};

std::atomic<Registry*> current{nullptr};

/// What fork left behind: kept in sight of leak checkers, and never touched.
std::atomic<Registry*> forgotten{nullptr};

Registry& registry() {
  Registry* found = current.load(std::memory_order_acquire);
  if (found != nullptr) return *found;
  auto made = std::make_unique<Registry>();
  if (!current.compare_exchange_strong(found, made.get(), std::memory_order_acq_rel)) return *found;
  return *made.release();
}

}  // namespace

std::unique_ptr<SimMachine> make_sim_machine(int32_t ordinal, const SimSettings& settings) {
  return std::make_unique<SimMachine>(ordinal, settings, registry().addresses);
}

Status find_sim(int32_t ordinal, SimState*& state) {
  if (ordinal < 0 || ordinal >= kSimDeviceCount) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "no simulated device %d: there are %d", ordinal,
                kSimDeviceCount);
  }
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::unique_ptr<SimState>& slot = all.states[ordinal];
  if (slot == nullptr) {
    SimSettings settings;
    const char* const text = std::getenv("GPUPOOL_SIM");
    if (text != nullptr) {
      if (const Status status = sim_settings_from(std::string_view(text), settings); status != kSuccess) {
        return status;
      }
    }
    auto made = std::make_unique<SimState>();
    made->machine = make_sim_machine(ordinal, settings);
    slot = std::move(made);
  }
  state = slot.get();
  return kSuccess;
}

void sim_after_fork() noexcept {
  Registry* const old = current.exchange(nullptr, std::memory_order_relaxed);
  if (old == nullptr) return;
  old->older = forgotten.load(std::memory_order_relaxed);
  forgotten.store(old, std::memory_order_relaxed);
}

}  // namespace gpupool
