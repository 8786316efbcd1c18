// SPDX-License-Identifier: Apache-2.0
// Maps of a simulated device whose keys are addresses.
#pragma once

#include <iterator>
#include <utility>

#include "device/device.hpp"

namespace gpupool::internal {

/// The last entry that begins at or before address, or end().
template <class Map>
auto entry_at(Map& map, Address address) {
  auto it = map.upper_bound(address);
  return it == map.begin() ? map.end() : std::prev(it);
}

/// An entry whose key is set later: inserting it into the map then cannot fail.
template <class Map>
typename Map::node_type made_ahead(const typename Map::mapped_type& value) {
  Map map;
  map.emplace(typename Map::key_type{}, value);
  return map.extract(map.begin());
}

template <class Map>
void insert_at(Map& map, typename Map::key_type key, typename Map::node_type entry) noexcept {
  entry.key() = key;
  map.insert(std::move(entry));
}

}  // namespace gpupool::internal
