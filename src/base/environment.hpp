// SPDX-License-Identifier: Apache-2.0
// The names of all variables of the environment that gpupool reads, here or in a binding.
#pragma once

namespace gpupool::internal {

/// Says on standard error, once in a process, which variables begin with GPUPOOL_ and are none of gpupool's,
/// each with the name that comes nearest: a limit with a typo in its name is no limit. Names that begin with
/// GPUPOOL_TEST_ are the tests' own.
void tell_unknown_variables() noexcept;

}  // namespace gpupool::internal
