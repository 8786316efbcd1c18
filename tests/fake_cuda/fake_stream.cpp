// SPDX-License-Identifier: Apache-2.0
// The stand-in driver: streams, events, capture, and work on memory.
#include <algorithm>
#include <cstring>

#include "fake_state.hpp"

using namespace fake;

namespace {

FakeEvent* find_event(State& driver, CUevent handle) {
  const auto found = driver.events.find(handle);
  return found != driver.events.end() ? found->second.get() : nullptr;
}

template <typename Function>
void for_each_stream(State& driver, Function function) {
  for (auto& [key, stream] : driver.default_streams) function(stream);
  for (auto& [handle, stream] : driver.streams) function(*stream);
}

bool run_stream(FakeStream& stream) {
  bool ran = false;
  while (!stream.held && !stream.tasks.empty()) {
    Task& task = stream.tasks.front();
    if (task.after != nullptr && !*task.after) break;
    if (task.run) task.run();
    stream.tasks.pop_front();
    ran = true;
  }
  return ran;
}

void queue(State& driver, FakeStream& stream, Task task) {
  stream.tasks.push_back(std::move(task));
  run_streams(driver);
}

/// Whether a stream of the context that the legacy default stream would wait for is capturing.
bool blocks_legacy_stream(State& driver, const Context* context) {
  bool capturing = false;
  for (const auto& [handle, stream] : driver.streams) {
    capturing |= stream->context == context && stream->blocking && stream->capture_id != 0;
  }
  return capturing;
}

bool is_legacy(CUstream handle) {
  return reinterpret_cast<uintptr_t>(handle) <= kStreamLegacy;
}

/// Finds the stream of a call that queues work or asks how far it is. The real driver may crash on one that
/// was destroyed.
CUresult use_stream(CUstream handle, FakeStream*& stream) {
  stream = find_stream(state(), handle);
  if (stream == nullptr) {
    ++state().faults;
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (is_legacy(handle) && blocks_legacy_stream(state(), stream->context)) {
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  return CUDA_SUCCESS;
}

/// The same for a call that touches the stream's capture. While another thread captures there, the real
/// driver crashes or ends the capture, as the two happen to meet.
CUresult use_own_stream(CUstream handle, FakeStream*& stream) {
  if (const CUresult result = use_stream(handle, stream); result != CUDA_SUCCESS) return result;
  if (stream->capture_id == 0 || stream->capture_thread == std::this_thread::get_id()) return CUDA_SUCCESS;
  ++state().faults;
  stream->invalidated = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

/// The host must not ask about, nor wait for, a stream that is capturing: that ends the capture.
CUresult use_idle_stream(CUstream handle, FakeStream*& stream) {
  if (const CUresult result = use_stream(handle, stream); result != CUDA_SUCCESS) return result;
  if (stream->capture_id == 0) return CUDA_SUCCESS;
  stream->invalidated = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

/// Adds work to the graph of the stream's capture.
void capture_work(FakeStream& stream) {
  auto& nodes = state().nodes;
  nodes.push_back(std::make_unique<FakeNode>(FakeNode{std::move(stream.frontier)}));
  stream.frontier = {reinterpret_cast<CUgraphNode>(nodes.back().get())};
}

/// A stream that waits for a captured event joins the capture, or its own capture comes after the event too.
CUresult capture_wait(FakeStream& stream, const CapturePlace& place) {
  constexpr auto kIsolation = static_cast<CUresult>(905);
  if (stream.capture_id == 0) {
    static_cast<CapturePlace&>(stream) = place;
    return CUDA_SUCCESS;
  }
  if (stream.capture_id != place.capture_id) return kIsolation;
  for (const CUgraphNode node : place.frontier) {
    if (std::find(stream.frontier.begin(), stream.frontier.end(), node) == stream.frontier.end())
      stream.frontier.push_back(node);
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult fake::queue_work(CUstream handle, std::function<bool()> is_allowed, std::function<void()> work) {
  FakeStream* stream = nullptr;
  if (const CUresult result = use_stream(handle, stream); result != CUDA_SUCCESS) return result;
  if (!is_allowed()) return CUDA_ERROR_ILLEGAL_ADDRESS;
  if (stream->capture_id != 0) {
    capture_work(*stream);
    return CUDA_SUCCESS;
  }
  const auto run = [is_allowed = std::move(is_allowed), work = std::move(work)] {
    if (is_allowed()) {
      work();
    } else {
      ++state().faults;
    }
  };
  queue(state(), *stream, {nullptr, run});
  return CUDA_SUCCESS;
}

FakeStream* fake::find_stream(State& driver, CUstream handle) {
  const auto number = reinterpret_cast<uintptr_t>(handle);
  if (number <= kStreamPerThread) {
    Context* context = current_context();
    if (context == nullptr) return nullptr;
    const uintptr_t kind = number == kStreamPerThread ? kStreamPerThread : kStreamLegacy;
    FakeStream& stream = driver.default_streams[{context, kind}];
    stream.context = context;
    return &stream;
  }
  const auto found = driver.streams.find(handle);
  return found != driver.streams.end() ? found->second.get() : nullptr;
}

void fake::run_streams(State& driver) {
  for (bool ran = true; ran;) {
    ran = false;
    for_each_stream(driver, [&](FakeStream& stream) { ran |= run_stream(stream); });
  }
  driver.progress.notify_all();
}

void fake::wait_for_context(std::unique_lock<std::mutex>& lock) {
  State& driver = state();
  const Context* context = current_context();
  driver.progress.wait(lock, [&] {
    bool idle = true;
    for_each_stream(driver, [&](const FakeStream& stream) {
      idle = idle && (stream.context != context || stream.tasks.empty());
    });
    return idle;
  });
}

bool fake::unsafe_refused(State& driver) {
  const CUstreamCaptureMode mode = thread_state.mode;
  if (mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
  bool refused = false;
  for_each_stream(driver, [&](FakeStream& stream) {
    if (stream.capture_id == 0 || stream.capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return;
    const bool own = stream.capture_thread == std::this_thread::get_id();
    const bool global =
        mode == CU_STREAM_CAPTURE_MODE_GLOBAL && stream.capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!own && !global) return;
    stream.invalidated = true;
    refused = true;
  });
  return refused;
}

extern "C" {

CUresult cuStreamCreate(CUstream* handle, unsigned flags) {
  FAKE_CALL(kContext | kNoCapture);
  if (flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  auto created = std::make_unique<FakeStream>();
  created->context = current_context();
  created->blocking = flags == 0;
  state().seen.stream_flags = flags;
  *handle = reinterpret_cast<CUstream>(created.get());
  state().streams.emplace(*handle, std::move(created));
  return CUDA_SUCCESS;
}

CUresult cuStreamDestroy_v2(CUstream handle) {
  FAKE_CALL(kNothing);
  return state().streams.erase(handle) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

extern CUresult cuStreamQuery(CUstream);
CUresult cuStreamQuery(CUstream handle) {
  FAKE_CALL(kContext | kNoCapture);
  FakeStream* stream = nullptr;
  if (const CUresult result = use_idle_stream(handle, stream); result != CUDA_SUCCESS) return result;
  return stream->tasks.empty() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuStreamSynchronize(CUstream handle) {
  FAKE_CALL(kContext | kNoCapture);
  FakeStream* stream = nullptr;
  if (const CUresult result = use_idle_stream(handle, stream); result != CUDA_SUCCESS) return result;
  state().progress.wait(call.lock(), [&] { return stream->tasks.empty(); });
  release_beyond_thresholds();
  return CUDA_SUCCESS;
}

extern CUresult cuCtxSynchronize();
CUresult cuCtxSynchronize() {
  FAKE_CALL(kContext | kNoCapture);
  wait_for_context(call.lock());
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event_handle, unsigned flags) {
  FAKE_CALL(kContext);
  FakeStream* stream = nullptr;
  if (const CUresult result = use_own_stream(handle, stream); result != CUDA_SUCCESS) return result;
  const FakeEvent* event = find_event(state(), event_handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (event->captured) return capture_wait(*stream, event->place);
  if (event->last != nullptr && stream->capture_id == 0) queue(state(), *stream, {event->last, nullptr});
  return CUDA_SUCCESS;
}

/// Any thread may ask these two.
CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  FAKE_CALL(kContext);
  FakeStream* stream = nullptr;
  if (const CUresult result = use_stream(handle, stream); result != CUDA_SUCCESS) return result;
  *status = stream->capture_id == 0 ? CU_STREAM_CAPTURE_STATUS_NONE
            : stream->invalidated   ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                    : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) {
  FAKE_CALL(kContext);
  const FakeStream* stream = find_stream(state(), handle);
  if (stream == nullptr) {
    ++state().faults;
    return CUDA_ERROR_INVALID_HANDLE;
  }
  *context = reinterpret_cast<CUcontext>(stream->context);
  return CUDA_SUCCESS;
}

#ifdef FAKE_CUDA_CAPTURE_INFO_V3
CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus* status, uint64_t* id,
                                   CUgraph* graph, const CUgraphNode** nodes, const CUgraphEdgeData** edges,
                                   size_t* count) {
  FAKE_CALL(kContext);
  if (edges != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
#else
CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus* status, uint64_t* id,
                                   CUgraph* graph, const CUgraphNode** nodes, size_t* count) {
  FAKE_CALL(kContext);
#endif
  if (graph != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  FakeStream* stream = nullptr;
  if (const CUresult result = use_own_stream(handle, stream); result != CUDA_SUCCESS) return result;
  *status = stream->capture_id == 0 ? CU_STREAM_CAPTURE_STATUS_NONE
            : stream->invalidated   ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                    : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
  *id = stream->capture_id;
  if (nodes != nullptr) *nodes = stream->frontier.data();
  if (count != nullptr) *count = stream->frontier.size();
  return CUDA_SUCCESS;
}

/// flags 0: the nodes are added to what the stream's next work comes after; 1: they replace it.
CUresult cuStreamUpdateCaptureDependencies(CUstream handle, CUgraphNode* nodes, size_t count,
                                           unsigned flags) {
  FAKE_CALL(kContext);
  FakeStream* stream = nullptr;
  if (const CUresult result = use_stream(handle, stream); result != CUDA_SUCCESS) return result;
  if (stream->capture_id == 0 || flags > 1) return CUDA_ERROR_INVALID_VALUE;
  CapturePlace place = *stream;
  place.frontier.assign(nodes, nodes + count);
  if (flags == 1) stream->frontier.clear();
  return capture_wait(*stream, place);
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* after, size_t* count) {
  FAKE_CALL(kNothing);
  const std::vector<CUgraphNode>& all = reinterpret_cast<const FakeNode*>(node)->after;
  if (after != nullptr) {
    if (*count < all.size()) return CUDA_ERROR_NOT_SUPPORTED;
    std::copy(all.begin(), all.end(), after);
  }
  *count = all.size();
  return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent* handle, unsigned flags) {
  FAKE_CALL(kContext);
  auto created = std::make_unique<FakeEvent>();
  created->context = current_context();
  state().seen.event_flags = flags;
  *handle = reinterpret_cast<CUevent>(created.get());
  state().events.emplace(*handle, std::move(created));
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent handle) {
  FAKE_CALL(kNothing);
  return state().events.erase(handle) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventRecord(CUevent handle, CUstream stream_handle) {
  FAKE_CALL(kContext);
  FakeStream* stream = nullptr;
  if (const CUresult result = use_own_stream(stream_handle, stream); result != CUDA_SUCCESS) return result;
  FakeEvent* event = find_event(state(), handle);
  if (event == nullptr || event->context != stream->context) return CUDA_ERROR_INVALID_HANDLE;
  event->captured = stream->capture_id != 0;
  if (event->captured) {
    event->place = *stream;
    return CUDA_SUCCESS;
  }
  auto done = std::make_shared<bool>(false);
  event->last = done;
  queue(state(), *stream, {nullptr, [done] { *done = true; }});
  return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent handle) {
  FAKE_CALL(kNoCapture);
  const FakeEvent* event = find_event(state(), handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (event->captured) return CUDA_ERROR_CAPTURED_EVENT;
  return event->last == nullptr || *event->last ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent handle) {
  FAKE_CALL(kNoCapture);
  const FakeEvent* event = find_event(state(), handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (event->captured) return CUDA_ERROR_CAPTURED_EVENT;
  const Point last = event->last;
  if (last != nullptr) state().progress.wait(call.lock(), [&] { return *last; });
  return CUDA_SUCCESS;
}

CUresult cuMemcpyAsync(CUdeviceptr destination, CUdeviceptr source, size_t size, CUstream stream) {
  FAKE_CALL(kContext);
  const int device = current_context()->device;
  return queue_work(
      stream,
      [=] {
        return is_usable(state(), device, destination, size) && is_usable(state(), device, source, size);
      },
      [=] {
        std::memmove(reinterpret_cast<void*>(destination), reinterpret_cast<const void*>(source), size);
      });
}

CUresult cuMemsetD8Async(CUdeviceptr destination, unsigned char value, size_t size, CUstream stream) {
  FAKE_CALL(kContext);
  const int device = current_context()->device;
  return queue_work(
      stream, [=] { return is_usable(state(), device, destination, size); },
      [=] { std::memset(reinterpret_cast<void*>(destination), value, size); });
}

CUresult cuMemsetD32Async(CUdeviceptr destination, unsigned int word, size_t count, CUstream stream) {
  FAKE_CALL(kContext);
  if (destination % sizeof word != 0) return CUDA_ERROR_INVALID_VALUE;
  const int device = current_context()->device;
  return queue_work(
      stream, [=] { return is_usable(state(), device, destination, count * sizeof word); },
      [=] { std::fill_n(reinterpret_cast<unsigned int*>(destination), count, word); });
}

}  // extern "C"
