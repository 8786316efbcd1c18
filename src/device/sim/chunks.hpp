// SPDX-License-Identifier: Apache-2.0
// The chunks of a simulated device: physical memory that has a handle, also in several processes.
#pragma once

#include <cstdint>
#include <map>

#include "base/no_copy.hpp"
#include "device/device.hpp"
#include "device/sim/backing.hpp"
#include "device/sim/capacity.hpp"
#include "device/sim/clock.hpp"

namespace gpupool::internal {

/// Not thread-safe: the device's lock is held.
class SimChunks : NoCopy {
 public:
  struct Chunk {
    uint64_t size = 0;
    uint64_t offset = 0;  // of the physical memory
    uint64_t mappings = 0;
    bool released = false;
    bool held = false;  // by somebody else
    bool imported = false;
  };

  SimChunks(SimBacking& backing, SimCapacity& capacity, SimFaults& faults) noexcept
      : backing_(backing), capacity_(capacity), faults_(faults) {}

  Status create(uint64_t size, ChunkHandle& chunk);
  Status release(ChunkHandle chunk);
  Status export_chunk(ChunkHandle chunk, SharedChunk& shared);
  /// Takes nothing of the capacity: the memory counts with the process that created it.
  Status import_chunk(const SharedChunk& shared, uint64_t size, ChunkHandle& chunk);

  /// The chunk of a handle that is not released; null if there is none.
  const Chunk* find(ChunkHandle chunk) const;
  /// Its size, released or not; 0 if there is none.
  uint64_t size_of(ChunkHandle chunk) const;

  // Of a chunk that is mapped, or being mapped.

  void attach(ChunkHandle chunk) noexcept;
  void detach(ChunkHandle chunk) noexcept;
  /// Somebody else keeps it, until end_holds().
  void hold(ChunkHandle chunk) noexcept;

  void end_holds() noexcept;

 private:
  using Chunks = std::map<ChunkHandle, Chunk>;

  void release_if_unused(Chunks::iterator chunk) noexcept;

  SimBacking& backing_;
  SimCapacity& capacity_;
  SimFaults& faults_;
  Chunks chunks_;
  ChunkHandle next_ = 1;
};

}  // namespace gpupool::internal
