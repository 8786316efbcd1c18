// SPDX-License-Identifier: Apache-2.0
// Registered buffers over a sleep, with NCCL's header and a stand-in for its library, which holds the memory
// of what is registered, and refuses what NCCL would.
#include <nccl.h>

#include <gpupool/nccl.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "expect.hpp"

namespace {

constexpr std::size_t kSize = 8 << 20;

struct Library {
  std::map<std::uintptr_t, void*> registered;  // handles, and what they are of
  std::string log;
  std::uintptr_t last = 0;
  bool is_suspended = false;
  bool refuses = false;

  ncclResult_t add(void* buffer, std::uintptr_t* handle, char name) {
    if (refuses) return ncclInternalError;
    expect(!is_suspended, "a suspended communicator is left alone");
    expect(reinterpret_cast<std::uintptr_t>(buffer) % 4096 == 0, "windows are of whole pages");
    expect(gpupool_sim_hold(0, reinterpret_cast<gpupool_ptr_t>(buffer)) == GPUPOOL_SUCCESS, "it is mapped");
    registered[*handle = ++last] = buffer;
    log += name;
    return ncclSuccess;
  }
  ncclResult_t remove(std::uintptr_t handle, char name) {
    expect(!is_suspended && registered.erase(handle) == 1, "it was registered");
    log += name;
    if (registered.empty()) (void)gpupool_sim_hold(0, 0);
    return ncclSuccess;
  }
};

Library library;

/// What was called since the last question.
std::string calls() {
  return std::exchange(library.log, "");
}

auto* const comm = reinterpret_cast<ncclComm_t>(&library);

}  // namespace

extern "C" {
ncclResult_t ncclCommRegister(const ncclComm_t, void* buffer, size_t, void** handle) {
  return library.add(buffer, reinterpret_cast<std::uintptr_t*>(handle), 'r');
}
ncclResult_t ncclCommDeregister(const ncclComm_t, void* handle) {
  return library.remove(reinterpret_cast<std::uintptr_t>(handle), 'd');
}
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
ncclResult_t ncclCommWindowRegister(ncclComm_t, void* buffer, size_t, ncclWindow_t* window, int flags) {
  expect(flags == NCCL_WIN_COLL_SYMMETRIC, "the window is for collectives");
  return library.add(buffer, reinterpret_cast<std::uintptr_t*>(window), 'R');
}
ncclResult_t ncclCommWindowDeregister(ncclComm_t, ncclWindow_t window) {
  return library.remove(reinterpret_cast<std::uintptr_t>(window), 'D');
}
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 7)
ncclResult_t ncclCommSuspend(ncclComm_t, int flags) {
  expect(flags == NCCL_SUSPEND_MEM && !library.is_suspended, "it is not suspended");
  library.is_suspended = true;
  library.log += 's';
  return ncclSuccess;
}
ncclResult_t ncclCommResume(ncclComm_t) {
  expect(library.is_suspended, "it is suspended");
  library.is_suspended = false;
  library.log += 'w';
  return ncclSuccess;
}
#endif
}

namespace {

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 7)
const std::string kSuspend = "s", kResume = "w";
#else
const std::string kSuspend, kResume;
#endif

void sleep_and_wake(gpupool_t* pool) {
  gpupool::NcclMemory memory(pool, comm);
  void* buffer = memory.allocate(kSize);
  expect(buffer != nullptr && calls() == "r", "it is registered");

  gpupool_sleep_result_t result{};
  result.struct_size = sizeof result;
  expect(gpupool_sleep(pool, nullptr, &result) == GPUPOOL_SUCCESS, "the pool sleeps");
  expect(result.released_bytes >= kSize && result.retained_bytes == 0, "nobody holds its memory");
  expect(calls() == "d" + kSuspend, "first the registration ends, then the communicator sleeps");
  library.refuses = true;
  expect(gpupool_wake(pool, nullptr, nullptr) == GPUPOOL_ERROR_UNAVAILABLE && calls() == kResume,
         "NCCL refuses");
  library.refuses = false;
  expect(gpupool_wake(pool, nullptr, nullptr) == GPUPOOL_SUCCESS && calls() == "r",
         "the next wake tries again");
  expect(library.registered.begin()->second == buffer, "it has its address");

  expect(gpupool_sleep_block(pool, reinterpret_cast<gpupool_ptr_t>(buffer), nullptr, nullptr) ==
                 GPUPOOL_SUCCESS &&
             calls() == "d",
         "the buffer alone sleeps");
  expect(gpupool_wake_block(pool, reinterpret_cast<gpupool_ptr_t>(buffer), nullptr, nullptr) ==
                 GPUPOOL_SUCCESS &&
             calls() == "r",
         "and wakes");

  library.refuses = true;
  const uint64_t before = stats_of(pool).all.allocated_bytes.current;
  expect(memory.allocate(kSize) == nullptr, "what NCCL refuses is no buffer");
  expect(stats_of(pool).all.allocated_bytes.current == before, "and takes no memory");
  library.refuses = false;
  expect(memory.allocate(std::size_t{1} << 50) == nullptr && calls().empty(), "a shortage registers nothing");
  expect(!memory.release(&library, 0), "what is not of these is not freed");
  expect(memory.release(buffer, 0) && calls() == "d", "it is freed");
  expect(memory.allocate(kSize) != nullptr && calls() == "r", "one is left for the end");
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
void windows(gpupool_t* pool) {
  gpupool::NcclMemory memory(pool, comm);
  void* plain = memory.allocate(kSize);
  void* buffer = memory.allocate_window(kSize);
  expect(calls() == "rR" && memory.window(plain) == nullptr, "it has a window");
  const ncclWindow_t window = memory.window(buffer);
  expect(window != nullptr, "which can be named");
  expect(gpupool_sleep_block(pool, reinterpret_cast<gpupool_ptr_t>(buffer), nullptr, nullptr) ==
                 GPUPOOL_ERROR_UNAVAILABLE &&
             calls().empty(),
         "no process sleeps with a window alone");
  expect(gpupool_sleep(pool, nullptr, nullptr) == GPUPOOL_SUCCESS, "all sleep");
  expect(memory.release(plain, 0), "memory that sleeps can be freed");
  calls();
  expect(gpupool_wake(pool, nullptr, nullptr) == GPUPOOL_SUCCESS && calls() == kResume + "R", "and wake");
  expect(memory.window(buffer) != window, "with another window");
}
#endif

}  // namespace

int main() {
  gpupool_t* pool = gpupool::plug::default_pool(0);
  sleep_and_wake(pool);
  expect(calls() == "d" && library.registered.empty(), "the end ends all registrations");
  expect(gpupool_sleep(pool, nullptr, nullptr) == GPUPOOL_SUCCESS && calls().empty(), "the hooks have gone");
  expect(gpupool_wake(pool, nullptr, nullptr) == GPUPOOL_SUCCESS, "it wakes");
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
  windows(pool);
  expect(calls() == "D" && library.registered.empty(), "the same of windows");
#endif
  expect_all_freed(pool);
}
