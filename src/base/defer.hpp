// SPDX-License-Identifier: Apache-2.0
// Undoing a step unless the next ones succeed, whichever way the scope is left.
#pragma once

#include <utility>

namespace gpupool::internal {

/// Calls a function when the scope ends, unless cancel() came first. The function must not throw.
template <typename Function>
class Defer {
 public:
  explicit Defer(Function function) : function_(std::move(function)) {}
  Defer(const Defer&) = delete;
  Defer& operator=(const Defer&) = delete;
  ~Defer() {
    if (armed_) function_();
  }

  void cancel() noexcept { armed_ = false; }

 private:
  Function function_;
  bool armed_ = true;
};

}  // namespace gpupool::internal
