// SPDX-License-Identifier: Apache-2.0
// The stand-in driver: what every call begins with, and the controls.
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <sstream>

#include "fake_state.hpp"

namespace fake {

std::atomic<bool> torn_down{false};
std::atomic<uint64_t> late_calls{0};
constinit thread_local ThreadState thread_state = {};

namespace {

// In place of a code: the process is killed there, or once the call has done its work, or does not come back.
constexpr auto kKill = static_cast<CUresult>(100000);
constexpr auto kKillAfter = static_cast<CUresult>(100001);
constexpr auto kHang = static_cast<CUresult>(100002);

CUresult code_of(const std::string& text) {
  if (text == "kill") return kKill;
  if (text == "kill-after") return kKillAfter;
  if (text == "hang") return kHang;
  return text == "lose" ? kLose : static_cast<CUresult>(std::stoul(text));
}

/// FAKE_CUDA_FAIL in the environment, for programs that have no controls: "FUNCTION:OCCURRENCE=CODE,...", as
/// for the control `fail`, or "kill", "kill-after", "hang" or, of fake_checkpoint.cpp, "lose" in place of the
/// code.
void read_failures(State& state) {
  const char* const text = std::getenv("FAKE_CUDA_FAIL");
  std::istringstream entries(text != nullptr ? text : "");
  for (std::string entry; std::getline(entries, entry, ',');) {
    const size_t colon = entry.find(':');
    const size_t equals = entry.find('=');
    if (colon == std::string::npos || equals == std::string::npos) std::abort();  // a test's own mistake
    state.failures.push_back(
        {entry.substr(0, colon), std::stoull(entry.substr(colon + 1)), 0, code_of(entry.substr(equals + 1))});
  }
}

}  // namespace

State& state() {
  static State* const instance = [] {
    auto* created = new State;
    set_defaults(*created);
    read_failures(*created);
    for (int device = 0; device < kDeviceCount; ++device) {
      created->devices[device].primary = {device, true};
    }
    return created;
  }();
  return *instance;
}

Context* current_context() {
  return thread_state.depth > 0 ? thread_state.stack[thread_state.depth - 1] : nullptr;
}

void set_defaults(State& state) {
  state.failures.clear();
  for (int device = 0; device < kDeviceCount; ++device) {
    state.devices[device].capacity = kCapacity;
    state.devices[device].keeps_for_addresses = false;
    state.devices[device].attributes = {
        {CU_DEVICE_ATTRIBUTE_INTEGRATED, 0},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
        {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
        {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
        {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 1},
        {static_cast<CUdevice_attribute>(115), 1},  // memory pools
    };
    for (int peer = 0; peer < kDeviceCount; ++peer) state.peer_access[device][peer] = device != peer;
  }
}

namespace {

CUresult scripted_failure(State& state, const char* function) {
  CUresult code = CUDA_SUCCESS;
  for (Failure& failure : state.failures) {
    if (failure.function != function) continue;
    ++failure.seen;
    if (failure.occurrence == 0 || failure.occurrence == failure.seen) code = failure.code;
  }
  return code;
}

}  // namespace

Call::Call(const char* function, unsigned needs) : result_(begin(function, needs)) {
  thread_state.began = result_;
}

CUresult Call::begin(const char* function, unsigned needs) {
  if (torn_down) {
    ++late_calls;
    return CUDA_ERROR_DEINITIALIZED;
  }
  State& driver = state();
  // Before the lock, which a thread of the parent may have held.
  if (driver.process != 0 && driver.process != getpid()) {
    ++late_calls;
    return CUDA_ERROR_NOT_INITIALIZED;
  }
  is_counted_ = enter_driver();
  lock_ = std::unique_lock(driver.mutex);
  ++driver.calls[function];
  const CUresult code = scripted_failure(driver, function);
  if (code == kKill) (void)kill(getpid(), SIGKILL);
  is_last_ = code == kKillAfter;
  if (is_last_) return CUDA_SUCCESS;
  while (code == kHang) (void)pause();
  if (code != CUDA_SUCCESS) return code;
  if ((needs & kNoCapture) != 0 && unsafe_refused(driver)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if ((needs & kContext) != 0 && current_context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return CUDA_SUCCESS;
}

Call::~Call() {
  if (is_last_) (void)kill(getpid(), SIGKILL);
  if (is_counted_) leave_driver();
}

Shown::Shown(uint32_t number, const void* arguments) : number_(number), arguments_(arguments) {
  if (const FakeCudaObserver observer = state().observer)
    observer(number_, 0, arguments_, nullptr, current_context());
}

Shown::~Shown() {
  auto result = static_cast<uint32_t>(thread_state.began != CUDA_SUCCESS ? thread_state.began : result_);
  if (const FakeCudaObserver observer = state().observer)
    observer(number_, 1, arguments_, &result, current_context());
}

void end_of(State& driver, Context& context) {
  if (driver.observer != nullptr) driver.observer(0, 0, nullptr, nullptr, &context);
  context.gone = true;
  const auto belongs = [&](const auto& entry) { return entry.second->context == &context; };
  for (const auto& entry : driver.streams) {
    if (belongs(entry)) entry.second->held = false;
  }
  run_streams(driver);
  std::erase_if(driver.streams, belongs);
  std::erase_if(driver.events, belongs);
  std::erase_if(driver.modules, belongs);
  std::erase_if(driver.default_streams, [&](const auto& entry) { return entry.first.first == &context; });
  std::erase_if(driver.allocations, [&](const auto& entry) {
    const Allocation& allocation = entry.second;
    if (allocation.context != &context) return false;
    if (allocation.source == Source::device) driver.devices[context.device].used -= allocation.size;
    return true;
  });
}

namespace {

template <typename Function>
auto locked(Function function) {
  const std::lock_guard lock(state().mutex);
  return function(state());
}

void fail(const char* function, uint64_t occurrence, uint32_t code) {
  locked([&](State& driver) {
    driver.failures.push_back({function, occurrence, 0, static_cast<CUresult>(code)});
  });
}

void on_init(void (*hook)()) {
  locked([&](State& driver) { driver.init_hook = hook; });
}

void show_calls(FakeCudaObserver observer) {
  locked([&](State& driver) { driver.observer = observer; });
}

void reset() {
  locked([](State& driver) { set_defaults(driver); });
}

uint64_t calls(const char* function) {
  return locked([&](State& driver) {
    if (function != nullptr) return driver.calls[function];
    uint64_t sum = 0;
    for (const auto& [name, count] : driver.calls) sum += count;
    return sum;
  });
}

FakeCudaLive live() {
  return locked([](State& driver) {
    return FakeCudaLive{driver.reservations.size(), driver.chunks.size(), driver.mappings.size(),
                        driver.allocations.size(),  driver.events.size(), driver.streams.size(),
                        driver.modules.size()};
  });
}

FakeCudaSeen seen() {
  return locked([](State& driver) { return driver.seen; });
}

uint64_t faults() {
  return locked([](State& driver) { return driver.faults; });
}

void set_attribute(int device, uint32_t attribute, int value) {
  locked([&](State& driver) {
    driver.devices[device].attributes[static_cast<CUdevice_attribute>(attribute)] = value;
  });
}

void set_peer_access(int device, int peer, int can_access) {
  locked([&](State& driver) { driver.peer_access[device][peer] = can_access != 0; });
}

void set_capacity(int device, uint64_t bytes) {
  locked([&](State& driver) { driver.devices[device].capacity = bytes; });
}

void keep_for_addresses(int device, int on) {
  locked([&](State& driver) { driver.devices[device].keeps_for_addresses = on != 0; });
}

void* create_context(int device) {
  return locked([&](State& driver) {
    driver.contexts.push_back(std::make_unique<Context>(Context{device, false}));
    return driver.contexts.back().get();
  });
}

void end_context(void* which) {
  locked([&](State& driver) {
    end_of(driver, which != nullptr ? *static_cast<Context*>(which) : driver.devices[0].primary);
  });
}

int context_depth() {
  return thread_state.depth;
}

int primary_references(int device) {
  return locked([&](State& driver) { return driver.devices[device].primary_references; });
}

uint32_t capture_mode() {
  return thread_state.mode;
}

FakeStream& stream_of(State& driver, uintptr_t stream) {
  FakeStream* found = find_stream(driver, reinterpret_cast<CUstream>(stream));
  if (found == nullptr) std::abort();  // a test's own mistake
  return *found;
}

void hold(uintptr_t stream) {
  locked([&](State& driver) { stream_of(driver, stream).held = true; });
}

void release(uintptr_t stream) {
  locked([&](State& driver) {
    stream_of(driver, stream).held = false;
    run_streams(driver);
  });
}

uintptr_t create_blocking_stream(void* context) {
  return locked([&](State& driver) {
    auto created = std::make_unique<FakeStream>();
    created->context = context != nullptr ? static_cast<Context*>(context) : current_context();
    created->blocking = true;
    const auto handle = reinterpret_cast<CUstream>(created.get());
    driver.streams.emplace(handle, std::move(created));
    return reinterpret_cast<uintptr_t>(handle);
  });
}

void begin_capture(uintptr_t stream, uint32_t mode) {
  locked([&](State& driver) {
    FakeStream& capturing = stream_of(driver, stream);
    capturing.capture_id = driver.next_capture++;
    capturing.capture_mode = static_cast<CUstreamCaptureMode>(mode);
    capturing.capture_thread = std::this_thread::get_id();
    capturing.frontier.clear();
    capturing.invalidated = false;
  });
}

int end_capture(uintptr_t stream) {
  return locked([&](State& driver) {
    FakeStream& capturing = stream_of(driver, stream);
    const uint64_t ended = capturing.capture_id;
    for (auto& [handle, joined] : driver.streams) {
      if (joined->capture_id == ended) joined->capture_id = 0;
    }
    return capturing.invalidated ? 0 : 1;
  });
}

int is_torn_down() {
  return torn_down ? 1 : 0;
}

uint64_t count_late_calls() {
  return late_calls;
}

}  // namespace
}  // namespace fake

extern "C" const FakeCudaControls* fake_cuda_controls() {
  using namespace fake;
  static constexpr FakeCudaControls controls = {
      .fail = fail,
      .reset = reset,
      .on_init = on_init,
      .show_calls = show_calls,
      .calls = calls,
      .live = live,
      .seen = seen,
      .faults = faults,
      .set_attribute = set_attribute,
      .set_peer_access = set_peer_access,
      .set_capacity = set_capacity,
      .keep_for_addresses = keep_for_addresses,
      .create_context = create_context,
      .end_context = end_context,
      .context_depth = context_depth,
      .primary_references = primary_references,
      .capture_mode = capture_mode,
      .hold = hold,
      .release = release,
      .create_blocking_stream = create_blocking_stream,
      .begin_capture = begin_capture,
      .end_capture = end_capture,
      .torn_down = is_torn_down,
      .late_calls = count_late_calls,
  };
  return &controls;
}
