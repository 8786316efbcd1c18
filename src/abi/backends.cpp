// SPDX-License-Identifier: Apache-2.0
#include "abi/backends.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <string>

#include "base/parse.hpp"
#include "device/cuda/cuda.hpp"
#include "device/host/host.hpp"
#include "device/sim/registry.hpp"
#include "device/sim/sim.hpp"
#include "os/process.hpp"
#include "pool/process/registry.hpp"

namespace gpupool::internal::abi {
namespace {

Status count_sims(int32_t& count) {
  count = kSimDeviceCount;
  return kSuccess;
}

Status open_sim_with(int32_t ordinal, std::span<const int32_t> peers, std::unique_ptr<Device>& device) {
  std::unique_ptr<Device> opened;
  if (const Status status = open_sim(ordinal, opened); status != kSuccess) return status;
  for (const int32_t peer : peers) {
    if (const Status status = opened->add_peer(peer, false); status != kSuccess) return status;
  }
  device = std::move(opened);
  return kSuccess;
}

/// Opening makes a context anew that was reset, with the same handle: nothing may go on in it as before.
Status open_cuda_anew(int32_t ordinal, std::span<const int32_t> peers, std::unique_ptr<Device>& device) {
  Registry::instance().find_lost();
  return open_cuda(ordinal, peers, device);
}

struct Backend {
  gpupool_backend_t id;
  const char* name;
  uint64_t feature;  // there if it has a usable device
  Status (*count)(int32_t& devices);
  Status (*open)(int32_t ordinal, std::span<const int32_t> peers, std::unique_ptr<Device>& device);
  void (*watch_fork)() noexcept;  // when the library is loaded; null: a fork needs no care
};

/// AUTO is the first that has a usable device. The simulated one always has: none after it is taken unasked.
constexpr Backend kBackends[] = {
    {GPUPOOL_BACKEND_CUDA, "cuda", GPUPOOL_FEATURE_CUDA, cuda_device_count, open_cuda_anew,
     []() noexcept { set_after_fork_hook(cuda_after_fork); }},
    {GPUPOOL_BACKEND_SIM, "sim", GPUPOOL_FEATURE_SIM, count_sims, open_sim_with, sim_watch_fork},
    {GPUPOOL_BACKEND_HOST, "host", GPUPOOL_FEATURE_HOST, count_hosts, open_host, nullptr},
};

template <typename Predicate>
const Backend* find_backend(Predicate is_it) noexcept {
  const auto* const found = std::find_if(std::begin(kBackends), std::end(kBackends), is_it);
  return found != std::end(kBackends) ? found : nullptr;
}

const Backend* find_by_name(std::string_view name) noexcept {
  return find_backend([&](const Backend& each) { return equal_ignoring_case(name, each.name); });
}

const Backend* find_by_number(int32_t id) noexcept {
  return find_backend([&](const Backend& each) { return each.id == id; });
}

/// How many devices can be used now.
int32_t usable_devices(const Backend& backend) {
  int32_t count = 0;
  return backend.count(count) == kSuccess ? count : 0;
}

/// "cuda or sim", or "1 (cuda) or 2 (sim)".
std::string all_names(bool with_numbers) {
  std::string names;
  for (const Backend& each : kBackends) {
    if (!names.empty()) names += &each + 1 == std::end(kBackends) ? " or " : ", ";
    names += with_numbers ? std::to_string(each.id) + " (" + each.name + ")" : each.name;
  }
  return names;
}

/// Before a driver goes that does not live as long as the process, pools stop calling it. Hooks run in
/// reverse order, so this one, registered after the driver's initialisation, runs while the driver is still
/// whole.
void watch_exit() {
  static constinit std::atomic<bool> is_registered{false};
  if (!is_registered.exchange(true)) std::atexit([] { Registry::instance().mark_exiting(); });
}

}  // namespace

/// Runs when the library is loaded, before any thread can be in it: if a thread registered these on its first
/// call, the child of a fork at that moment would wait for it. Locks are taken around fork in the reverse
/// order: the pools', then the devices'. PyTorch's pools, in a library loaded later, come before both.
[[gnu::constructor]] static void watch_fork() {
  for (const Backend& each : kBackends) {
    if (each.watch_fork != nullptr) each.watch_fork();
  }
  Registry::watch_fork();
  os::stay_loaded();
}

Status resolve_backend(int32_t wanted, gpupool_backend_t& backend) {
  if (wanted != GPUPOOL_BACKEND_AUTO) {
    const Backend* const row = find_by_number(wanted);
    if (row == nullptr) {
      return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "backend is %d, not 0 (auto), %s", wanted,
                  all_names(true).c_str());
    }
    backend = row->id;
    return kSuccess;
  }
  if (const char* named = std::getenv("GPUPOOL_BACKEND"); named != nullptr && *named != '\0') {
    const Backend* const row =
        find_backend([&](const Backend& each) { return std::string_view(named) == each.name; });
    if (row == nullptr) {
      return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "GPUPOOL_BACKEND is \"%.64s\", not %s", named,
                  all_names(false).c_str());
    }
    backend = row->id;
    return kSuccess;
  }
  for (const Backend& each : kBackends) {
    backend = each.id;
    if (usable_devices(each) > 0) break;
  }
  return kSuccess;
}

const char* backend_name(int32_t backend) noexcept {
  const Backend* const row = find_by_number(backend);
  return row != nullptr ? row->name : nullptr;
}

uint64_t usable_features() {
  uint64_t features = 0;
  for (const Backend& each : kBackends) {
    if (usable_devices(each) > 0) features |= each.feature;
  }
  return features;
}

Status parse_device(std::string_view text, gpupool_backend_t& backend, int32_t& ordinal) {
  const std::string_view all = trimmed(text);
  const size_t colon = all.find(':');
  const std::string_view word = all.substr(0, colon);
  const Backend* const row = find_by_name(word);
  std::string_view number = colon == std::string_view::npos ? "0" : all.substr(colon + 1);
  if (row == nullptr && !equal_ignoring_case(word, "auto"))
    number = colon == std::string_view::npos ? word : "";
  int32_t value = -1;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc() || end != number.data() + number.size() || number.empty() || value < 0) {
    return internal::refuse("device", text, "not a device such as cuda, cuda:1, sim, sim:3, host, auto or 2");
  }
  backend = row != nullptr ? row->id : GPUPOOL_BACKEND_AUTO;
  ordinal = value;
  return kSuccess;
}

Status count_devices(gpupool_backend_t backend, int32_t& count) {
  return find_by_number(backend)->count(count);
}

Status open_backend(gpupool_backend_t backend, int32_t ordinal, std::span<const int32_t> peers,
                    std::unique_ptr<Device>& device) {
  const Backend& row = *find_by_number(backend);
  int32_t count = 0;
  if (const Status status = row.count(count); status != kSuccess) return status;
  if (ordinal < 0 || ordinal >= count) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "there is no device %d: the backend has %d", ordinal, count);
  }
  const Status status = row.open(ordinal, peers, device);
  if (status == kSuccess && device->info().ends_before_process) watch_exit();
  return status;
}

}  // namespace gpupool::internal::abi
