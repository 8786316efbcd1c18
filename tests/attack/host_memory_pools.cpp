// SPDX-License-Identifier: Apache-2.0
// What is done with pools and with the process.
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "attack/host_memory_calls.hpp"
#include "attack/short_host.hpp"

namespace attack {
namespace {

Status destroy(World& world) {
  const Status status = gpupool_destroy(world.pool);
  if (status == GPUPOOL_SUCCESS && world.live.empty()) world.pool = nullptr;
  return status;
}

Status snapshot(World& world) {
  gpupool_segment_t segments[64];
  gpupool_block_t blocks[64];
  size_t segment_count = 0;
  size_t block_count = 0;
  return gpupool_snapshot(world.pool, segments, sizeof segments[0], 64, &segment_count, blocks,
                          sizeof blocks[0], 64, &block_count);
}

char handle[GPUPOOL_EXPORT_BYTES];
gpupool_ptr_t imported = 0;

void export_target(World& world) {
  furnish_target(world);
  OK(gpupool_export(world.pool, world.target, handle, sizeof handle));
}

constexpr const char* kRecording = "recording";

/// One that fails leaves no file, and another may begin.
Status start_recording(World&) {
  const Status status = gpupool_record_start(kRecording, 0);
  CHECK((access(kRecording, F_OK) == 0) == (status == GPUPOOL_SUCCESS));
  return status;
}

void furnish_and_record(World& world) {
  furnish(world);
  (void)unlink(kRecording);  // of the try before
  OK(start_recording(world));
}

/// A ring whose file is full: the next malloc makes the change.
void furnish_and_fill_ring(World& world) {
  furnish(world);
  for (const char* const file : {"ring", "ring.old", "ring.oom"}) (void)unlink(file);
  OK(gpupool_record_start("ring,last=1MiB", 0));
  const std::string text(255, 'm');
  for (int i = 0; i < 2100; ++i) OK(gpupool_mark(text.c_str()));
}

/// Where that fails, the malloc does not, and what was recorded is there.
Status turn_ring(World& world) {
  gpupool_ptr_t block = 0;
  const Status status = gpupool_malloc(world.pool, 512, world.a, &block);
  if (status != GPUPOOL_SUCCESS) return status;
  CHECK(access("ring.old", F_OK) == 0);
  CHECK((access("ring", F_OK) == 0) == (gpupool_record_stop() == GPUPOOL_SUCCESS));
  return gpupool_free(world.pool, block, world.a);
}

void fall_asleep(World& world) {
  furnish_target(world);
  OK(gpupool_set_name(world.pool, "engine"));
  OK(gpupool_sleep(world.pool, nullptr, nullptr));
}

/// A pool in a group of its own process.
void share(World& world) {
  setenv("GPUPOOL_SHARE", "short_host", 1);
  furnish(world);
}

/// Frees what a destroyed pool still has, all but one block.
void leave_one_block(World& world) {
  furnish_target(world);
  world.free(world.malloc(40 * kMiB, world.b), world.b);
  OK(gpupool_destroy(world.pool));
  while (world.live.size() > 1) {
    const auto last = std::prev(world.live.end());
    world.free(last->first, last->second);
  }
  world.target = world.live.begin()->first;
}

}  // namespace

std::vector<Call> calls_of_pools() {
  return {
      // ---- pools
      {"create", [](World&) {},
       [](World& w) {
         const gpupool_config_t config = w.config();
         return gpupool_create(&config, &w.pool);
       },
       GPUPOOL_SUCCESS, kNoPool},
      {"create_with_peers", [](World&) {},
       [](World& w) {
         const int32_t peer = 1;
         gpupool_config_t config = w.config();
         config.peers = &peer;
         config.peer_count = 1;
         config.limit_bytes = 100 * kMiB;
         return gpupool_create(&config, &w.pool);
       },
       GPUPOOL_SUCCESS, kNoPool | kMapped},
      {"default_pool", [](World& w) { w.has_default_pool = true; },
       [](World&) {
         gpupool_t* pool = nullptr;
         return gpupool_default_pool(0, &pool);
       },
       GPUPOOL_SUCCESS, kNoPool | kPlainOnly},
      {"destroy_empty", [](World& w) { w.create_pool(); }, destroy, GPUPOOL_SUCCESS, kNoPool},
      {"destroy_cached",
       [](World& w) {
         w.furnish();
         while (!w.live.empty()) w.free(w.live.begin()->first, w.live.begin()->second);
       },
       destroy, GPUPOOL_SUCCESS, kNoPool},
      {"destroy_with_pending",
       [](World& w) {
         furnish_pending(w);
         while (!w.live.empty()) w.free(w.live.begin()->first, w.live.begin()->second);
       },
       destroy, GPUPOOL_SUCCESS, kNoPool},
      {"destroy_with_live_blocks", furnish,
       [](World& w) {
         const Status status = destroy(w);
         if (status != GPUPOOL_SUCCESS) return status;
         (void)stop_failing();
         while (!w.live.empty()) w.free(w.live.begin()->first, w.live.begin()->second);
         w.pool = nullptr;
         return status;
       },
       GPUPOOL_SUCCESS, kNoPool},
      {"last_late_free", leave_one_block,
       [](World& w) {
         const Status status = free_on(w, w.a);
         if (status == GPUPOOL_SUCCESS) w.pool = nullptr;
         return status;
       },
       GPUPOOL_SUCCESS, kNoPool},
      {"late_free", [](World& w) { leave_one_block(w); },
       [](World& w) {
         const Status status = gpupool_free(w.pool, w.target, GPUPOOL_STREAM_UNKNOWN);
         if (status != GPUPOOL_SUCCESS) return status;
         w.live.erase(w.target);
         w.pool = nullptr;
         return status;
       },
       GPUPOOL_SUCCESS, kNoPool},
      // ---- keeping memory, and giving it back
      {"enable_peer", furnish, [](World& w) { return gpupool_enable_peer(w.pool, 1); }, GPUPOOL_SUCCESS,
       kOwnMemory},
      {"create_child", furnish,
       [](World& w) {
         gpupool_t* child = nullptr;
         const Status status = gpupool_create_child(w.pool, &child);
         (void)stop_failing();
         OK(gpupool_destroy(child));
         return status;
       },
       GPUPOOL_SUCCESS, kOwnMemory},
      {"empty", furnish, [](World& w) { return gpupool_empty(w.pool, nullptr); }, GPUPOOL_SUCCESS, kFalls},
      {"empty_pending", furnish_pending, [](World& w) { return gpupool_empty(w.pool, nullptr); },
       GPUPOOL_SUCCESS, kFalls},
      {"trim", furnish, [](World& w) { return gpupool_trim(w.pool, 4 * kMiB, nullptr); }, GPUPOOL_SUCCESS,
       kFalls},
      {"reserve", furnish, [](World& w) { return gpupool_reserve(w.pool, 90 * kMiB, w.a); }, GPUPOOL_SUCCESS,
       kRises},
      {"reserve_on_new_stream", furnish, [](World& w) { return gpupool_reserve(w.pool, 64 * kMiB, 0); },
       GPUPOOL_SUCCESS, kRises},
      {"set_fraction", furnish, [](World& w) { return gpupool_set_fraction(w.pool, 0.05); }, GPUPOOL_SUCCESS,
       kFalls},
      {"set_limit", furnish, [](World& w) { return gpupool_set_limit(w.pool, 24 * kMiB); }, GPUPOOL_SUCCESS,
       kFalls},
      {"set_limit_below_live", furnish, [](World& w) { return gpupool_set_limit(w.pool, 4 * kMiB); },
       GPUPOOL_ERROR_OVER_LIMIT, kFalls},
      {"set_oom_handler", furnish,
       [](World& w) { return gpupool_set_oom_handler(w.pool, give_up, nullptr); }},
      // ---- watching
      {"stats", furnish_pending,
       [](World& w) {
         gpupool_stats_t stats{};
         stats.struct_size = sizeof stats;
         return gpupool_stats(w.pool, &stats);
       }},
      {"reset_peaks", furnish, [](World& w) { return gpupool_reset_peaks(w.pool); }},
      {"snapshot", furnish_pending, snapshot},
      {"report", furnish_pending,
       [](World& w) {
         char text[100];
         return gpupool_report(w.pool, text, sizeof text, nullptr);
       }},
      {"validate", furnish_pending, [](World& w) { return gpupool_validate(w.pool); }},
      {"set_name", furnish, [](World& w) { return gpupool_set_name(w.pool, "kv cache"); }},
      {"tag_push", furnish,
       [](World&) {
         const Status status = gpupool_tag_push("attention");
         (void)stop_failing();
         if (status == GPUPOOL_SUCCESS) OK(gpupool_tag_pop());
         return status;
       },
       GPUPOOL_SUCCESS, kPlainOnly},
      {"set_sampling", furnish, [](World&) { return gpupool_set_sampling(4 * kKiB); }, GPUPOOL_SUCCESS,
       kPlainOnly},
      {"record_start",
       [](World& w) {
         furnish(w);
         (void)unlink(kRecording);
       },
       start_recording, GPUPOOL_SUCCESS, kPlainOnly},
      {"record_stop", furnish_and_record, [](World&) { return gpupool_record_stop(); }, GPUPOOL_SUCCESS,
       kPlainOnly},
      {"ring", furnish_and_fill_ring, turn_ring, GPUPOOL_SUCCESS, kPlainOnly},
      {"mark", furnish_and_record, [](World&) { return gpupool_mark("step 12"); }, GPUPOOL_SUCCESS,
       kPlainOnly},
      {"name", furnish,
       [](World& w) {
         char text[100];
         return gpupool_name(w.pool, text, sizeof text, nullptr);
       }},
      {"what_needs_no_pool", furnish,
       [](World&) {
         uint64_t bytes = 0;
         int32_t number = 0;
         gpupool_backend_t backend{};
         OK(gpupool_parse_size("4 GiB", &bytes, nullptr));
         OK(gpupool_parse_device("sim:1", &backend, &number));
         OK(gpupool_set_log(nullptr, nullptr, GPUPOOL_LOG_OFF));
         OK(gpupool_set_stack_fn(nullptr, nullptr));
         return gpupool_device_count(GPUPOOL_BACKEND_AUTO, &number);
       },
       GPUPOOL_SUCCESS, kPlainOnly},
      // ---- the simulated device
      {"sim_script", furnish, [](World&) { return gpupool_sim_script(0, "create:900=error,map:901"); },
       GPUPOOL_SUCCESS, kSimOnly},
      {"sim_advance", furnish_pending, [](World&) { return gpupool_sim_advance(0, 1'000); }, GPUPOOL_SUCCESS,
       kSimOnly},
      {"sim_launch", end_a_capture, [](World& w) { return gpupool_sim_launch(0, w.capture, w.a); },
       GPUPOOL_SUCCESS, kSimOnly | kCapturing},
      {"sim_hold", furnish_target,
       [](World& w) {
         const Status status = gpupool_sim_hold(0, w.target);
         (void)stop_failing();
         OK(gpupool_sim_hold(0, 0));
         return status;
       },
       GPUPOOL_SUCCESS, kSimOnly | kMapped},
      // ---- debug modes, and a group
      {"malloc_guarded",
       [](World& w) {
         OK(gpupool_set_debug("guard"));
         OK(gpupool_set_sampling(512));
         furnish(w);
       },
       [](World& w) { return malloc_on(w, 5 * kMiB, w.a); }, GPUPOOL_SUCCESS, kPlainOnly | kRises},
      {"share_request", share, [](World& w) { return gpupool_share_request(w.pool, 300 * kMiB, 1'000'000); },
       GPUPOOL_SUCCESS, kPlainOnly | kFalls | kRises},
      {"allow_sleep", share, [](World& w) { return gpupool_allow_sleep(w.pool, nullptr); }, GPUPOOL_SUCCESS,
       kPlainOnly},
      {"share_info", share,
       [](World&) {
         gpupool_share_t info{};
         info.struct_size = sizeof info;
         gpupool_share_member_t members[2];
         size_t count = 0;
         return gpupool_share_info(nullptr, GPUPOOL_BACKEND_AUTO, 0, &info, members, sizeof members[0], 2,
                                   &count);
       },
       GPUPOOL_SUCCESS, kPlainOnly},
      {"share_set", share,
       [](World&) {
         return gpupool_share_set(nullptr, GPUPOOL_BACKEND_AUTO, 0, GPUPOOL_SHARE_FIGURE_LIMIT, 0,
                                  400 * kMiB);
       },
       GPUPOOL_SUCCESS, kPlainOnly},
      {"share_repair", share,
       [](World&) { return gpupool_share_repair(nullptr, GPUPOOL_BACKEND_AUTO, 0, nullptr); },
       GPUPOOL_SUCCESS, kPlainOnly},
      {"check",
       [](World& w) {
         OK(gpupool_set_debug("canary"));
         furnish(w);
       },
       [](World& w) {
         char text[100];
         return gpupool_check(w.pool, nullptr, text, sizeof text);
       },
       GPUPOOL_SUCCESS, kPlainOnly | kDataOnly},
      {"protect",
       [](World& w) {
         w.furnish();
         w.target = w.malloc(64 * kMiB, w.a);
       },
       [](World& w) { return gpupool_protect(w.pool, w.target, GPUPOOL_ACCESS_READ); }, GPUPOOL_SUCCESS,
       kPlainOnly},
      // ---- memory between processes: here of one
      {"export", furnish_target,
       [](World& w) { return gpupool_export(w.pool, w.target, handle, sizeof handle); }, GPUPOOL_SUCCESS,
       kMapped | kOwnMemory | kDataOnly},
      {"import", export_target,
       [](World& w) {
         uint64_t size = 0;
         const Status status = gpupool_import(w.pool, handle, &imported, &size);
         if (status == GPUPOOL_SUCCESS) OK(gpupool_import_close(w.pool, imported));
         return status;
       },
       GPUPOOL_SUCCESS, kMapped | kOwnMemory | kDataOnly},
      {"import_close",
       [](World& w) {
         export_target(w);
         uint64_t size = 0;
         OK(gpupool_import(w.pool, handle, &imported, &size));
       },
       [](World& w) { return gpupool_import_close(w.pool, imported); }, GPUPOOL_SUCCESS,
       kMapped | kOwnMemory | kDataOnly},
      // ---- sleep
      {"sleep", furnish_target, [](World& w) { return gpupool_sleep(w.pool, nullptr, nullptr); },
       GPUPOOL_SUCCESS, kMapped | kOwnMemory | kFalls | kSleeps},
      {"sleep_pending", furnish_pending, [](World& w) { return gpupool_sleep(w.pool, nullptr, nullptr); },
       GPUPOOL_SUCCESS, kMapped | kOwnMemory | kFalls | kSleeps},
      {"wake", fall_asleep, [](World& w) { return gpupool_wake(w.pool, nullptr, nullptr); }, GPUPOOL_SUCCESS,
       kMapped | kOwnMemory | kRises},
      {"sleep_tag",
       [](World& w) {
         furnish_target(w);
         OK(gpupool_set_name(w.pool, "engine"));
       },
       [](World&) { return gpupool_sleep_tag("engine", nullptr, nullptr); }, GPUPOOL_SUCCESS,
       kMapped | kOwnMemory | kFalls | kSleeps},
      {"wake_tag", fall_asleep, [](World&) { return gpupool_wake_tag("engine", nullptr, nullptr); },
       GPUPOOL_SUCCESS, kMapped | kOwnMemory | kRises},
      {"wake_block", fall_asleep,
       [](World& w) { return gpupool_wake_block(w.pool, w.target, nullptr, nullptr); }, GPUPOOL_SUCCESS,
       kMapped | kOwnMemory | kRises | kSleeps},
      {"sleep_block", furnish_target,
       [](World& w) { return gpupool_sleep_block(w.pool, w.target, nullptr, nullptr); }, GPUPOOL_SUCCESS,
       kMapped | kOwnMemory | kFalls},
      {"set_sleep_hooks", furnish,
       [](World& w) { return gpupool_set_sleep_hooks(w.pool, nullptr, nullptr, nullptr); }, GPUPOOL_SUCCESS,
       kMapped | kOwnMemory},
      {"sleep_state", fall_asleep,
       [](World& w) {
         gpupool_sleep_state_t state{};
         return gpupool_sleep_state(w.pool, &state);
       },
       GPUPOOL_SUCCESS, kMapped | kOwnMemory | kSleeps},
      {"backup", fall_asleep,
       [](World& w) {
         const void* data = nullptr;
         uint64_t bytes = 0;
         return gpupool_backup(w.pool, w.target, &data, &bytes);
       },
       GPUPOOL_SUCCESS, kMapped | kOwnMemory | kSleeps | kDataOnly},
      {"read_backup", fall_asleep,
       [](World& w) {
         char bytes[64];
         return gpupool_read_backup(w.pool, w.target, bytes, sizeof bytes);
       },
       GPUPOOL_SUCCESS, kMapped | kOwnMemory | kSleeps | kDataOnly},
      {"set_keep", furnish_target, [](World& w) { return gpupool_set_keep(w.pool, w.target, 1); },
       GPUPOOL_SUCCESS, kMapped | kOwnMemory},
      {"prepare_backup", furnish, [](World& w) { return gpupool_prepare_backup(w.pool, 8 * kMiB); },
       GPUPOOL_SUCCESS, kMapped | kOwnMemory},
      {"holders", furnish,
       [](World& w) {
         gpupool_holder_t holders[8];
         size_t count = 0;
         return gpupool_holders(w.pool, holders, sizeof holders[0], 8, &count);
       }},
      {"why", furnish_target,
       [](World& w) {
         char text[200];
         return gpupool_why(w.target, text, sizeof text, nullptr);
       }},
      // ---- data
      {"fill", furnish_target, [](World& w) { return gpupool_fill(w.pool, w.target, 7, 4096, w.a); },
       GPUPOOL_SUCCESS, kOwnMemory},
      {"copy", furnish_target,
       [](World& w) { return gpupool_copy(w.pool, w.target, w.target + 4096, 4096, w.a); }, GPUPOOL_SUCCESS,
       kOwnMemory | kDataOnly},
  };
}

}  // namespace attack
