// SPDX-License-Identifier: Apache-2.0
#include "cli/processes/nvml.hpp"

#include <dlfcn.h>

#include <array>
#include <cstdlib>

#include "cli/processes/find_function.hpp"

namespace gpupool::cli {
namespace nvml {

// NVML's types, as its documentation has them.

using Status = int;  // 0: well
using Device = void*;
constexpr Status kInsufficientSize = 7;
constexpr uint64_t kNotAvailable = ~uint64_t{0};

struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct Process {
  unsigned int pid;
  unsigned long long used_bytes;
  unsigned int gpu_instance;
  unsigned int compute_instance;
};
static_assert(sizeof(Memory) == 24 && sizeof(Process) == 24);

constexpr unsigned int kMostGpuUsers = 65536;

}  // namespace nvml

struct Nvml::Functions {
  void* library;
  nvml::Status (*init)();
  nvml::Status (*shutdown)();
  nvml::Status (*device_count)(unsigned int*);
  nvml::Status (*device)(unsigned int, nvml::Device*);
  nvml::Status (*id)(nvml::Device, char*, unsigned int);
  nvml::Status (*name)(nvml::Device, char*, unsigned int);
  nvml::Status (*memory)(nvml::Device, nvml::Memory*);
  nvml::Status (*processes)(nvml::Device, unsigned int*, nvml::Process*);  // may be missing
};

Nvml::Nvml() {
  const char* const named = secure_getenv("GPUPOOL_LIBNVML");
  void* const library =
      dlopen(named != nullptr && *named != '\0' ? named : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;
  auto functions = std::make_unique<Functions>();
  functions->library = library;
  const bool is_whole = find_function(library, "nvmlInit_v2", functions->init) &&
                        find_function(library, "nvmlShutdown", functions->shutdown) &&
                        find_function(library, "nvmlDeviceGetCount_v2", functions->device_count) &&
                        find_function(library, "nvmlDeviceGetHandleByIndex_v2", functions->device) &&
                        find_function(library, "nvmlDeviceGetUUID", functions->id) &&
                        find_function(library, "nvmlDeviceGetName", functions->name) &&
                        find_function(library, "nvmlDeviceGetMemoryInfo", functions->memory);
  // Both versions have records of this form.
  if (!find_function(library, "nvmlDeviceGetComputeRunningProcesses_v3", functions->processes))
    (void)find_function(library, "nvmlDeviceGetComputeRunningProcesses_v2", functions->processes);
  if (is_whole && functions->init() == 0) {
    functions_ = std::move(functions);
  } else {
    (void)dlclose(library);
  }
}

Nvml::~Nvml() {
  if (functions_ == nullptr) return;
  (void)functions_->shutdown();
  (void)dlclose(functions_->library);
}

std::vector<Gpu> Nvml::look() const {
  std::vector<Gpu> gpus;
  unsigned int count = 0;
  if (functions_ == nullptr || functions_->device_count(&count) != 0) return gpus;
  for (unsigned int number = 0; number < count; ++number) {
    nvml::Device device = nullptr;
    std::array<char, 96> id{};
    std::array<char, 96> name{};
    nvml::Memory memory{};
    if (functions_->device(number, &device) != 0 || functions_->id(device, id.data(), id.size() - 1) != 0 ||
        functions_->memory(device, &memory) != 0)
      continue;
    if (functions_->name(device, name.data(), name.size() - 1) != 0) name = {};
    Gpu gpu{number, id.data(), name.data(), memory.total, memory.used, memory.free, {}};
    unsigned int room = 256;
    std::vector<nvml::Process> users(room);
    nvml::Status status = nvml::kInsufficientSize;
    if (functions_->processes != nullptr) status = functions_->processes(device, &room, users.data());
    if (status == nvml::kInsufficientSize && functions_->processes != nullptr &&
        room <= nvml::kMostGpuUsers) {
      room += 64;  // more processes may come meanwhile
      users.resize(room);
      status = functions_->processes(device, &room, users.data());
    }
    for (unsigned int at = 0; status == 0 && at < room && at < users.size(); ++at) {
      if (users[at].used_bytes != nvml::kNotAvailable)
        gpu.users.push_back({users[at].pid, users[at].used_bytes});
    }
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

}  // namespace gpupool::cli
