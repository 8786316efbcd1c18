// SPDX-License-Identifier: Apache-2.0
// What those who work with many rooms of a pool get, in place of the pool.
#pragma once

#include <cstdint>

#include "core/chunk_sizer.hpp"
#include "core/counters.hpp"
#include "core/space.hpp"
#include "pool/caches.hpp"
#include "pool/captures.hpp"
#include "pool/ledger.hpp"
#include "pool/metered_device.hpp"
#include "pool/narrator.hpp"
#include "pool/neighbours.hpp"
#include "pool/options.hpp"
#include "pool/sleeper.hpp"
#include "pool/streams.hpp"
#include "pool/surplus.hpp"

namespace gpupool::internal {

/// How often mallocs found too little memory, and how that went on.
struct Setbacks {
  uint64_t retries = 0;
  uint64_t handler_calls = 0;
  uint64_t failed_mallocs = 0;
};

/// The rooms of a pool. All of them outlive whoever has them, and are guarded by the pool's lock, except what
/// they say themselves. The pool's number may still change.
struct Rooms {
  const uint64_t& id;
  const PoolOptions& options;
  const Company& company;
  const ChunkSizer& sizer;
  MeteredDevice& device;
  Ledger& ledger;
  Space& space;
  Streams& streams;
  Caches& caches;
  Captures& captures;
  Counters& counters;
  Setbacks& setbacks;
  Surplus& surplus;
  const Sleeper& sleeper;
  const Narrator& narrator;
};

}  // namespace gpupool::internal
