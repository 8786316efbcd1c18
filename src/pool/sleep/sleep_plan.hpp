// SPDX-License-Identifier: Apache-2.0
// What moves in one sleep or wake: chunks in batches, and bytes that are saved.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/space.hpp"
#include "device/device.hpp"
#include "pool/memory/backing.hpp"

namespace gpupool::internal {

/// Live bytes, and small holes between them, that are saved at `offset` of the backup.
struct SavedRun {
  Address address = 0;
  uint64_t size = 0;
  uint64_t offset = 0;
};

struct SleepPlan {
  /// A chunk on its way to sleep or back.
  struct Entry {
    Chunk* chunk = nullptr;
    bool created = false;
    bool mapped = false;  // by this wake
  };
  /// Neighbouring chunks that are copied, mapped and unmapped together; or one chunk that backs nothing.
  struct Batch {
    Address start = 0;
    uint64_t size = 0;
    size_t first = 0;  // the first of its entries
    size_t count = 0;
    Event event = 0;  // behind its copies
  };

  /// Bytes that are copied, unmapped or mapped together: large enough to be worth an event, small enough that
  /// the driver works on one batch while the next is copied. Tests make it small, for many batches of little
  /// memory, while no pool sleeps or wakes.
  static inline uint64_t most_in_batch = 64 * kMiB;

  /// Adds a chunk to the batch of its neighbours. A chunk that backs nothing is a batch of its own.
  void add_chunk(Chunk* chunk);
  /// Adds a live block to what is saved. It joins the run before it if at most `most_gap` bytes of hole are
  /// between them, since a copy of its own would cost more than copying these.
  void add_run(const Range& range, uint64_t most_gap);
  /// Adds the chunks for which wanted(chunk) holds, in the order of their addresses.
  template <typename Wanted>
  void add_chunks(const Space& space, const Backing& backing, Wanted wanted) {
    const auto add = [&](Chunk* chunk) {
      if (wanted(*chunk)) add_chunk(chunk);
    };
    for (const Region& region : space.regions) for_each_chunk(region, add);
    backing.for_each_in_hand(add);
  }
  /// Counts what is saved and dropped: only what is in the plan's chunks.
  void count_contents();

  std::vector<Entry> entries;
  std::vector<Batch> batches;
  std::vector<SavedRun> runs;          // by address
  std::vector<SavedRun> dropped_runs;  // for a wake: live bytes that were not saved
  uint64_t backup_bytes = 0;
  uint64_t saved = 0;    // of live blocks
  uint64_t dropped = 0;  // the same
  uint64_t missing = 0;  // to be created
  bool is_part = false;  // only one block's chunks
};

/// Calls visit(chunk) for each chunk that lies wholly inside a block.
template <typename Visit>
void for_own_chunks(const Range& block, Visit visit) {
  for_chunks(*block.region, block.address, block.end(), [&](Chunk* chunk) {
    if (chunk->address >= block.address && chunk->end() <= block.end()) visit(chunk);
  });
}

/// Calls visit(address, size, offset) for the parts of runs that lie in a batch, until that fails.
template <typename Visit>
Status for_parts(const std::vector<SavedRun>& runs, const SleepPlan::Batch& batch, Visit visit) {
  const Address end = batch.start + batch.size;
  auto run = std::upper_bound(runs.begin(), runs.end(), batch.start,
                              [](Address at, const SavedRun& each) { return at < each.address + each.size; });
  for (; run != runs.end() && run->address < end; ++run) {
    const Address first = std::max(run->address, batch.start);
    const Address last = std::min(run->address + run->size, end);
    const Status status = visit(first, last - first, run->offset + (first - run->address));
    if (status != kSuccess) return status;
  }
  return kSuccess;
}

}  // namespace gpupool::internal
