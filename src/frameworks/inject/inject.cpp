// SPDX-License-Identifier: Apache-2.0
// The driver calls InitializeInjection in the middle of cuInit. For `gpupool record`, CUPTI tells of its
// calls from then on (calls.hpp). For `gpupool run`, nothing of the driver but CUPTI can be called yet. So a
// thread waits for the end of cuInit, then makes a pool of the driver's the current one of each device: all
// of cudaMallocAsync comes from it, keeps its memory, and is within the cap. It makes no other call, but
// where a group's budget is to be followed.
#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "frameworks/inject/budget.hpp"
#include "frameworks/inject/calls.hpp"
#include "frameworks/inject/driver.hpp"
#include "frameworks/inject/find_function.hpp"

namespace gpupool::inject {
namespace {

struct Driver {
// A declaration has no brackets to spare: NOLINTNEXTLINE(bugprone-macro-parentheses)
#define GPUPOOL_MEMBER(name, arguments) int(*name) arguments = nullptr;
  GPUPOOL_INJECT_FUNCTIONS(GPUPOOL_MEMBER)
#undef GPUPOOL_MEMBER
};

/// What `gpupool run` was asked for.
struct Wishes {
  uint64_t cap = 0;  // 0: none
  bool keep = false;
  const char* group = "";
};

/// As the environment has it; "" in a program that runs with more rights than whoever started it.
const char* text_of(const char* name) {
  const char* const text = secure_getenv(name);
  return text != nullptr ? text : "";
}

/// The driver that calls us: the program has loaded it.
void* find_library() {
  const char* const named = text_of("GPUPOOL_LIBCUDA");
  return dlopen(*named != '\0' ? named : "libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
}

bool find_driver(void* library, Driver& driver) {
  bool is_whole = true;
#define GPUPOOL_FIND(name, arguments) is_whole = find_function(library, #name, driver.name) && is_whole;
  GPUPOOL_INJECT_FUNCTIONS(GPUPOOL_FIND)
#undef GPUPOOL_FIND
  return is_whole;
}

/// The first context takes far longer than this pause, so no program allocates before its pool is there.
int count_devices(const Driver& driver) {
  constexpr auto kPause = std::chrono::microseconds(200);
  constexpr auto kMost = std::chrono::seconds(60);  // a cuInit that fails leaves nothing to do
  const auto until = std::chrono::steady_clock::now() + kMost;
  int count = 0;
  while (driver.cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED) {
    if (std::chrono::steady_clock::now() >= until) return 0;
    std::this_thread::sleep_for(kPause);
  }
  return count;
}

int set_threshold(const Driver& driver, CUmemoryPool pool, uint64_t bytes) {
  return driver.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &bytes);
}

/// The device's current pool from now on, as wished; the program's own choice is the device's default pool.
int make_current(const Driver& driver, int device, const Wishes& wishes, CUmemoryPool& pool) {
  int result = driver.cuDeviceGetDefaultMemPool(&pool, device);
  if (result == CUDA_SUCCESS && wishes.keep) result = set_threshold(driver, pool, UINT64_MAX);
  if (result != CUDA_SUCCESS || wishes.cap == 0) return result;
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  properties.maxSize = wishes.cap;
  result = driver.cuMemPoolCreate(&pool, &properties);
  if (result != CUDA_SUCCESS) return result;
  if (wishes.keep) result = set_threshold(driver, pool, UINT64_MAX);
  if (result == CUDA_SUCCESS) result = driver.cuDeviceSetMemPool(device, pool);
  if (result != CUDA_SUCCESS) (void)driver.cuMemPoolDestroy(pool);
  return result;
}

/// For as long as the program runs, which ends this thread with it: memory that the group needs is not kept.
void follow(const Driver& driver, const Budget& budget, const std::vector<CUmemoryPool>& pools) {
  constexpr auto kPause = std::chrono::milliseconds(100);
  for (;;) {
    for (size_t device = 0; device < pools.size(); ++device) {
      if (pools[device] == nullptr) continue;
      const uint64_t room = budget.room(static_cast<int>(device));
      (void)set_threshold(driver, pools[device], room);
      if (room != UINT64_MAX) (void)driver.cuMemPoolTrimTo(pools[device], room);
    }
    std::this_thread::sleep_for(kPause);
  }
}

void work(const Driver& driver, const Wishes& wishes) {
  std::vector<CUmemoryPool> pools;
  const int count = count_devices(driver);
  for (int device = 0; device < count; ++device) {
    CUmemoryPool& pool = pools.emplace_back(nullptr);
    int has_pools = 0;
    (void)driver.cuDeviceGetAttribute(&has_pools, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device);
    const int result = has_pools != 0 ? make_current(driver, device, wishes, pool) : CUDA_SUCCESS;
    if (has_pools != 0 && result == CUDA_SUCCESS) continue;
    pool = nullptr;
    std::fprintf(stderr, "gpupool run: device %d has no pool with these settings: %s %d\n", device,
                 has_pools != 0 ? "the driver says" : "it has no memory pools", result);
  }
  const Budget budget(wishes.group);
  if (budget.is_there()) follow(driver, budget, pools);
}

/// For `gpupool run`.
void keep_and_cap(void* library, const Wishes& wishes) {
  Driver driver;
  if (!find_driver(library, driver)) {
    (void)std::fputs("gpupool run: this driver has no memory pools: it is for CUDA 11.2 or older\n", stderr);
    return;
  }
  try {
    std::thread(work, driver, wishes).detach();
  } catch (...) {
    (void)std::fputs("gpupool run: no thread can be started, so nothing is kept or capped\n", stderr);
  }
}

/// For `gpupool record`.
void record(void* library, const char* text) {
  const char* const wanted = text_of("GPUPOOL_RECORD_STACKS");
  internal::Plan plan;
  std::string why;
  DeviceFunctions driver;
  bool is_whole = true;
#define GPUPOOL_FIND(name, arguments) is_whole = find_function(library, #name, driver.name) && is_whole;
  GPUPOOL_DEVICE_FUNCTIONS(GPUPOOL_FIND)
#undef GPUPOOL_FIND
  if (internal::read_plan(text, plan) != internal::kSuccess) {
    why = internal::last_error().message;
  } else if (!is_whole) {
    why = "this driver is for CUDA 11.3 or older";
  } else {
    why = watch_calls(Ledger::begin(std::move(plan), std::strcmp(wanted, "none") != 0), driver);
  }
  if (!why.empty())
    std::fprintf(stderr, "gpupool record: only pools of gpupool are recorded: %s\n", why.c_str());
}

}  // namespace
}  // namespace gpupool::inject

#define GPUPOOL_TEXT_OF(value) #value
#define GPUPOOL_TEXT(value) GPUPOOL_TEXT_OF(value)
/// What the recorder asks for. It stays in this library.
extern "C" const char* gpupool_version_string() {
  return GPUPOOL_TEXT(GPUPOOL_VERSION_MAJOR) "." GPUPOOL_TEXT(GPUPOOL_VERSION_MINOR) "." GPUPOOL_TEXT(
      GPUPOOL_VERSION_PATCH);
}

// The driver's name for it: NOLINTNEXTLINE(readability-identifier-naming)
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  using namespace gpupool::inject;
  Wishes wishes;
  wishes.cap = std::strtoull(text_of("GPUPOOL_RUN_CAP"), nullptr, 10);
  wishes.keep = *text_of("GPUPOOL_RUN_KEEP") == '1';
  wishes.group = text_of("GPUPOOL_RUN_SHARE");
  void* const library = find_library();
  try {
    if (const char* const path = text_of("GPUPOOL_RECORD_DRIVER"); *path != '\0') record(library, path);
    if (wishes.cap != 0 || wishes.keep) keep_and_cap(library, wishes);
  } catch (...) {
    (void)std::fputs("gpupool: the host has no memory to record the program, or to cap it\n", stderr);
  }
  return 1;
}
