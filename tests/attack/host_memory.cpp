// SPDX-License-Identifier: Apache-2.0
// The host runs out of memory at each allocation of each call in turn (finding D13). The call then returns
// HOST_OUT_OF_MEMORY without changing anything, or manages without the memory; the next try succeeds, and in
// the end the device has everything back. Every try has its own process, so that an abort fails only that
// try.
//
//   host_memory sim|stand_in vmm|driver|upstream|aware|pinned [CALL [ALLOCATION]]
#include <unistd.h>

#include <algorithm>
#include <string>
#include <thread>

#include "attack/each_allocation.hpp"
#include "attack/host_memory_world.hpp"
#include "attack/short_host.hpp"

namespace attack {
namespace {

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
};

using Status = gpupool_status_t;

struct Call {
  const char* name;
  void (*prepare)(World&);
  Status (*run)(World&);
  Status expected = GPUPOOL_SUCCESS;
  unsigned traits = 0;
};

// ---- what calls are made of

void furnish(World& world) {
  world.furnish();
}

void furnish_target(World& world) {
  world.furnish();
  world.target = world.malloc(5 * kMiB, world.a);
}

void furnish_pending(World& world) {
  furnish_target(world);
  OK(gpupool_record_stream(world.pool, world.target, world.b));
  if (world.setting.is_sim) world.make_busy(world.b);  // the stand-in would wait for ever
  world.free(world.target, world.a);
  world.target = 0;
}

void begin_capture(World& world) {
  furnish_target(world);
  world.begin_capture(world.a);
}

void end_a_capture(World& world) {
  furnish(world);
  world.begin_capture(world.a);
  world.free(world.malloc(8 * kMiB, world.a), world.a);
  world.malloc(2000, world.a);
  world.end_capture();
}

/// The limit leaves only what is cached.
void limit(World& world) {
  world.furnish();
  world.free(world.malloc(32 * kMiB, world.a), world.a);
  OK(gpupool_set_limit(world.pool, world.stats().all.reserved_bytes.current));
}

Status malloc_on(World& world, uint64_t size, gpupool_stream_t stream, uint64_t alignment = 512) {
  world.out = 0xabab;
  world.out_stream = stream;
  const Status status = gpupool_malloc_aligned(world.pool, size, alignment, stream, &world.out);
  if (status != GPUPOOL_SUCCESS) CHECK(world.out == 0);
  return status;
}

Status free_on(World& world, gpupool_stream_t stream) {
  const Status status = gpupool_free(world.pool, world.target, stream);
  if (status == GPUPOOL_SUCCESS) world.live.erase(world.target);
  return status;
}

/// Runs a call on a thread that the pool has not seen, with the failure that was asked for.
uint64_t allocation_to_fail = kNever;
bool was_reached = false;

Status on_new_thread(World& world, Status (*run)(World&)) {
  Status status = GPUPOOL_SUCCESS;
  std::thread([&] {
    fail_allocation(allocation_to_fail);
    status = run(world);
    was_reached = stop_failing();
  }).join();
  return status;
}

int32_t give_up(void*, gpupool_t*, uint64_t, uint32_t) {
  return 0;
}

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

/// A recording that fails leaves no file, and another may begin.
Status record(bool begins) {
  const std::string path = "/tmp/short_host." + std::to_string(getpid());
  if (!begins) {
    const Status status = gpupool_record_stop();
    if (status == GPUPOOL_SUCCESS) CHECK(unlink(path.c_str()) == 0);
    return status;
  }
  const Status status = gpupool_record_start(path.c_str(), 0);
  CHECK((access(path.c_str(), F_OK) == 0) == (status == GPUPOOL_SUCCESS));
  if (status == GPUPOOL_SUCCESS) std::atexit([] { (void)record(false); });
  return status;
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

const Call kCalls[] = {
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
     [](World& w) { return on_new_thread(w, [](World& world) { return malloc_on(world, 1000, world.a); }); }},
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
    {"record_stream", furnish_target, [](World& w) { return gpupool_record_stream(w.pool, w.target, w.b); }},
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
    {"release_pending_stream", furnish_pending, [](World& w) { return gpupool_release_stream(w.pool, w.b); }},
    {"park_stream", furnish, [](World& w) { return gpupool_park_stream(w.pool, w.a); }},
    {"synchronize", furnish, [](World& w) { return gpupool_synchronize(w.pool); }},
    {"synchronize_pending", furnish_pending, [](World& w) { return gpupool_synchronize(w.pool); }},
    {"stream_synchronize", furnish, [](World& w) { return gpupool_stream_synchronize(w.pool, w.a); }},
    // ---- captures
    {"malloc_in_capture", begin_capture, [](World& w) { return malloc_on(w, 3000, w.a); }, GPUPOOL_SUCCESS,
     kCapturing},
    {"malloc_large_in_capture", begin_capture, [](World& w) { return malloc_on(w, 9 * kMiB, w.a); },
     GPUPOOL_SUCCESS, kCapturing},
    {"free_in_capture",
     [](World& w) {
       begin_capture(w);
       w.target = w.malloc(9 * kMiB, w.a);
     },
     [](World& w) { return free_on(w, w.a); }, GPUPOOL_SUCCESS, kCapturing},
    {"free_from_before_in_capture", begin_capture, [](World& w) { return free_on(w, w.a); }, GPUPOOL_SUCCESS,
     kCapturing},
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
    {"set_oom_handler", furnish, [](World& w) { return gpupool_set_oom_handler(w.pool, give_up, nullptr); }},
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
    {"record_start", furnish, [](World&) { return record(true); }, GPUPOOL_SUCCESS, kPlainOnly},
    {"record_stop",
     [](World& w) {
       furnish(w);
       OK(record(true));
     },
     [](World&) { return record(false); }, GPUPOOL_SUCCESS, kPlainOnly},
    // ---- debug modes, and a group
    {"malloc_guarded",
     [](World& w) {
       OK(gpupool_set_debug("guard"));
       OK(gpupool_set_sampling(512));
       furnish(w);
     },
     [](World& w) { return malloc_on(w, 5 * kMiB, w.a); }, GPUPOOL_SUCCESS, kPlainOnly | kRises},
    {"share_request",
     [](World& w) {
       setenv("GPUPOOL_SHARE", "short_host", 1);
       furnish(w);
     },
     [](World& w) { return gpupool_share_request(w.pool, 300 * kMiB, 1'000'000); }, GPUPOOL_SUCCESS,
     kPlainOnly | kFalls | kRises},
    // ---- sleep
    {"sleep", furnish_target, [](World& w) { return gpupool_sleep(w.pool, nullptr, nullptr); },
     GPUPOOL_SUCCESS, kMapped | kOwnMemory | kFalls | kSleeps},
    {"sleep_pending", furnish_pending, [](World& w) { return gpupool_sleep(w.pool, nullptr, nullptr); },
     GPUPOOL_SUCCESS, kMapped | kOwnMemory | kFalls | kSleeps},
    {"wake",
     [](World& w) {
       furnish_target(w);
       OK(gpupool_sleep(w.pool, nullptr, nullptr));
     },
     [](World& w) { return gpupool_wake(w.pool, nullptr, nullptr); }, GPUPOOL_SUCCESS,
     kMapped | kOwnMemory | kRises},
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

bool is_tried(const Call& call, const Setting& setting) {
  if ((call.traits & kMapped) != 0 && !setting.is_vmm()) return false;
  if ((call.traits & kCapturing) != 0 && !setting.is_aware()) return false;
  if ((call.traits & kOwnMemory) != 0 && setting.is_upstream()) return false;
  if ((call.traits & kPlainOnly) != 0 && (!setting.is_vmm() || setting.is_aware())) return false;
  if ((call.traits & kDeviceOnly) != 0 && setting.kind != GPUPOOL_KIND_DEVICE) return false;
  return (call.traits & kDataOnly) == 0 || !setting.is_sim;
}

// ---- one try

/// A call that failed has changed nothing: it may have noticed that streams have passed, no more.
void check_unchanged(const gpupool_stats_t& before, const gpupool_stats_t& after, unsigned traits) {
  CHECK(after.all.allocated_bytes.current == before.all.allocated_bytes.current);
  CHECK(after.all.requested_bytes.current == before.all.requested_bytes.current);
  CHECK(after.all.allocated_blocks.current == before.all.allocated_blocks.current);
  CHECK(after.all.active_bytes.current <= before.all.active_bytes.current);
  CHECK(after.limit_bytes == before.limit_bytes);
  const uint64_t was = before.all.reserved_bytes.current;
  const uint64_t is = after.all.reserved_bytes.current;
  if (is > was && (traits & kRises) == 0)
    fprintf(stderr, "  reserved rose from %llu to %llu\n", was + 0ULL, is + 0ULL);
  if (is < was && (traits & kFalls) == 0)
    fprintf(stderr, "  reserved fell from %llu to %llu\n", was + 0ULL, is + 0ULL);
  CHECK(is <= was || (traits & kRises) != 0);
  CHECK(is >= was || (traits & kFalls) != 0);
}

int run_try(const Setting& setting, const Call& call, uint64_t allocation) {
  World world(setting);
  call.prepare(world);
  const bool has_pool = (call.traits & kNoPool) == 0;
  const gpupool_stats_t before = has_pool ? world.stats() : gpupool_stats_t{};
  allocation_to_fail = allocation;
  fail_allocation(allocation);
  Status status = call.run(world);
  const bool reached = stop_failing() || was_reached;
  if (reached && status == GPUPOOL_ERROR_HOST_OUT_OF_MEMORY) {
    if (!was_reached) check_last_error(__FILE__, __LINE__, call.name, status);  // of this thread
    if (has_pool) {
      // What segments do not fit is given back to make room, also for a malloc that then fails.
      const unsigned may_fall = setting.is_vmm() ? 0U : unsigned{kFalls};
      check_unchanged(before, world.stats(), call.traits | may_fall);
      OK(gpupool_validate(world.pool));
    }
    allocation_to_fail = kNever;
    status = call.run(world);
  }
  check_status(__FILE__, __LINE__, call.name, status, call.expected, call.expected);
  if (status == GPUPOOL_SUCCESS && world.out != 0) world.live[world.out] = world.out_stream;
  if ((call.traits & kSleeps) != 0) OK(gpupool_wake(world.pool, nullptr, nullptr));
  if (check_failures != 0) return EXIT_FAILURE;  // what follows would tell the same again
  world.finish();
  if (check_failures != 0) return EXIT_FAILURE;
  return reached ? EXIT_SUCCESS : kNotReached;
}

bool read_setting(const std::string& machine, const std::string& mode, Setting& setting) {
  if (machine != "sim" && machine != "stand_in") return false;
  setting.is_sim = machine == "sim";
  if (mode == "vmm") return true;
  if (mode == "aware") {
    setting.flags = GPUPOOL_FLAG_CAPTURE_AWARE;
    return true;
  }
  setting.mode = mode == "upstream" ? GPUPOOL_MODE_UPSTREAM : GPUPOOL_MODE_DRIVER;
  if (mode == "pinned") setting.kind = GPUPOOL_KIND_PINNED;
  return mode == "driver" || mode == "upstream" || mode == "pinned";
}

int run(int count, char** words) {
  Setting setting;
  if (count < 3 || !read_setting(words[1], words[2], setting)) {
    fprintf(stderr, "usage: host_memory sim|stand_in vmm|driver|upstream|aware|pinned [CALL [ALLOCATION]]\n");
    return 2;
  }
  for (const Call& call : kCalls) {
    if (!is_tried(call, setting) || (count > 3 && std::string(words[3]) != call.name)) continue;
    if (count > 4) return run_try(setting, call, std::strtoull(words[4], nullptr, 10));
    try_each_allocation(call.name, 5,
                        [&](uint64_t allocation) { return run_try(setting, call, allocation); });
  }
  return finish();
}

}  // namespace
}  // namespace attack

int main(int count, char** words) {
  return attack::run(count, words);
}
