// SPDX-License-Identifier: Apache-2.0
// The host runs out of memory at each allocation of each call in turn (finding D13). The call then returns
// HOST_OUT_OF_MEMORY without changing anything, or manages without the memory; the next try succeeds, and in
// the end the device has everything back. Every try has its own process, so that an abort fails only that
// try.
//
//   host_memory sim|stand_in vmm|driver|upstream|aware|pinned [CALL [ALLOCATION]]
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "attack/each_allocation.hpp"
#include "attack/host_memory_calls.hpp"
#include "attack/short_host.hpp"
#include "support/own_folder.hpp"

namespace attack {
namespace {

bool is_tried(const Call& call, const Setting& setting) {
  if ((call.traits & kMapped) != 0 && !setting.is_vmm()) return false;
  if ((call.traits & kCapturing) != 0 && !setting.is_aware()) return false;
  if ((call.traits & kOwnMemory) != 0 && setting.is_upstream()) return false;
  if ((call.traits & kPlainOnly) != 0 && (!setting.is_vmm() || setting.is_aware())) return false;
  if ((call.traits & kDeviceOnly) != 0 && setting.kind != GPUPOOL_KIND_DEVICE) return false;
  if ((call.traits & kSimOnly) != 0 && !setting.is_sim) return false;
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
  // Where the tries leave their files and have their groups: tests like this one run at the same time.
  const OwnFolder folder;
  REQUIRE(chdir(folder.path().c_str()) == 0);
  REQUIRE(setenv("GPUPOOL_SHARE_DIR", folder.path().c_str(), 1) == 0);
  std::vector<Call> calls = calls_of_blocks();
  const std::vector<Call> more = calls_of_pools();
  calls.insert(calls.end(), more.begin(), more.end());
  for (const Call& call : calls) {
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
