// SPDX-License-Identifier: Apache-2.0
// What a malloc asks for, on its way through the rooms that may serve it.
#pragma once

#include <cstdint>

#include "pool/stream/streams.hpp"

namespace gpupool::internal {

struct Request {
  StreamUser user;
  StreamState& state;  // of the stream, or of the capture on it
  uint64_t bytes;      // as allocated_size() gives them
  uint64_t alignment;
  Address at = 0;  // where the block has to begin; 0: anywhere

  StreamHeap& heap() const noexcept { return state.heap(group_of(bytes)); }
  /// A hole of this size has room for it, wherever the hole begins.
  uint64_t hole() const noexcept { return bytes + alignment - kUnit; }
};

}  // namespace gpupool::internal
