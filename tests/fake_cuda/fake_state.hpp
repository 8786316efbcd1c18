// SPDX-License-Identifier: Apache-2.0
// The state of the stand-in driver, shared by its source files.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "device/cuda/types.hpp"
#include "fake_cuda.hpp"
#include "frameworks/inject/cupti_types.hpp"

namespace fake {

using namespace gpupool::internal::cuda;

inline constexpr int kDeviceCount = 2;
inline constexpr uint64_t kCapacity = uint64_t{8} << 30;
inline constexpr uint64_t kGranularity = uint64_t{2} << 20;

struct Context {
  int device = 0;
  bool primary = false;
  bool gone = false;
  uint64_t id = next_id();  // of no other context, before or after

  static uint64_t next_id() {
    static uint64_t last = 0;
    return ++last;
  }
};

/// Done or not; shared by the event and by who waits for it.
using Point = std::shared_ptr<bool>;

/// Something that a stream has yet to do. It can be done once `after`, if any, is.
struct Task {
  Point after;
  std::function<void()> run;
};

/// Work of a capture, and what it comes after.
struct FakeNode {
  std::vector<CUgraphNode> after;
};

/// Where a stream is in a capture.
struct CapturePlace {
  uint64_t capture_id = 0;  // 0: it is not capturing
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id capture_thread;
  std::vector<CUgraphNode> frontier;  // what its next work comes after
  bool invalidated = false;
};

struct FakeStream : CapturePlace {
  Context* context = nullptr;
  bool blocking = false;
  bool held = false;
  std::deque<Task> tasks;
};

struct FakeEvent {
  Context* context = nullptr;
  Point last;
  bool captured = false;
  CapturePlace place;  // of the stream, if it is captured
};

struct FakeModule {
  Context* context = nullptr;
  std::string text;
};

struct Chunk {
  int device = 0;
  uint64_t size = 0;
  uint64_t offset = 0;  // in the device's file
  uint64_t mappings = 0;
  bool released = false;
  CUmemAllocationHandleType handle_type = CU_MEM_HANDLE_TYPE_NONE;
  int file = -1;          // its own, once it was exported or imported
  bool imported = false;  // takes nothing of the capacity
  uint64_t last_address = 0;
};

struct Mapping {
  uint64_t size = 0;
  CUmemGenericAllocationHandle chunk = 0;
  uint32_t access = 0;  // bit n: device n
};

enum class Source { device, host, managed };

struct Allocation {
  Source source = Source::device;
  Context* context = nullptr;
  uint64_t size = 0;
};

struct DeviceState {
  uint64_t capacity = kCapacity;
  uint64_t used = 0;
  bool keeps_for_addresses = false;
  std::map<uint64_t, uint64_t> kept;  // bytes by reservation
  Context primary;
  int primary_references = 0;
  std::map<CUdevice_attribute, int> attributes;
  // A sparse file that all chunks are parts of; an offset is never used twice.
  int file = -1;
  uint64_t next_offset = 0;
};

struct Failure {
  std::string function;
  uint64_t occurrence = 0;  // 0: every one
  uint64_t seen = 0;
  CUresult code = CUDA_SUCCESS;
};

struct State {
  std::mutex mutex;
  std::condition_variable progress;
  pid_t process = 0;  // that called cuInit

  DeviceState devices[kDeviceCount];
  bool peer_access[kDeviceCount][kDeviceCount] = {};
  std::set<std::pair<Context*, Context*>> enabled_peers;
  std::vector<std::unique_ptr<Context>> contexts;

  std::map<uint64_t, uint64_t> reservations;
  std::map<uint64_t, Mapping> mappings;
  std::map<CUmemGenericAllocationHandle, Chunk> chunks;
  CUmemGenericAllocationHandle next_chunk = 1;
  std::map<uint64_t, Allocation> allocations;
  std::map<void*, size_t> registered;

  std::map<CUstream, std::unique_ptr<FakeStream>> streams;
  // The legacy and the per-thread default stream of each context; the latter is one for all threads here.
  std::map<std::pair<Context*, uintptr_t>, FakeStream> default_streams;
  std::map<CUevent, std::unique_ptr<FakeEvent>> events;
  std::map<CUmodule, std::unique_ptr<FakeModule>> modules;
  uint64_t next_capture = 1;
  std::vector<std::unique_ptr<FakeNode>> nodes;  // of all captures

  std::map<std::string, uint64_t> calls;
  std::vector<Failure> failures;
  void (*init_hook)() = nullptr;
  FakeCudaObserver observer = nullptr;
  FakeCudaSeen seen = {};
  uint64_t faults = 0;
};

/// Never destroyed: calls come until the very end of the process.
State& state();
extern std::atomic<bool> torn_down;
extern std::atomic<uint64_t> late_calls;

/// A thread's stack of contexts and capture mode. Trivial, so that they outlive everything in the thread.
struct ThreadState {
  Context* stack[32];
  int depth;
  CUstreamCaptureMode mode;
  CUresult began;  // the result with which the last call began
};
extern constinit thread_local ThreadState thread_state;
Context* current_context();

inline void* to_memory(uint64_t address) {
  return reinterpret_cast<void*>(address);
}

/// What a call needs of its surroundings.
enum Needs : unsigned { kNothing = 0, kContext = 1, kNoCapture = 2 };

/// A scripted failure of a call on another process: that is lost half way.
inline constexpr auto kLose = static_cast<CUresult>(100003);

/// The beginning of every call: counts it, gives scripted failures, checks what it needs, and holds the lock
/// until its end.
class Call {
 public:
  Call(const char* function, unsigned needs);
  CUresult result() const { return result_; }
  std::unique_lock<std::mutex>& lock() { return lock_; }
  ~Call();

 private:
  CUresult begin(const char* function, unsigned needs);
  std::unique_lock<std::mutex> lock_;
  bool is_counted_ = false;
  bool is_last_ = false;  // the process is killed at its end
  CUresult result_;
};

#define FAKE_CALL(needs)            \
  fake::Call call(__func__, needs); \
  if (call.result() != CUDA_SUCCESS) return call.result()

/// The beginning of a call that CUPTI can tell of: before FAKE_CALL, so that it ends with no lock held. A
/// call of which says() is not told has failed, as it began or with INVALID_VALUE.
class Shown {
 public:
  Shown(uint32_t number, const void* arguments);
  CUresult says(CUresult result) {
    result_ = result;
    return result;
  }
  ~Shown();

 private:
  uint32_t number_;
  const void* arguments_;
  CUresult result_ = CUDA_ERROR_INVALID_VALUE;
};

/// One driver's types, as two headers declare them.
inline gpupool::inject::cupti::CUstream to_cuptis(CUstream stream) {
  return reinterpret_cast<gpupool::inject::cupti::CUstream>(stream);
}
inline const gpupool::driver::CUmemProp* to_cuptis(const CUmemAllocationProp* properties) {
  return reinterpret_cast<const gpupool::driver::CUmemProp*>(properties);
}

/// With the function's arguments, as CUPTI's struct `type` has them.
#define FAKE_SHOWN_AS(name, type, ...)                                      \
  const gpupool::inject::cupti::type##_params shown_arguments{__VA_ARGS__}; \
  fake::Shown shown(gpupool::inject::cupti::CUPTI_DRIVER_TRACE_CBID_##name, &shown_arguments)
#define FAKE_SHOWN(name, ...) FAKE_SHOWN_AS(name, name, __VA_ARGS__)

/// Lets other processes lock this one, from cuInit on; whether the call that follows is counted as under way,
/// once the process is not locked; and the end of one that is.
void show_process();
bool enter_driver();
void leave_driver();

/// Loads what CUDA_INJECTION64_PATH names, and calls it.
void inject_library();
/// What the driver's memory pools do whenever a stream is waited for.
void release_beyond_thresholds();

/// Ends a context with all that belongs to it, once its streams have done their work.
void end_of(State& driver, Context& context);
/// Sets attributes, peers, capacities and failures to their defaults.
void set_defaults(State& state);

/// Whether `device` may use [address, address + size): true for memory that no reservation holds.
bool is_usable(const State& state, int device, uint64_t address, uint64_t size);

/// The stream that a handle names in the current context; null if there is none.
FakeStream* find_stream(State& state, CUstream handle);
/// Queues work on memory of the current context's device, or takes it into the stream's graph. Work that is
/// not allowed is refused, and is a fault once it is no longer allowed when its turn comes.
CUresult queue_work(CUstream stream, std::function<bool()> is_allowed, std::function<void()> work);
/// Waits for all work of the current context, as the driver's free does.
void wait_for_context(std::unique_lock<std::mutex>& lock);
/// Does all that can be done now, on all streams.
void run_streams(State& state);
/// Whether the calling thread may not make a call that is unsafe under capture; invalidates those captures.
bool unsafe_refused(State& state);

}  // namespace fake

// Declared with the types that the library calls them with: a definition that differs does not compile.
extern "C" {
using namespace gpupool::internal::cuda;
#define FAKE_DECLARE(name, ...) std::type_identity_t<__VA_ARGS__> name;
GPUPOOL_CUDA_FUNCTIONS(FAKE_DECLARE)
#undef FAKE_DECLARE
std::type_identity_t<DeviceGetUuidV2> cuDeviceGetUuid_v2;
std::type_identity_t<CtxGetId> cuCtxGetId;
std::type_identity_t<StreamGetCaptureInfoV2> cuStreamGetCaptureInfo_v2;
std::type_identity_t<StreamGetCaptureInfoV3> cuStreamGetCaptureInfo_v3;
}
