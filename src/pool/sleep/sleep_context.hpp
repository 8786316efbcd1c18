// SPDX-License-Identifier: Apache-2.0
// What falling asleep and waking work with.
#pragma once

#include "pool/memory/pool_state.hpp"
#include "pool/sleep/asleep_chunks.hpp"
#include "pool/sleep/lone_blocks.hpp"
#include "pool/sleep/saved_bytes.hpp"
#include "pool/sleep/sleep_hooks.hpp"

namespace gpupool::internal {

class Debugger;
class Exports;
class Helpers;
class OomHandler;
class Protections;
class Source;
class Capacity;
class Reclaimer;

/// The rooms of the pool that are part in it.
struct SleepParts {
  Source& source;
  Reclaimer& reclaimer;
  Capacity& capacity;
  Exports& exports;
  const Protections& protections;
  Helpers& helpers;
  OomHandler& handler;
  Debugger* debugger;  // null without debug modes
};

/// Guarded by the pool's lock.
struct SleepContext : SleepParts {
  SleepContext(PoolState& its_pool, const SleepParts& parts) noexcept
      : SleepParts(parts),
        pool(its_pool),
        saved(pool.device, pool.space),
        chunks(pool),
        blocks(pool, chunks, saved, hooks) {}

  PoolState& pool;
  SleepHooks hooks;
  SavedBytes saved;
  AsleepChunks chunks;
  LoneBlocks blocks;
  bool has_woken_blocks = false;  // while the pool sleeps on
  uint64_t slept_at = 0;          // the step in which any of it went to sleep last
};

}  // namespace gpupool::internal
