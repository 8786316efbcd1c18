// SPDX-License-Identifier: Apache-2.0
// Undoing a step unless the next ones succeed, whichever way the scope is left.
#pragma once

#include <utility>

#include "base/no_copy.hpp"

namespace gpupool::internal {

/// Calls a function when the scope ends, unless cancel() came first. The function must not throw.
template <typename Function>
class Defer : NoCopy {
 public:
  explicit Defer(Function function) : function_(std::move(function)) {}
  ~Defer() {
    if (armed_) function_();
  }

  void cancel() noexcept { armed_ = false; }

 private:
  Function function_;
  bool armed_ = true;
};

}  // namespace gpupool::internal
