// SPDX-License-Identifier: Apache-2.0
// The stand-in driver: initialisation, errors, devices and contexts.
#include <unistd.h>

#include <cstdio>
#include <iterator>
#include <utility>

#include "fake_state.hpp"

using namespace fake;

namespace {

CUcontext to_handle(Context* context) {
  return reinterpret_cast<CUcontext>(context);
}

Context* from_handle(CUcontext handle) {
  return reinterpret_cast<Context*>(handle);
}

bool is_device(int device) {
  return device >= 0 && device < kDeviceCount;
}

struct ErrorWords {
  CUresult code;
  const char* name;
  const char* text;
};

const ErrorWords kErrors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA_ERROR_DEVICE_UNAVAILABLE",
     "CUDA-capable device(s) is/are busy or unavailable"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {CUDA_ERROR_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CUDA_ERROR_SYSTEM_NOT_READY, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
};

const ErrorWords* find_words(CUresult code) {
  for (const ErrorWords& words : kErrors) {
    if (words.code == code) return &words;
  }
  return nullptr;
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned flags) {
  FAKE_CALL(kNothing);
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const bool is_first = state().process == 0;
  call.lock().unlock();
  if (state().init_hook != nullptr) state().init_hook();
  if (is_first) inject_library();
  call.lock().lock();
  if (state().process == 0) {
    state().process = getpid();
    show_process();
    std::atexit([] { torn_down = true; });
  }
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* version) {
  FAKE_CALL(kNothing);
  *version = 13000;
  return CUDA_SUCCESS;
}

// These two may be called at any time, before cuInit too.
CUresult cuGetErrorName(CUresult code, const char** name) {
  const ErrorWords* words = find_words(code);
  *name = words != nullptr ? words->name : nullptr;
  return words != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult code, const char** text) {
  const ErrorWords* words = find_words(code);
  *text = words != nullptr ? words->text : nullptr;
  return words != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetCount(int* count) {
  FAKE_CALL(kNothing);
  if (state().process == 0) return CUDA_ERROR_NOT_INITIALIZED;
  *count = kDeviceCount;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  FAKE_CALL(kNothing);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(name, static_cast<size_t>(length), "Stand-in GPU %d", device);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  FAKE_CALL(kNothing);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *uuid = {};
  uuid->bytes[0] = static_cast<char>(0xfa);
  uuid->bytes[15] = static_cast<char>(device);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  FAKE_CALL(kNothing);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  const auto& attributes = state().devices[device].attributes;
  const auto found = attributes.find(attribute);
  if (found == attributes.end()) return CUDA_ERROR_INVALID_VALUE;
  *value = found->second;
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  FAKE_CALL(kNothing);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = state().devices[device].capacity;
  return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int* can_access, CUdevice device, CUdevice peer) {
  FAKE_CALL(kNothing);
  if (!is_device(device) || !is_device(peer)) return CUDA_ERROR_INVALID_DEVICE;
  *can_access = state().peer_access[device][peer] ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  FAKE_CALL(kNothing);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  ++state().devices[device].primary_references;
  Context& primary = state().devices[device].primary;
  if (std::exchange(primary.gone, false)) primary.id = Context::next_id();
  *context = to_handle(&state().devices[device].primary);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  FAKE_CALL(kNothing);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (state().devices[device].primary_references == 0) return CUDA_ERROR_INVALID_CONTEXT;
  DeviceState& there = state().devices[device];
  if (--there.primary_references == 0) end_of(state(), there.primary);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  FAKE_CALL(kNothing);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *flags = 0;
  const DeviceState& there = state().devices[device];
  *active = there.primary_references > 0 && !there.primary.gone ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  FAKE_CALL(kNothing);
  *context = to_handle(current_context());
  return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext context, unsigned long long* id) {
  FAKE_CALL(kNothing);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (from_handle(context)->gone) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  *id = from_handle(context)->id;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  FAKE_CALL(kContext);
  *device = current_context()->device;
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
  FAKE_CALL(kNothing);
  ThreadState& thread = thread_state;
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (thread.depth == static_cast<int>(std::size(thread.stack))) return CUDA_ERROR_INVALID_VALUE;
  Context* pushed = from_handle(context);
  if (pushed->gone) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (pushed->primary && state().devices[pushed->device].primary_references == 0) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  thread.stack[thread.depth++] = pushed;
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  FAKE_CALL(kContext);
  *context = to_handle(current_context());
  --thread_state.depth;
  return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  FAKE_CALL(kContext | kNoCapture);
  Context* owner = from_handle(peer);
  Context* user = current_context();
  if (flags != 0 || owner == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (owner->device == user->device || !state().peer_access[user->device][owner->device]) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  const bool is_new = state().enabled_peers.insert({user, owner}).second;
  return is_new ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  FAKE_CALL(kNothing);
  if (*mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  std::swap(*mode, thread_state.mode);
  return CUDA_SUCCESS;
}

CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  FAKE_CALL(kContext | kNoCapture);
  const DeviceState& device = state().devices[current_context()->device];
  *free = device.capacity > device.used ? device.capacity - device.used : 0;
  *total = device.capacity;
  return CUDA_SUCCESS;
}

}  // extern "C"
