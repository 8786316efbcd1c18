// SPDX-License-Identifier: Apache-2.0
// An object that is there before anything runs, and is never destroyed.
#pragma once

namespace gpupool::internal {

/// For variables with constinit, at namespace scope: no guard is taken when they are first used, which a
/// child of fork could inherit taken; and none is destroyed while other threads, or hooks at exit, use it.
template <typename Value>
union Lasting {
  constexpr Lasting() : value() {}
  constexpr ~Lasting() {}  // NOLINT: it destroys nothing, on purpose

  Value value;
};

}  // namespace gpupool::internal
