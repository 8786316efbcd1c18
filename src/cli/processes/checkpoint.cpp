// SPDX-License-Identifier: Apache-2.0
#include "cli/processes/checkpoint.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>

#include "cli/base/library.hpp"
#include "cli/base/output.hpp"
#include "cli/processes/find_function.hpp"

namespace gpupool::cli {

using namespace driver;

struct Checkpoint::Functions {
  unsigned (*cuInit)(unsigned) = nullptr;
  unsigned (*cuDriverGetVersion)(int*) = nullptr;
  unsigned (*cuGetErrorName)(unsigned, const char**) = nullptr;
// A declaration has no brackets to spare: NOLINTNEXTLINE(bugprone-macro-parentheses)
#define GPUPOOL_MEMBER(name, arguments) unsigned(*name) arguments = nullptr;
  GPUPOOL_CHECKPOINT_FUNCTIONS(GPUPOOL_MEMBER)
#undef GPUPOOL_MEMBER
};

namespace {

constexpr unsigned kSuccess = 0;
constexpr unsigned kInvalidValue = 1;
constexpr unsigned kNotInitialized = 3;
constexpr unsigned kNotReady = 600;

}  // namespace

/// Loaded once, and never closed: a call that hangs is still in it.
const Checkpoint::Functions& Checkpoint::functions() {
  static const Functions all = [] {
    const char* const named = secure_getenv("GPUPOOL_LIBCUDA");
    void* const library =
        dlopen(named != nullptr && *named != '\0' ? named : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw InputError("there is no CUDA driver here: libcuda.so.1 cannot be loaded");
    Functions found;
    bool is_whole = find_function(library, "cuInit", found.cuInit) &&
                    find_function(library, "cuGetErrorName", found.cuGetErrorName) &&
                    find_function(library, "cuDriverGetVersion", found.cuDriverGetVersion);
#define GPUPOOL_FIND(name, arguments) is_whole = is_whole && find_function(library, #name, found.name);
    GPUPOOL_CHECKPOINT_FUNCTIONS(GPUPOOL_FIND)
#undef GPUPOOL_FIND
    if (is_whole) return found;
    int version = 0;
    if (found.cuDriverGetVersion != nullptr) (void)found.cuDriverGetVersion(&version);
    throw InputError(
        fmt::format("this driver, for CUDA {}.{}, cannot put a whole process to sleep: 570 can, "
                    "and later ones",
                    version / 1000, version % 1000 / 10));
  }();
  return all;
}

Checkpoint::Checkpoint(double limit) : limit_(limit) {
  (void)functions();
}

/// Some of these calls need a driver that was initialised, which takes time, and some do not.
unsigned Checkpoint::call(const char* what, uint64_t pid, const std::function<unsigned()>& step) {
  std::packaged_task<unsigned()> task([step] {
    if (const unsigned result = step(); result != kNotInitialized) return result;
    const unsigned begun = functions().cuInit(0);
    return begun == kSuccess ? step() : begun;
  });
  std::future<unsigned> result = task.get_future();
  std::thread(std::move(task)).detach();
  // A lock has its own limit, which the driver keeps.
  constexpr double kGrace = 5;
  if (result.wait_for(std::chrono::duration<double>(limit_ + kGrace)) != std::future_status::ready) {
    say(fmt::format("process {}: the driver has not ended {} within {:g} s, and cannot be stopped", pid, what,
                    limit_));
    say(
        fmt::format("process {}: gpupool info --process {} says how it is, and gpupool wake {} --whole goes "
                    "on from there",
                    pid, pid, pid));
    (void)flush_output();
    std::_Exit(1);
  }
  return result.get();
}

void Checkpoint::must(const char* what, uint64_t pid, const std::function<unsigned()>& step) {
  const unsigned result = call(what, pid, step);
  if (result == kSuccess) return;
  if (result == kNotReady)
    throw std::runtime_error(
        fmt::format("process {} did not come to rest within {:g} s, and runs on", pid, limit_));
  const char* name = nullptr;
  (void)functions().cuGetErrorName(result, &name);
  throw std::runtime_error(fmt::format("process {}: the driver failed to {} it: {} ({})", pid, what,
                                       name != nullptr ? name : "an error without a name", result));
}

CUprocessState Checkpoint::state(uint64_t pid) {
  // Shared with a thread that may outlive this call.
  const auto found = std::make_shared<CUprocessState>(CU_PROCESS_STATE_RUNNING);
  const int number = static_cast<int>(pid);
  const unsigned result =
      call("a look", pid, [=] { return functions().cuCheckpointProcessGetState(number, found.get()); });
  if (result == kInvalidValue) throw InputError(fmt::format("process {} does not use CUDA", pid));
  must("look at", pid, [result] { return result; });
  return *found;
}

void Checkpoint::lock(uint64_t pid) {
  const auto arguments = std::make_shared<CUcheckpointLockArgs>();
  arguments->timeoutMs = static_cast<unsigned>(std::ceil(limit_ * 1000));
  const int number = static_cast<int>(pid);
  must("lock", pid, [=] { return functions().cuCheckpointProcessLock(number, arguments.get()); });
}

void Checkpoint::save(uint64_t pid) {
  const int number = static_cast<int>(pid);
  must("checkpoint", pid, [=] { return functions().cuCheckpointProcessCheckpoint(number, nullptr); });
}

void Checkpoint::restore(uint64_t pid) {
  const int number = static_cast<int>(pid);
  must("restore", pid, [=] { return functions().cuCheckpointProcessRestore(number, nullptr); });
}

void Checkpoint::unlock(uint64_t pid) {
  const int number = static_cast<int>(pid);
  must("unlock", pid, [=] { return functions().cuCheckpointProcessUnlock(number, nullptr); });
}

}  // namespace gpupool::cli
