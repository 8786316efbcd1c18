// SPDX-License-Identifier: Apache-2.0
// Every number that decides where memory goes within a process; those that decide who of a group gets it are
// in share/policy.hpp. tools/ablate.py prints what each gains on the recorded traces, and which laws need it;
// a number of which neither can be said is deleted.
#pragma once

#include "core/size.hpp"

namespace gpupool::internal::policy {

// ---- how large a new chunk is: see ChunkSizer

/// In the mean of the recorded traces, a quarter of it saves 1.0 per cent of the live peak for 2.3 ms of
/// driver time a pass; four times as much saves 2.2 ms and costs 0.3 per cent, of lm_train_checkpoint 1.7.
inline constexpr uint64_t kMaxChunk = 16 * kMiB;
/// A chunk is this part of what its heap holds, or a finer part where room counts.
inline constexpr uint64_t kHeapParts = 32;
inline constexpr uint64_t kFineHeapParts = 1024;
/// Inside a huge block, which frees all its chunks at once, chunks are this part of it.
inline constexpr uint64_t kBlockParts = 16;
inline constexpr uint64_t kFineBlockParts = 64;
/// While at most this part of the limit is used, room does not count, and chunks may be larger: any chunk
/// this part of what the pool holds. A third of that (512) saves 0.4 per cent of memory in the mean of the
/// recorded programs at their pace, and 1.3 of detect_multiscale, for a fifth more of the driver's time in a
/// first pass.
inline constexpr uint64_t kLargeLimitParts = 4;
inline constexpr uint64_t kLargeSharedParts = 160;
/// The same in a group: what live blocks keep of a chunk, no neighbour gets (tests/share/moves_test.cpp).
inline constexpr uint64_t kLargeGroupSharedParts = 512;
/// Then coarse ones inside a block may be the first of these parts of it, up to the second of these parts of
/// it or, with several streams, of the pool.
inline constexpr uint64_t kLargeBlockParts = 2;
inline constexpr uint64_t kLargeParts = 128;
inline constexpr uint64_t kLargestChunk = 128 * kMiB;
/// Where processes share the limit, chunks may be the first of these parts of it: each goes from one process
/// to another at a price, but no neighbour gets what live blocks keep of those that blocks share
/// (tests/share/phases_test.cpp). Coarse ones inside a block are also the second of these parts of the block,
/// whose neighbours keep those at its ends (tests/share/moves_test.cpp). With 16 parts, as alone, three
/// programs whose live blocks came to 84 % of a group spent a third more time in mallocs, most of it on
/// moving chunks; with 4, four that fill a card lacked memory.
inline constexpr uint64_t kLargeGroupParts = 1024;
inline constexpr uint64_t kLargeGroupBlockParts = 8;
/// Blocks up to this get a coarse chunk of their own size.
inline constexpr uint64_t kWholeBlock = 4 * kMiB;
/// Chunks are fine while driver calls have taken less than this part of the time so far, clamped to these
/// nanoseconds per malloc. The upper clamp matters because fine chunks stay expensive: those that the idle
/// seconds of a program's start would buy cost 4 per cent of each training step (docs/inside/growth.md).
inline constexpr uint64_t kFineTimeParts = 100;
inline constexpr uint64_t kFineLeastNs = 2000;
inline constexpr uint64_t kFineMostNs = 4000;

// ---- how far a search goes

/// Holes tried for a place, from the largest.
inline constexpr int kPlaces = 16;
/// Chunks checked to find one that is idle in another stream, or that captures left too high. With 16, those
/// of one stream that had left no event yet hid all others: 32 streams in turn reserved 20 times what is
/// live.
inline constexpr size_t kChunkLooks = 512;
/// Streams whose memory is checked before a new place is backed. With 16 of 32, every second malloc of
/// streams in turn moved chunks.
inline constexpr size_t kStreamLooks = 64;
/// Another stream's memory is stolen in place if it exceeds the need by at most this part.
inline constexpr uint64_t kStealRunParts = 8;
/// A stream waits for what another has still to do, if it has not come further ahead of the other than by one
/// part in so many of how far that is behind the host.
inline constexpr uint64_t kAheadParts = 2;
/// Of blocks that caches keep, a malloc drains so many at a time until its request fits: to drain all takes
/// long.
inline constexpr size_t kDrainBlocks = 512;
/// A malloc that finds no place drains at most about so many of them while the pool, with what is created
/// instead, holds a little more than was live at once (kEntitledParts): to drain 300,000 takes 100 ms.
inline constexpr size_t kDrainMost = 4096;
/// While caches keep more blocks than these, and so many times as many as are live, a growth drains only as
/// many whole chunks as it needs. Beside more live ones few chunks rest, and to drain all packs better: churn
/// among 100,000 blocks reserved 1 per cent less. In vain, it looks at the chunks of so many blocks.
inline constexpr size_t kFewCached = 512;
inline constexpr size_t kCachedTimes = 8;
inline constexpr size_t kDrainLooks = 64;
/// Chunks passed over in a hole before one that is idle: what was freed since the stream's last event is
/// about so small a part of what it has (kEventParts).
inline constexpr size_t kChunkSkips = 64;
/// Free chunks that are walked over to find some side by side.
inline constexpr size_t kChunkSteps = 2048;

/// A stream's user leaves an event behind once this part of what the stream reserves was freed. What is freed
/// after the last event serves other streams only when they wait for it.
inline constexpr uint64_t kEventParts = 64;
/// While nobody asks, it is at least so much.
inline constexpr uint64_t kSeldomEventBytes = 64 * kMiB;

// ---- rest against tightness: see Governor

/// The share of the elapsed time that moving memory may take, between streams and within one: one nanosecond
/// in this many.
inline constexpr uint64_t kTimeParts = 1000;
/// Time that may be overspent before the pool pays with memory: that of a few moves, and of a pool's warm-up.
/// Between streams it grows by a nanosecond for so many bytes that the pool holds beyond the first of them. A
/// small pool has no more within a stream than between streams: it has little to arrange.
inline constexpr uint64_t kBurstBetweenNs = 500'000;
inline constexpr uint64_t kBurstFirstBytes = kGiB;
inline constexpr uint64_t kBurstBytesPerNs = 100;
inline constexpr uint64_t kBurstWithinNs = 20'000'000;
/// The assumed cost of stealing another stream's run where it is: no driver call, but many misses instead of
/// hits.
inline constexpr uint64_t kStealRunNs = 100'000;
/// The assumed cost of draining a block that another thread keeps: that thread's next malloc misses.
inline constexpr uint64_t kDrainNs = 2'000;
/// How long streams that took too much from each other keep apart. What a heap's blocks took is remembered
/// for one to two times as long.
inline constexpr uint64_t kApartNs = 60'000'000'000;
/// Streams that take turns need no more than one of them does. So they keep apart only while what the pool
/// holds exceeds what was in use at once by at most the first part of it or the second of the device, or, if
/// they took runs where these are, which costs no driver call, by the least surplus below.
inline constexpr uint64_t kApartParts = 1;
inline constexpr uint64_t kLeastApartParts = 100;
/// Once in that time, what exceeds it by more than this part goes.
inline constexpr uint64_t kKeptParts = 8;
/// Windows of that time in which nothing goes because what went before was created again: at most so many.
inline constexpr uint32_t kLongestPause = 63;
/// Surplus that a pool may have in any case, for rest.
inline constexpr uint64_t kLeastSurplus = 64 * kMiB;
/// And only in pools of at most so much: in larger ones what streams keep for themselves would come to more
/// than the misses are worth (5 per cent of fsdp_train).
inline constexpr uint64_t kSmallPool = 256 * kMiB;
/// What a pool may hold, whatever is live, so that threads need not drain each other's small blocks: this
/// part of the device. Of large ones, which soon come to much, as much as a small pool has.
inline constexpr uint64_t kSmallBlocksParts = 100;
/// A heap is entitled to what its blocks took plus this part.
inline constexpr uint64_t kEntitledParts = 16;
/// The part of memory moved while time is overspent that may be created instead.
inline constexpr uint64_t kCreditParts = 4;
/// Half of an unspent credit expires in this time.
inline constexpr uint64_t kHalfLifeNs = 1'000'000'000;
/// Memory created instead of moved is at most this part of what all heaps are entitled to.
inline constexpr uint64_t kSurplusParts = 2;
/// The part of the limit and of the device that stays free of surplus memory.
inline constexpr uint64_t kRoomParts = 8;
/// The same in a group, whose members get what others have cached by asking: with an eighth, the last of
/// those who fit kept moving what it had (tests/share/moves_test.cpp). With a 32nd, three programs at random
/// still did where the group had a 50th more than they hold with room to spare: 2.4 % of their time in
/// mallocs instead of 1.3 to 1.5 %. With nothing left free, growing would always begin with asking.
inline constexpr uint64_t kGroupRoomParts = 128;
/// Below a limit, at most this part of what was not in use at once stays free: without, a pool whose limit
/// was 1.2 times what it needs moved memory for ever, a third of its time, beside 6 GB that nobody used.
inline constexpr uint64_t kUnusedParts = 8;

// ---- addresses and segments

/// A heap gets one part in so many of the addresses that are left for pools, each time that it needs some. A
/// heap of small blocks gets this part of that, and each heap at least so much.
inline constexpr uint64_t kAddressParts = 64;
inline constexpr uint64_t kSmallAddressParts = 16;
inline constexpr uint64_t kLeastRegion = 64 * kMiB;
/// Blocks that are to lie behind each other begin where at least one part in so many of a region is left for
/// them. As each takes the middle of what was left, a region serves about so many.
inline constexpr uint64_t kRunParts = 16;
/// Chunks that captures left higher in their region than so many times what their heap holds move down: about
/// once in so many captures, so that it costs little beside what captures themselves move.
inline constexpr uint64_t kHighTimes = 64;
/// Idle segments are released if reserved memory would exceed the live peak by more than this many times the
/// peak.
inline constexpr double kSegmentSlack = 1;

}  // namespace gpupool::internal::policy
