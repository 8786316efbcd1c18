// SPDX-License-Identifier: Apache-2.0
// The calls that are tried on a host without memory, and what they start from.
#pragma once

#include <vector>

#include "attack/host_memory_world.hpp"

namespace attack {

// What a call may do that gives HOST_OUT_OF_MEMORY, and where it is tried.
enum Trait : unsigned {
  kFalls = 1,         // what it gave back, it gave back
  kRises = 2,         // what it got, it keeps
  kMapped = 4,        // chunks are mapped: vmm only
  kCapturing = 8,     // capture-aware pools only
  kOwnMemory = 16,    // not from an upstream
  kNoPool = 32,       // there is none before, or none after
  kPlainOnly = 64,    // the same in all modes, tried in one
  kDataOnly = 128,    // touches memory of the device: not on a simulated device without data
  kDeviceOnly = 256,  // not with memory that the host has plenty of
  kSleeps = 512,      // the pool is asleep afterwards
  kSimOnly = 1024,    // a call of the simulated device
};

using Status = gpupool_status_t;

struct Call {
  const char* name;
  void (*prepare)(World&);
  Status (*run)(World&);
  Status expected = GPUPOOL_SUCCESS;
  unsigned traits = 0;
};

/// What is done with blocks and streams, and in captures.
std::vector<Call> calls_of_blocks();
/// What is done with pools and with the process.
std::vector<Call> calls_of_pools();

/// The allocation that the try fails. A call that runs on a thread of its own fails it there, and says
/// whether it was reached.
inline uint64_t allocation_to_fail = 0;
inline bool was_reached = false;

// ---- what calls start from, and end with

inline void furnish(World& world) {
  world.furnish();
}

inline void furnish_target(World& world) {
  world.furnish();
  world.target = world.malloc(5 * kMiB, world.a);
}

inline void furnish_pending(World& world) {
  furnish_target(world);
  OK(gpupool_record_stream(world.pool, world.target, world.b));
  if (world.setting.is_sim) world.make_busy(world.b);  // the stand-in would wait for ever
  world.free(world.target, world.a);
  world.target = 0;
}

inline void begin_capture(World& world) {
  furnish_target(world);
  world.begin_capture(world.a);
}

inline void end_a_capture(World& world) {
  furnish(world);
  world.begin_capture(world.a);
  world.free(world.malloc(8 * kMiB, world.a), world.a);
  world.malloc(2000, world.a);
  world.end_capture();
}

/// The limit leaves only what is cached.
inline void limit(World& world) {
  world.furnish();
  world.free(world.malloc(32 * kMiB, world.a), world.a);
  OK(gpupool_set_limit(world.pool, world.stats().all.reserved_bytes.current));
}

inline Status malloc_on(World& world, uint64_t size, gpupool_stream_t stream, uint64_t alignment = 512) {
  world.out = 0xabab;
  world.out_stream = stream;
  const Status status = gpupool_malloc_aligned(world.pool, size, alignment, stream, &world.out);
  if (status != GPUPOOL_SUCCESS) CHECK(world.out == 0);
  return status;
}

inline Status free_on(World& world, gpupool_stream_t stream) {
  const Status status = gpupool_free(world.pool, world.target, stream);
  if (status == GPUPOOL_SUCCESS) world.live.erase(world.target);
  return status;
}

inline int32_t give_up(void*, gpupool_t*, uint64_t, uint32_t) {
  return 0;
}

}  // namespace attack
