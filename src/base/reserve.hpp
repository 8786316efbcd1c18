// SPDX-License-Identifier: Apache-2.0
// Reserves room in a vector ahead of a change that must not fail.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace gpupool::internal {

/// Makes the next `count` push_backs safe. Grows geometrically, as push_back does and reserve(size + count)
/// does not: that would copy everything each time. Throws std::bad_alloc.
template <typename Value>
void reserve_more(std::vector<Value>& values, size_t count) {
  const size_t need = values.size() + count;
  if (need > values.capacity()) values.reserve(std::max(need, 2 * values.capacity()));
}

}  // namespace gpupool::internal
