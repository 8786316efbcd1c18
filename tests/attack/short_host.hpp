// SPDX-License-Identifier: Apache-2.0
// A host that runs out of memory at a chosen moment: the program's replaced operator new fails the n-th
// allocation that libgpupool or libgpupool_torch makes on a thread that asked for it.
#pragma once

#include <cstdint>

namespace attack {

/// From now on allocation number `number`, counted from 0, and only that one, throws std::bad_alloc if this
/// thread makes it inside our libraries. What the test, the stand-in driver and the C++ library allocate for
/// themselves does not count.
void fail_allocation(uint64_t number);

/// The same for that allocation and all after it: the host stays short.
void fail_from_allocation(uint64_t number);

/// Ends that. Returns whether the allocation was reached.
bool stop_failing();

}  // namespace attack
