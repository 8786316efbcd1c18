// SPDX-License-Identifier: Apache-2.0
// What functions of this library throw when the host is short: even the words of an exception take memory.
#pragma once

#include <new>
#include <stdexcept>

namespace gpupool::torch {

/// Made at load time. A copy of it, which is what a throw makes, shares its text.
extern const std::runtime_error no_host_memory;

/// For functions that throw std::runtime_error and nothing else.
template <typename Function>
auto loudly(Function function) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    throw no_host_memory;  // NOLINT(misc-throw-by-value-catch-by-reference): a copy is thrown
  }
}

}  // namespace gpupool::torch
