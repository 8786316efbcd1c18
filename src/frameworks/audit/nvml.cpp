// SPDX-License-Identifier: Apache-2.0
// NVML: asked for what this process has, and its answers about a GPU's memory as the cap says. Engines that
// size their caches by it would overshoot a cap that only CUDA tells.
#include "frameworks/audit/nvml.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "base/gpu_id.hpp"
#include "frameworks/audit/functions.hpp"
#include "frameworks/audit/group.hpp"
#include "frameworks/audit/ledger.hpp"

namespace gpupool::audit {
namespace {

constexpr int kNvmlSuccess = 0;
constexpr unsigned kMostProcesses = 512;

enum class Open { not_tried, no, yes };
constinit std::atomic<Open> is_open{Open::not_tried};

/// In the program's own namespace, and never closed. Opening it finds its functions, since that is audited.
bool open_nvml() {
  const char* const named = secure_getenv("GPUPOOL_LIBNVML");
  const char* const path = named != nullptr && *named != '\0' ? named : "libnvidia-ml.so.1";
  if (dlmopen(LM_ID_BASE, path, RTLD_NOW | RTLD_LOCAL) == nullptr) return false;
  return real.nvmlInit_v2 != nullptr && real.nvmlDeviceGetCount_v2 != nullptr &&
         real.nvmlDeviceGetHandleByIndex_v2 != nullptr && real.nvmlDeviceGetUUID != nullptr &&
         real.nvmlDeviceGetComputeRunningProcesses_v3 != nullptr && real.nvmlInit_v2() == kNvmlSuccess;
}

bool is_of(nvmlDevice_t handle, int device) {
  CUuuid uuid{};
  std::array<char, 96> text{};
  return real.cuDeviceGetUuid(&uuid, device) == CUDA_SUCCESS &&
         real.nvmlDeviceGetUUID(handle, text.data(), text.size()) == kNvmlSuccess &&
         std::strcmp(text.data(), internal::gpu_id(uuid.bytes).data()) == 0;
}

/// Whoever comes while another thread opens NVML is told that it cannot be asked.
bool can_ask_nvml() {
  Open before = Open::not_tried;
  if (is_open.compare_exchange_strong(before, Open::no) && open_nvml()) is_open = Open::yes;
  return is_open == Open::yes;
}

template <typename Action>
void for_each_handle(Action action) {
  unsigned count = 0;
  if (!can_ask_nvml() || real.nvmlDeviceGetCount_v2(&count) != kNvmlSuccess) return;
  for (unsigned at = 0; at < count; ++at) {
    nvmlDevice_t handle = nullptr;
    if (real.nvmlDeviceGetHandleByIndex_v2(at, &handle) == kNvmlSuccess) action(handle);
  }
}

/// UINT64_MAX: NVML does not say.
uint64_t own_bytes_on(nvmlDevice_t handle) {
  std::array<nvmlProcessInfo_t, kMostProcesses> processes{};
  unsigned count = kMostProcesses;
  if (real.nvmlDeviceGetComputeRunningProcesses_v3(handle, &count, processes.data()) != kNvmlSuccess)
    return UINT64_MAX;
  const auto own = static_cast<unsigned>(getpid());
  for (unsigned at = 0; at < std::min(count, kMostProcesses); ++at)
    if (processes[at].pid == own) return processes[at].usedGpuMemory;  // UINT64_MAX: "not available"
  return UINT64_MAX;
}

/// The account of the GPU that NVML is asked for; null: the driver does not know it yet.
const Account* account_of(nvmlDevice_t handle) {
  int count = 0;
  if (real.cuDeviceGetCount == nullptr || real.cuDeviceGetCount(&count) != CUDA_SUCCESS) return nullptr;
  for (int device = 0; device < std::min(count, Ledger::kMostDevices); ++device) {
    if (!is_of(handle, device)) continue;
    join(device);
    return &Ledger::get().device(device).account;
  }
  return nullptr;
}

template <typename Memory>
int answer(int result, nvmlDevice_t handle, Memory* memory) {
  if (result != kNvmlSuccess || !is_limited()) return result;
  const Account* const account = account_of(handle);
  memory->free = std::min<unsigned long long>(memory->free, account != nullptr ? account->room() : cap);
  memory->total = std::min<unsigned long long>(memory->total, account != nullptr ? account->limit() : cap);
  memory->used = memory->total - memory->free;
  return result;
}

}  // namespace

uint64_t bytes_by_nvml(int device) noexcept {
  uint64_t bytes = UINT64_MAX;
  for_each_handle([&](nvmlDevice_t handle) {
    if (bytes == UINT64_MAX && is_of(handle, device)) bytes = own_bytes_on(handle);
  });
  return bytes;
}

uint64_t bytes_by_nvml() noexcept {
  uint64_t sum = UINT64_MAX;
  for_each_handle([&](nvmlDevice_t handle) {
    const uint64_t bytes = own_bytes_on(handle);
    if (bytes != UINT64_MAX) sum = bytes + (sum == UINT64_MAX ? 0 : sum);
  });
  return sum;
}

int hook::nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) noexcept {
  return answer(real.nvmlDeviceGetMemoryInfo(device, memory), device, memory);
}

/// What the system keeps for itself is not of the cap, so that the parts are still the whole.
int hook::nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t* memory) noexcept {
  const int result = answer(real.nvmlDeviceGetMemoryInfo_v2(device, memory), device, memory);
  if (result == kNvmlSuccess && is_limited()) memory->reserved = 0;
  return result;
}

}  // namespace gpupool::audit
