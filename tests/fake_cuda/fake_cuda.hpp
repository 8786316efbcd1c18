// SPDX-License-Identifier: Apache-2.0
// A stand-in for libcuda.so.1, for tests without a GPU: the controls.
//
// The stand-in is a shared library with the driver's exported names. It enforces the driver's rules (whole
// chunks, whole mappings, contexts, capture) and returns the driver's error codes if they are broken. Device
// memory is host memory, and a chunk mapped twice is visible at both addresses. Streams run in order: work is
// done when it is queued, unless the stream is held or waits for an event of a held one. Unlike CUDA, the
// legacy default stream does not wait for other streams.
//
// FAKE_CUDA_FAIL in the environment makes calls fail from the start, for programs that have no controls:
// "cuDevicePrimaryCtxRetain:1=46,cuMemCreate:0=801" (function, occurrence, code), as for the control `fail`;
// in place of the code, "kill" ends the process there, "kill-after" once the call has done its work, "hang"
// has it wait for ever, and "lose" has a call on another process fail half way, which then cannot run on.
//
// Programs load it because GPUPOOL_LIBCUDA names it; tests then reach these controls through fake_cuda().
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

/// What exists on all devices.
struct FakeCudaLive {
  uint64_t reservations;
  uint64_t chunks;
  uint64_t mappings;
  uint64_t allocations;
  uint64_t events;
  uint64_t streams;
  uint64_t modules;
};

/// How the last chunk was created, and how access was last set.
struct FakeCudaSeen {
  uint32_t chunk_handle_type;
  uint32_t chunk_rdma;
  uint32_t access_devices;  // bit n: device n
  uint32_t host_flags;
  uint32_t register_flags;
  uint32_t managed_flags;
  uint32_t event_flags;
  uint32_t stream_flags;
};

/// Is told of calls that CUPTI can tell of: the function's number there, whether it ends, its arguments, its
/// result, and the current context. Number 0: this context is about to end.
using FakeCudaObserver = void (*)(uint32_t number, int is_end, const void* arguments, uint32_t* result,
                                  void* context);

struct FakeCudaControls {
  /// Lets the call of `function` (its exported name) number `occurrence`, counted from 1 and from now, fail
  /// with `code`; occurrence 0: every call.
  void (*fail)(const char* function, uint64_t occurrence, uint32_t code);
  /// Ends all failures, and sets attributes, peers and capacities to what they were at the start.
  void (*reset)();
  /// Called in the middle of cuInit, with no lock held.
  void (*on_init)(void (*hook)());
  /// Null: nobody is told. With no lock held, except of a context's end.
  void (*show_calls)(FakeCudaObserver observer);
  /// Calls of one function so far, or of all (null); failed ones count.
  uint64_t (*calls)(const char* function);
  FakeCudaLive (*live)();
  FakeCudaSeen (*seen)();
  /// Work that was queued rightly and met unmapped memory when its stream came to it.
  uint64_t (*faults)();

  void (*set_attribute)(int device, uint32_t attribute, int value);
  void (*set_peer_access)(int device, int peer, int can_access);
  void (*set_capacity)(int device, uint64_t bytes);
  /// Memory of chunks comes back only when the addresses at which they were last mapped are freed, as with
  /// ROCm 7.2.
  void (*keep_for_addresses)(int device, int on);

  /// A context that is not the primary one, current nowhere.
  void* (*create_context)(int device);
  /// As cuDevicePrimaryCtxReset and cuCtxDestroy: what belongs to the context goes with it once its streams
  /// have done their work, held or not, though not its references. Chunks and mappings belong to the device.
  /// Null: the primary context of device 0.
  void (*end_context)(void* context);
  /// Depth of the calling thread's stack of contexts.
  int (*context_depth)();
  /// References to a device's primary context.
  int (*primary_references)(int device);
  /// The calling thread's capture mode, a CUstreamCaptureMode.
  uint32_t (*capture_mode)();

  /// Holds a stream: what is queued on it from now on waits. Stream 0 is that of the current context.
  void (*hold)(uintptr_t stream);
  void (*release)(uintptr_t stream);
  /// A stream that synchronises with the legacy default stream, in a context; null: the current one.
  uintptr_t (*create_blocking_stream)(void* context);
  /// Begins capture on a stream, by the calling thread; mode is a CUstreamCaptureMode.
  void (*begin_capture)(uintptr_t stream, uint32_t mode);
  /// Ends it. Returns whether nothing illegal had ended it before.
  int (*end_capture)(uintptr_t stream);

  /// Whether the driver has torn itself down, at the exit of the process, and calls that came too late.
  int (*torn_down)();
  uint64_t (*late_calls)();
};

/// The controls of the library that GPUPOOL_LIBCUDA names. Ends the process if that is no stand-in.
inline const FakeCudaControls& fake_cuda() {
  static const FakeCudaControls* const controls = [] {
    const char* path = std::getenv("GPUPOOL_LIBCUDA");
    void* library = path != nullptr ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
    void* symbol = library != nullptr ? dlsym(library, "fake_cuda_controls") : nullptr;
    if (symbol == nullptr) {
      std::fprintf(stderr, "GPUPOOL_LIBCUDA (%s) names no stand-in driver\n", path != nullptr ? path : "");
      std::abort();
    }
    return reinterpret_cast<const FakeCudaControls* (*)()>(symbol)();
  }();
  return *controls;
}
