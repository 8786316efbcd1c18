// SPDX-License-Identifier: Apache-2.0
// The stand-in driver: processes that are locked, checkpointed and restored by others. FAKE_CUDA_PROCESSES
// names a folder in which each process that has called cuInit has a file of its number, with its state. Calls
// of a locked process wait. What it holds on the device is not moved: its memory is the host's.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "cli/processes/checkpoint_types.hpp"
#include "fake_state.hpp"

using namespace fake;
using namespace gpupool::cli::driver;

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kIllegalState = static_cast<CUresult>(401);
constexpr auto kPause = std::chrono::milliseconds(1);

/// What the file of a process has in it.
struct Record {
  std::atomic<uint32_t> state;
  std::atomic<uint32_t> calls;  // under way
};

std::atomic<Record*> own{nullptr};

std::string path_of(int pid) {
  const char* const folder = std::getenv("FAKE_CUDA_PROCESSES");
  return folder != nullptr ? std::string(folder) + "/" + std::to_string(pid) : "";
}

/// A process without an executable is a zombie.
bool is_alive(int pid) {
  char target[1];
  return readlink(("/proc/" + std::to_string(pid) + "/exe").c_str(), target, sizeof target) >= 0;
}

Record* map(int pid, int flags) {
  const int file = open(path_of(pid).c_str(), flags | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) return nullptr;
  void* memory = MAP_FAILED;
  if (ftruncate(file, sizeof(Record)) == 0)
    memory = mmap(nullptr, sizeof(Record), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return memory != MAP_FAILED ? static_cast<Record*>(memory) : nullptr;
}

/// Another process's record, for one call.
class Other {
 public:
  explicit Other(int pid) : record_(pid > 0 && is_alive(pid) ? map(pid, 0) : nullptr) {}
  ~Other() {
    if (record_ != nullptr) munmap(record_, sizeof *record_);
  }
  Record* get() const { return record_; }

 private:
  Record* record_;
};

CUresult change(int pid, CUprocessState from, CUprocessState to) {
  if (state().process == 0) return CUDA_ERROR_NOT_INITIALIZED;
  const Other other(pid);
  if (other.get() == nullptr) return CUDA_ERROR_INVALID_VALUE;
  uint32_t expected = from;
  return other.get()->state.compare_exchange_strong(expected, to) ? CUDA_SUCCESS : kIllegalState;
}

CUresult lose(int pid) {
  const Other other(pid);
  if (other.get() != nullptr) other.get()->state = CU_PROCESS_STATE_FAILED;
  return CUDA_ERROR_DEVICE_UNAVAILABLE;
}

}  // namespace

#define FAKE_STEP(pid)                          \
  Call call(__func__, kNothing);                \
  if (call.result() == kLose) return lose(pid); \
  if (call.result() != CUDA_SUCCESS) return call.result()

void fake::show_process() {
  if (!path_of(getpid()).empty()) own = map(getpid(), O_CREAT);
}

bool fake::enter_driver() {
  Record* const record = own;
  if (record == nullptr) return false;
  for (;;) {
    ++record->calls;
    if (record->state == CU_PROCESS_STATE_RUNNING) return true;
    --record->calls;
    std::this_thread::sleep_for(kPause);
  }
}

void fake::leave_driver() {
  --own.load()->calls;
}

extern "C" {

CUresult cuCheckpointProcessGetState(int pid, CUprocessState* result) {
  FAKE_CALL(kNothing);
  if (state().process == 0) return CUDA_ERROR_NOT_INITIALIZED;
  const Other other(pid);
  if (other.get() == nullptr || result == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *result = static_cast<CUprocessState>(other.get()->state.load());
  return CUDA_SUCCESS;
}

CUresult cuCheckpointProcessLock(int pid, CUcheckpointLockArgs* arguments) {
  FAKE_STEP(pid);
  const unsigned limit = arguments != nullptr ? arguments->timeoutMs : 0;
  if (arguments != nullptr && arguments->reserved0 != 0) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = change(pid, CU_PROCESS_STATE_RUNNING, CU_PROCESS_STATE_LOCKED);
  if (result != CUDA_SUCCESS) return result;
  const Other other(pid);
  const auto until = Clock::now() + std::chrono::milliseconds(limit);
  while (other.get() != nullptr && other.get()->calls != 0) {
    if (!is_alive(pid)) return CUDA_ERROR_INVALID_VALUE;
    if (limit != 0 && Clock::now() >= until) {
      other.get()->state = CU_PROCESS_STATE_RUNNING;
      return CUDA_ERROR_NOT_READY;
    }
    std::this_thread::sleep_for(kPause);
  }
  return CUDA_SUCCESS;
}

CUresult cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs_st*) {
  FAKE_STEP(pid);
  return change(pid, CU_PROCESS_STATE_LOCKED, CU_PROCESS_STATE_CHECKPOINTED);
}

CUresult cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs_st*) {
  FAKE_STEP(pid);
  return change(pid, CU_PROCESS_STATE_CHECKPOINTED, CU_PROCESS_STATE_LOCKED);
}

CUresult cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs_st*) {
  FAKE_STEP(pid);
  return change(pid, CU_PROCESS_STATE_LOCKED, CU_PROCESS_STATE_RUNNING);
}

}  // extern "C"
