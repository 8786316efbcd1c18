// SPDX-License-Identifier: Apache-2.0
// What every entry point does: check the handle, let no exception escape, write out-parameters.
#pragma once

#include <new>

#include "base/status.hpp"
#include "pool/pool.hpp"
#include "pool/process/registry.hpp"

namespace gpupool::internal::abi {

inline constexpr Status kInvalid = GPUPOOL_ERROR_INVALID_ARGUMENT;

/// Whether a handle can be used for everything. Every call on a pool checks this first.
inline bool is_live(const gpupool_t* handle) noexcept {
  return handle != nullptr && handle->copy == Registry::copy_mark() &&
         handle->life.load(std::memory_order_acquire) == Life::live;
}

/// Says why a handle cannot be used; success if it can.
[[gnu::cold]] Status refuse(const gpupool_t* handle) noexcept;

/// "argument is NULL"
[[gnu::cold]] Status refuse_null(const char* argument) noexcept;

/// A free in a pool that is not live: destroyed with blocks left, or the driver is going.
[[gnu::noinline, gnu::cold]] Status free_late(gpupool_t* handle, Address address, Stream stream) noexcept;

/// Ends a call that failed: logs why, notes whether a context has gone, and ends the pools that were
/// destroyed while the call was under way, such as its own by its handler. Returns the status, so that
/// failures cost the hot path no register.
[[gnu::cold]] Status log_failure(Status status) noexcept;

/// Runs a call of the library; any exception becomes a status.
template <typename Function>
[[gnu::always_inline]] inline Status guarded(Function function) noexcept {
  Status status = kSuccess;
  try {
    status = function();
  } catch (const std::bad_alloc&) {
    status = fail(GPUPOOL_ERROR_HOST_OUT_OF_MEMORY, "the host has no memory for the pool's records");
  } catch (...) {
    status = fail(GPUPOOL_ERROR_INTERNAL, "an unexpected exception inside the library");
  }
  if (status != kSuccess) [[unlikely]]
    return log_failure(status);
  return kSuccess;
}

/// Runs a call on a live pool.
template <typename Function>
[[gnu::always_inline]] inline Status on_pool(gpupool_t* handle, Function function) noexcept {
  if (!is_live(handle)) [[unlikely]]
    return refuse(handle);
  return guarded([&] { return function(*handle->pool); });
}

}  // namespace gpupool::internal::abi
