// SPDX-License-Identifier: Apache-2.0
// Finds the chunks for a request: moves free ones, and creates what is missing.
//
// Another stream's chunks are taken while they are idle. A busy one makes the new stream wait for the old
// one, on the GPU, and is taken only as a last resort.
#pragma once

#include <utility>
#include <vector>

#include "base/no_copy.hpp"
#include "core/supply.hpp"
#include "pool/memory/addresses.hpp"
#include "pool/memory/source.hpp"

namespace gpupool::internal {

/// Lives for one call of ChunkSource::grow, under the pool's lock.
class Growth : NoCopy {
 public:
  Growth(PoolState& pool, Addresses& addresses, const Request& request, bool capturing);
  /// Tells the governor how long moving took.
  ~Growth();

  /// Makes one hole for the request in its stream's heap. On failure nothing is lost: what was mapped by
  /// then is a hole. Throws std::bad_alloc.
  Status run();

 private:
  Status find_places(Windows& windows, size_t& count);
  size_t find_windows(Windows& windows) const;
  void choose_source(const Window& window);
  uint64_t missing(const Window& window) const;
  void choose_rung();
  bool calls_were_cheap() const;
  bool may_steal(const Chunk& chunk) const;
  void count_supply();
  size_t count_class(size_t size_class) const;
  const Window& cheapest(const Windows& windows, size_t count) const;
  Status back_window(const Window& window);
  Status back_gap(const Window& window, const Gap& gap);
  void attach(const Window& window, Address address, const std::vector<Piece>& pieces);
  void note_moved(const std::vector<Piece>& pieces, uint64_t total, uint64_t nanoseconds);
  Status collect_chunks(const Gap& gap, std::vector<Piece>& pieces);
  Status next_piece(uint64_t need, uint64_t room, Piece& piece);
  bool steal_chunk(uint64_t need, uint64_t room, Piece& piece);
  Chunk* find_free(size_t size_class) const;
  Status wait_for(StreamState& from, uint64_t epoch);
  Status create_chunk(uint64_t need, uint64_t room, Chunk*& chunk);

  PoolState& pool_;
  Addresses& addresses_;
  const Request& request_;
  StreamState& state_;
  StreamHeap& heap_;
  const uint64_t bytes_;
  const bool capturing_;
  bool busy_ = false;     // may take chunks whose streams are still using them
  bool creates_ = false;  // prefers new chunks to free ones
  bool apart_ = false;    // leaves other streams what they are entitled to
  ChunkSizer sizer_;
  Supply supply_;                                         // what may be stolen, by size
  std::vector<std::pair<StreamState*, uint64_t>> waits_;  // streams waited for so far, up to which epoch
  uint64_t between_ = 0;                                  // bytes that came from other streams
  uint64_t within_ = 0;                                   // bytes that came from elsewhere in this stream
  uint64_t moved_ns_ = 0;                                 // how long moving them took
};

}  // namespace gpupool::internal
