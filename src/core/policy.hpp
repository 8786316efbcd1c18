// SPDX-License-Identifier: Apache-2.0
// Every number that decides where memory goes. `tools/ablate` prints what each earns on the recorded traces;
// one that earns nothing goes.
#pragma once

#include "core/size.hpp"

namespace gpupool::internal::policy {

// ---- how large a new chunk is: see ChunkSizer

inline constexpr uint64_t kMaxChunk = 16 * kMiB;
/// A chunk is this part of what its heap holds, and where room counts, a finer one.
inline constexpr uint64_t kHeapParts = 32;
inline constexpr uint64_t kFineHeapParts = 1024;
/// Inside a huge block, which frees all its chunks at once, chunks are this part of it.
inline constexpr uint64_t kBlockParts = 16;
inline constexpr uint64_t kFineBlockParts = 64;
/// Blocks up to this get a coarse chunk of their own size.
inline constexpr uint64_t kWholeBlock = 4 * kMiB;
/// Chunks are fine while driver calls took less than this part of the time so far, but at least, and at most,
/// so many nanoseconds a malloc. At most, since fine chunks stay dear: those that the idle seconds of a
/// program's start would pay for cost 4 per cent of each training step.
inline constexpr uint64_t kFineTimeParts = 100;
inline constexpr uint64_t kFineLeastNs = 2000;
inline constexpr uint64_t kFineMostNs = 4000;

// ---- how far a search goes

/// Holes that are tried for a place, from the largest.
inline constexpr int kPlaces = 16;
/// Chunks of other streams that are looked at for one that is idle.
inline constexpr size_t kChunkLooks = 16;
/// Streams whose memory is looked at before a new place is backed.
inline constexpr size_t kStreamLooks = 16;
/// Memory of another stream is taken over as it is if it is larger than needed by at most this part.
inline constexpr uint64_t kTakeOverParts = 8;

// ---- rest against tightness: see Governor

/// The share of the elapsed time that moving memory may take, between streams and within one: one in so many
/// nanoseconds.
inline constexpr uint64_t kTimeParts = 1000;
/// Time that may be overspent before the pool pays with memory: what a few moves take, and what a pool takes
/// to warm up.
inline constexpr uint64_t kBurstBetweenNs = 500'000;
inline constexpr uint64_t kBurstWithinNs = 20'000'000;
/// What taking over a run of another stream's, which is no driver call, is taken to cost: what it leads to.
inline constexpr uint64_t kTakeOverNs = 100'000;
/// Streams that took too much from each other keep apart for so long, and what a heap's blocks took is
/// remembered for once to twice that time.
inline constexpr uint64_t kApartNs = 60'000'000'000;
/// A heap is entitled to this part more than its blocks took.
inline constexpr uint64_t kEntitledParts = 16;
/// Of what is moved while its time is overspent, this part may be created instead.
inline constexpr uint64_t kCreditParts = 4;
/// Half of an unspent credit expires in this time.
inline constexpr uint64_t kHalfLifeNs = 2'000'000'000;
/// What is created instead of moved is at most this part of what all heaps are entitled to.
inline constexpr uint64_t kSurplusParts = 2;
/// Of the limit and of the device, this part stays free of surplus memory.
inline constexpr uint64_t kRoomParts = 8;

}  // namespace gpupool::internal::policy
