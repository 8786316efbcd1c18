// SPDX-License-Identifier: Apache-2.0
// The stand-in's cuGetProcAddress, with versions.
#include <cstdlib>
#include <cstring>

#include "quick_driver.hpp"

using namespace quick_driver;

extern "C" {
int cuInit(unsigned);
int cuCtxSetCurrent(CUcontext context);
#define DECLARE(name, arguments) int name arguments;
#define DECLARE_HOOKED(name, base, since, kind, arguments) int name arguments;
GPUPOOL_HOOKED_OF_CUDA(DECLARE_HOOKED)
GPUPOOL_CALLED_OF_CUDA(DECLARE)
}

namespace {

/// What the driver gives out by cuGetProcAddress and does not export.
int unexported_alloc(CUdeviceptr* address, size_t bytes) {
  return give(bytes, reinterpret_cast<uint64_t*>(address));
}

/// A later version with other arguments.
int alloc_of_the_future(unsigned, CUdeviceptr* address, size_t bytes) {
  return give(bytes, reinterpret_cast<uint64_t*>(address));
}

/// As the driver chooses: the newest that the version knows, and that of the stream's kind. What it does not
/// know is asked for on purpose, an empty name too.
int find_function(const char* name, void** to, int version, uint64_t flags, int* status) {
  constexpr uint64_t kPerThread = 2;
  if (name == nullptr || to == nullptr) return kInvalidValue;
  *to = nullptr;
  if (status != nullptr) *status = 1;
  const bool is_ptsz = flags == kPerThread;
  if (std::strcmp(name, "cuMemAlloc") == 0 && version >= 14000) {
    *to = address_of(&alloc_of_the_future);
  } else if (std::strcmp(name, "cuMemAlloc") == 0 && std::getenv("DRIVER_UNEXPORTED") != nullptr) {
    *to = address_of(&unexported_alloc);
  } else if (std::strcmp(name, "cuGetProcAddress") == 0) {
    *to = version >= 12000 ? address_of(&cuGetProcAddress_v2) : address_of(&cuGetProcAddress);
  }
  struct Row {
    const char* exported;
    const char* base;
    int since;
    void* function;
  };
#define ROW(exported, base, since, kind, arguments) {#exported, #base, since, address_of(&exported)},
  static const Row rows[] = {
      {"cuInit", "cuInit", 2000, address_of(&cuInit)},
      {"cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain", 7000, address_of(&cuDevicePrimaryCtxRetain)},
      {"cuCtxSetCurrent", "cuCtxSetCurrent", 4000, address_of(&cuCtxSetCurrent)},
      GPUPOOL_HOOKED_OF_CUDA(ROW)};
#undef ROW
  for (const Row& row : rows) {
    if (*to != nullptr || std::strcmp(row.base, name) != 0 || version < row.since) continue;
    const bool has_ptsz = std::strstr(row.exported, "_ptsz") != nullptr;
    const bool is_of_both = std::strstr(name, "Async") == nullptr && std::strstr(name, "Launch") == nullptr;
    if (is_of_both || has_ptsz == is_ptsz) *to = row.function;
  }
  if (status != nullptr && *to != nullptr) *status = 0;
  return *to != nullptr || *name == '\0' ? CUDA_SUCCESS : kNotFound;
}

}  // namespace

extern "C" {

int cuGetProcAddress(const char* name, void** to, int version, uint64_t flags) {
  ++driver().requests[reinterpret_cast<uintptr_t>(__builtin_return_address(0))];
  return find_function(name, to, version, flags, nullptr);
}
int cuGetProcAddress_v2(const char* name, void** to, int version, uint64_t flags, int* status) {
  ++driver().requests[reinterpret_cast<uintptr_t>(__builtin_return_address(0))];
  return find_function(name, to, version, flags, status);
}

}  // extern "C"
