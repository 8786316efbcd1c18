// SPDX-License-Identifier: Apache-2.0
// For C# only: functions of csharp/Callbacks.cs that the native code calls.
#pragma once

#include <string>

#include "log.hpp"
#include "staging.hpp"
#include "upstream.hpp"

namespace binding {

struct CsharpCallbacks {
  void (*raise)(int32_t status, int32_t driver_code, const char* message);
  void (*take_bytes)(const void* data, uint64_t length);
  int32_t (*ask)(void* handler, uint64_t size, uint32_t attempt);
  void (*log)(void* receiver, int32_t level, const char* message);
  void (*release)(void* delegate);
  int32_t (*collect)();
  /// 1: all is well; 0: it is not; -1: it has thrown, and a call of the program is there to throw it.
  int32_t (*hook)(void* hook, uint64_t address, int32_t is_inside);
  /// As hook; 1: there is an address.
  int32_t (*upstream_malloc)(void* upstream, uint64_t size, uint64_t stream, uint64_t* address,
                             int32_t is_inside);
  void (*upstream_free)(void* upstream, uint64_t address, uint64_t size, uint64_t stream);
};

inline CsharpCallbacks csharp_callbacks;

inline bool run_collector() noexcept {
  return csharp_callbacks.collect() != 0;
}

/// A delegate, held by a GCHandle.
class CsharpHandler : public OomHandler {
 public:
  explicit CsharpHandler(void* handler) : handler_(handler) {}
  ~CsharpHandler() override { csharp_callbacks.release(handler_); }
  bool ask(uint64_t size, uint32_t attempt) noexcept override {
    return csharp_callbacks.ask(handler_, size, attempt) != 0;
  }

 private:
  void* handler_;
};

/// A call from C# on this thread.
class CsharpCall {
 public:
  CsharpCall() { ++depth; }
  CsharpCall(const CsharpCall&) = delete;
  CsharpCall& operator=(const CsharpCall&) = delete;
  ~CsharpCall() { --depth; }

  static inline thread_local int32_t depth = 0;
};

/// A delegate, called on any thread.
class CsharpHook : public SleepHook {
 public:
  explicit CsharpHook(void* hook) : hook_(hook) {}
  ~CsharpHook() override { csharp_callbacks.release(hook_); }
  bool call(uint64_t address) noexcept override {
    const int32_t answer = csharp_callbacks.hook(hook_, address, CsharpCall::depth);
    if (answer < 0) has_thrown = true;
    return answer > 0;
  }

  /// Since the end of the last call of this thread.
  static inline thread_local bool has_thrown = false;

 private:
  void* hook_;
};

/// An IUpstream, called on any thread.
class CsharpUpstream : public Upstream {
 public:
  explicit CsharpUpstream(void* upstream) : upstream_(upstream) {}
  ~CsharpUpstream() override { csharp_callbacks.release(upstream_); }
  gpupool_ptr_t malloc(uint64_t size, uint64_t stream) noexcept override {
    uint64_t address = 0;
    const int32_t answer =
        csharp_callbacks.upstream_malloc(upstream_, size, stream, &address, CsharpCall::depth);
    if (answer < 0) CsharpHook::has_thrown = true;
    return answer > 0 ? address : 0;
  }
  void free(gpupool_ptr_t address, uint64_t size, uint64_t stream) noexcept override {
    csharp_callbacks.upstream_free(upstream_, address, size, stream);
  }

 private:
  void* upstream_;
};

inline bool has_thrown() noexcept {
  return CsharpHook::has_thrown;
}

/// A delegate, called on any thread.
class CsharpReceiver : public LogReceiver {
 public:
  explicit CsharpReceiver(void* receiver) : receiver_(receiver) {}
  ~CsharpReceiver() override { csharp_callbacks.release(receiver_); }
  bool take(int32_t level, const char* message) noexcept override {
    csharp_callbacks.log(receiver_, level, message);
    return true;
  }

 private:
  void* receiver_;
};

/// Leaves an exception pending: what a handler or a hook has thrown, or else the failure.
inline void raise_in_csharp(const gpupool_error_t& error) {
  CsharpHook::has_thrown = false;
  csharp_callbacks.raise(error.status, error.driver_code, error.message);
}

/// Array.MaxLength.
inline ByteType byte_type() noexcept {
  return {"a byte[]", 2147483591};
}

/// Leaves bytes for the caller to take.
inline void give_to_csharp(const std::string& bytes) {
  csharp_callbacks.take_bytes(bytes.data(), bytes.size());
}

}  // namespace binding

/// Called once, before anything else.
extern "C" __attribute__((used, visibility("default"))) inline void gpupool_csharp_set_callbacks(
    const binding::CsharpCallbacks* callbacks) {
  binding::csharp_callbacks = *callbacks;
}
