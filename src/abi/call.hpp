// SPDX-License-Identifier: Apache-2.0
// What every entry point does: check the handle, let no exception escape, write out-parameters.
#pragma once

#include <functional>
#include <new>
#include <type_traits>

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

/// Where a call writes an answer, and what messages call it: NULL is refused, and the answer is zero until it
/// is there. The function that is called gets it as a reference.
template <typename Value>
struct Out {
  operator Value&() const noexcept { return *at; }  // NOLINT: it stands for the answer
  Value* at;
  const char* name;
};

template <typename Argument>
Status prepare(const Argument&) noexcept {
  return kSuccess;
}
template <typename Value>
Status prepare(const Out<Value>& out) noexcept {
  if (out.at == nullptr) return refuse_null(out.name);
  *out.at = Value{};
  return kSuccess;
}

/// A function without a result succeeds.
template <typename Function, typename... Arguments>
Status run(Function& function, Arguments&... arguments) {
  if constexpr (std::is_void_v<std::invoke_result_t<Function&, Arguments&...>>) {
    std::invoke(function, arguments...);
    return kSuccess;
  } else {
    return std::invoke(function, arguments...);
  }
}

/// Calls a function of the library with these arguments.
template <typename Function, typename... Arguments>
Status call(Function function, Arguments... arguments) noexcept {
  Status status = kSuccess;
  if (!(... && ((status = prepare(arguments)) == kSuccess))) return status;
  return guarded([&] { return run(function, arguments...); });
}

/// Calls a function of a live pool, or of its sleeper.
template <typename Function, typename... Arguments>
Status call(gpupool_t* handle, Function function, Arguments... arguments) noexcept {
  Status status = kSuccess;
  if (!(... && ((status = prepare(arguments)) == kSuccess))) return status;
  return on_pool(handle, [&](Pool& pool) {
    if constexpr (std::is_invocable_v<Function&, Pool&, Arguments&...>) {
      return run(function, pool, arguments...);
    } else {
      return run(function, pool.sleeper(), arguments...);
    }
  });
}

}  // namespace gpupool::internal::abi
