// SPDX-License-Identifier: Apache-2.0
// Failures on their way from the library to the exceptions of a language.
#pragma once

#include <gpupool/gpupool.h>

#include <cstdio>
#include <exception>
#include <string>

namespace binding {

/// Thrown between the objects and the wrappers only; the wrappers turn it into the language's own exception.
struct Failure {
  gpupool_error_t details;
};

inline gpupool_error_t make_error(gpupool_status_t status, const char* why) noexcept {
  gpupool_error_t error{};
  error.status = status;
  (void)std::snprintf(error.message, sizeof error.message, "%s", why);
  return error;
}

/// For failures that the library cannot see: a closed native object, or a range outside a block.
[[noreturn]] inline void refuse(const char* why, gpupool_status_t status = GPUPOOL_ERROR_INVALID_ARGUMENT) {
  throw Failure{make_error(status, why)};
}
[[noreturn]] inline void refuse(const std::string& why) {
  refuse(why.c_str());
}

/// The failure of this thread's last call. Read in the same native call, so that no other code of the
/// language (a collector, a scheduler) runs in between.
inline Failure failure_of(gpupool_status_t status) {
  Failure failure{};
  failure.details.struct_size = sizeof failure.details;
  if (gpupool_last_error(&failure.details) == GPUPOOL_SUCCESS && failure.details.status == status)
    return failure;
  return Failure{make_error(status, gpupool_status_name(status))};
}

inline void check(gpupool_status_t status) {
  if (status != GPUPOOL_SUCCESS) [[unlikely]]
    throw failure_of(status);
}

/// Waits for copies that use memory of the caller's. If the language ends that wait, the call ends when they
/// are done, since nobody would keep that memory for them.
class ToTheEnd {
 public:
  static void wait(gpupool_t* pool, gpupool_stream_t stream) {
    const ToTheEnd here;
    gpupool_status_t status = GPUPOOL_SUCCESS;
    do {
      status = gpupool_stream_synchronize(pool, stream);
    } while (status == GPUPOOL_ERROR_INTERRUPTED);
    check(status);
  }
  /// Whether this thread is inside such a wait.
  static bool is_here() noexcept { return here_ != 0; }

 private:
  ToTheEnd() { ++here_; }
  ToTheEnd(const ToTheEnd&) = delete;
  ToTheEnd& operator=(const ToTheEnd&) = delete;
  ~ToTheEnd() { --here_; }

  static inline thread_local uint32_t here_ = 0;
};

/// The caught exception, for use inside a catch (...). Plain data, so that a language may leave the wrapper
/// by longjmp.
inline gpupool_error_t caught_error() noexcept {
  try {
    throw;
  } catch (const Failure& failure) {
    return failure.details;
  } catch (const std::exception&) {
    // The objects themselves fail only if the host runs out of memory.
    return make_error(GPUPOOL_ERROR_HOST_OUT_OF_MEMORY,
                      "the host has no memory for this call: copy less at a time");
  }
}

}  // namespace binding
