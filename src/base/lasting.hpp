// SPDX-License-Identifier: Apache-2.0
// An object that exists before any code runs, and is never destroyed.
#pragma once

namespace gpupool::internal {

/// For constinit variables at namespace scope: their first use takes no guard, which a forked child could
/// inherit taken; and none is destroyed while other threads, or exit hooks, still use it.
template <typename Value>
union Lasting {
  constexpr Lasting() : value() {}
  constexpr ~Lasting() {}  // NOLINT: it destroys nothing, on purpose

  Value value;
};

}  // namespace gpupool::internal
