// SPDX-License-Identifier: Apache-2.0
// What is done with blocks and streams, and in captures.
#include <thread>

#include "attack/host_memory_calls.hpp"
#include "attack/short_host.hpp"

namespace attack {
namespace {

/// Runs a call on a thread that the pool has not seen, with the failure that was asked for.
Status on_new_thread(World& world, Status (*run)(World&)) {
  Status status = GPUPOOL_SUCCESS;
  std::thread([&] {
    fail_allocation(allocation_to_fail);
    status = run(world);
    was_reached = stop_failing();
  }).join();
  return status;
}

}  // namespace

std::vector<Call> calls_of_blocks() {
  return {
      // ---- malloc
      {"malloc_first", [](World& w) { w.create_pool(); }, [](World& w) { return malloc_on(w, 700, w.a); }},
      {"malloc_first_large", [](World& w) { w.create_pool(); },
       [](World& w) { return malloc_on(w, 70 * kMiB, w.a); }},
      {"malloc_cached", furnish, [](World& w) { return malloc_on(w, 1000, w.a); }},
      {"malloc_small_miss", furnish, [](World& w) { return malloc_on(w, 30 * kKiB, w.a); }},
      {"malloc_large_hole", furnish, [](World& w) { return malloc_on(w, 4 * kMiB, w.a); }},
      {"malloc_small_growth", furnish, [](World& w) { return malloc_on(w, 1000 * kKiB, w.b); }},
      {"malloc_large_growth", furnish, [](World& w) { return malloc_on(w, 61 * kMiB + 512, w.a); }},
      {"malloc_growth_of_another", furnish, [](World& w) { return malloc_on(w, 11 * kMiB, w.b); }},
      {"malloc_new_stream", furnish, [](World& w) { return malloc_on(w, 2 * kMiB, 0); }},
      {"malloc_steals", limit, [](World& w) { return malloc_on(w, 20 * kMiB, w.b); }},
      {"malloc_steals_all", limit, [](World& w) { return malloc_on(w, 31 * kMiB, w.b); }, GPUPOOL_SUCCESS,
       kMapped},
      {"malloc_takes_back_pending",
       [](World& w) {
         furnish_pending(w);
         OK(gpupool_set_limit(w.pool, w.stats().all.reserved_bytes.current));
       },
       [](World& w) { return malloc_on(w, 5 * kMiB, w.a); }},
      {"malloc_aligned", furnish, [](World& w) { return malloc_on(w, 5 * kMiB, w.a, 2 * kMiB); }},
      {"malloc_small_aligned", furnish, [](World& w) { return malloc_on(w, 9000, w.a, 64 * kKiB); }},
      {"malloc_on_new_thread", furnish,
       [](World& w) {
         return on_new_thread(w, [](World& world) { return malloc_on(world, 1000, world.a); });
       }},
      {"malloc_over_limit", limit, [](World& w) { return malloc_on(w, 200 * kMiB, w.a); },
       GPUPOOL_ERROR_OVER_LIMIT},
      {"malloc_out_of_memory", furnish, [](World& w) { return malloc_on(w, 600 * kMiB, w.a); },
       GPUPOOL_ERROR_OUT_OF_MEMORY, kFalls | kDeviceOnly},
      {"malloc_asks_handler",
       [](World& w) {
         limit(w);
         OK(gpupool_set_oom_handler(w.pool, give_up, nullptr));
       },
       [](World& w) { return malloc_on(w, 300 * kMiB, w.b); }, GPUPOOL_ERROR_OVER_LIMIT},
      {"malloc_empties_another_pool",
       [](World& w) {
         w.create_pool();
         w.free(w.malloc(400 * kMiB, w.a), w.a);
         w.has_default_pool = true;  // the first pool stays
         w.create_pool();
       },
       [](World& w) { return malloc_on(w, 300 * kMiB, w.b); }, GPUPOOL_SUCCESS, kMapped},
      // ---- free, and who uses blocks
      {"free_small",
       [](World& w) {
         furnish(w);
         w.target = w.malloc(5000, w.a);
       },
       [](World& w) { return free_on(w, w.a); }},
      {"free_large", furnish_target, [](World& w) { return free_on(w, w.a); }},
      {"free_on_another_stream", furnish_target, [](World& w) { return free_on(w, w.b); }},
      {"free_on_busy_stream",
       [](World& w) {
         furnish_target(w);
         w.make_busy(w.b);
       },
       [](World& w) { return free_on(w, w.b); }},
      {"free_on_unseen_stream", furnish_target, [](World& w) { return free_on(w, 0); }},
      {"free_on_unknown_stream", furnish_target, [](World& w) { return free_on(w, GPUPOOL_STREAM_UNKNOWN); }},
      {"free_on_unknown_busy_stream",
       [](World& w) {
         furnish_target(w);
         w.make_busy(w.b);
       },
       [](World& w) { return free_on(w, GPUPOOL_STREAM_UNKNOWN); }},
      {"free_recorded",
       [](World& w) {
         furnish_target(w);
         OK(gpupool_record_stream(w.pool, w.target, w.b));
         w.make_busy(w.b);
       },
       [](World& w) { return free_on(w, w.a); }},
      {"free_orphan",
       [](World& w) {
         furnish_target(w);
         OK(gpupool_release_stream(w.pool, w.a));
       },
       [](World& w) { return free_on(w, w.b); }},
      {"free_parked",
       [](World& w) {
         furnish_target(w);
         OK(gpupool_park_stream(w.pool, w.a));
       },
       [](World& w) { return free_on(w, w.a); }},
      {"free_on_new_thread", furnish_target,
       [](World& w) { return on_new_thread(w, [](World& world) { return free_on(world, world.a); }); }},
      {"record_stream", furnish_target,
       [](World& w) { return gpupool_record_stream(w.pool, w.target, w.b); }},
      {"record_unseen_stream", furnish_target,
       [](World& w) { return gpupool_record_stream(w.pool, w.target, 0); }},
      {"block_info", furnish_target,
       [](World& w) {
         gpupool_block_t block{};
         return gpupool_block_info(w.pool, w.target + 5, &block, sizeof block);
       }},
      // ---- streams
      {"stream_create", furnish,
       [](World& w) {
         gpupool_stream_t stream = 0;
         const Status status = gpupool_stream_create(w.pool, &stream);
         (void)stop_failing();
         if (status == GPUPOOL_SUCCESS) OK(gpupool_stream_destroy(w.pool, stream));
         return status;
       }},
      {"stream_destroy", furnish,
       [](World& w) {
         const Status status = gpupool_stream_destroy(w.pool, w.b);
         if (status != GPUPOOL_SUCCESS) return status;
         for (auto& [block, stream] : w.live) {
           if (stream == w.b) stream = w.a;
         }
         w.b = 0;
         return status;
       }},
      {"release_stream", furnish, [](World& w) { return gpupool_release_stream(w.pool, w.b); }},
      {"release_pending_stream", furnish_pending,
       [](World& w) { return gpupool_release_stream(w.pool, w.b); }},
      {"park_stream", furnish, [](World& w) { return gpupool_park_stream(w.pool, w.a); }},
      {"synchronize", furnish, [](World& w) { return gpupool_synchronize(w.pool); }},
      {"synchronize_pending", furnish_pending, [](World& w) { return gpupool_synchronize(w.pool); }},
      {"stream_synchronize", furnish, [](World& w) { return gpupool_stream_synchronize(w.pool, w.a); }},
      // ---- captures
      {"malloc_in_capture", begin_capture, [](World& w) { return malloc_on(w, 3000, w.a); }, GPUPOOL_SUCCESS,
       kCapturing},
      // What a capture's heap got stays there, and whether some of it is new depends on the machine's pace.
      {"malloc_large_in_capture", begin_capture, [](World& w) { return malloc_on(w, 9 * kMiB, w.a); },
       GPUPOOL_SUCCESS, kCapturing | kRises},
      {"free_in_capture",
       [](World& w) {
         begin_capture(w);
         w.target = w.malloc(9 * kMiB, w.a);
       },
       [](World& w) { return free_on(w, w.a); }, GPUPOOL_SUCCESS, kCapturing},
      {"free_from_before_in_capture", begin_capture, [](World& w) { return free_on(w, w.a); },
       GPUPOOL_SUCCESS, kCapturing},
      {"free_after_capture",
       [](World& w) {
         begin_capture(w);
         w.target = w.malloc(9 * kMiB, w.a);
         w.end_capture();
       },
       [](World& w) { return free_on(w, w.a); }, GPUPOOL_SUCCESS, kCapturing},
      {"capture_id", begin_capture,
       [](World& w) {
         uint64_t capture = 0;
         return gpupool_capture_id(w.pool, w.a, &capture);
       }},
      {"release_capture", end_a_capture, [](World& w) { return gpupool_release_capture(w.pool, w.capture); },
       GPUPOOL_SUCCESS, kFalls},
      {"malloc_behind", furnish,
       [](World& w) {
         gpupool_ptr_t run = 0;
         const Status status = gpupool_malloc_behind(w.pool, 3 * kMiB, 0, w.a, &run);
         if (status == GPUPOOL_ERROR_UNAVAILABLE) return GPUPOOL_SUCCESS;  // the driver chooses addresses
         if (status != GPUPOOL_SUCCESS) return status;
         gpupool_ptr_t next = 0;
         const Status second = gpupool_malloc_behind(w.pool, 7 * kMiB, run, w.a, &next);
         OK(gpupool_free(w.pool, run, w.a));
         OK(gpupool_free(w.pool, next, w.a));
         return second;
       }},
      {"count_parts", furnish,
       [](World& w) {
         const Status status = gpupool_count_parts(w.pool, GPUPOOL_BLOCK_LIVE, 1, 0, 1, 512, 512);
         if (status == GPUPOOL_SUCCESS)
           OK(gpupool_count_parts(w.pool, GPUPOOL_BLOCK_LIVE, -1, 0, 1, 512, 512));
         return status;
       }},
      {"announce_capture", furnish,
       [](World& w) {
         const Status status = gpupool_announce_capture(w.pool, 1);
         if (status == GPUPOOL_SUCCESS) OK(gpupool_announce_capture(w.pool, 0));
         return status;
       }},
  };
}

}  // namespace attack
