// SPDX-License-Identifier: Apache-2.0
// A host that runs out of memory at a chosen moment: the program's operator new, replaced, fails the n-th
// allocation that libgpupool makes on a thread which asked for it.
#pragma once

#include <cstdint>

namespace attack {

/// From now on allocation number `number`, counted from 0, and only that one, throws std::bad_alloc if this
/// thread makes it inside libgpupool. What the test, the stand-in driver and the C++ library allocate for
/// themselves does not count.
void fail_allocation(uint64_t number);

/// Ends that. Returns whether the allocation was reached.
bool stop_failing();

}  // namespace attack
