// SPDX-License-Identifier: Apache-2.0
// What `gpupool top --json` writes of one moment.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/base/output.hpp"
#include "cli/base/utf8.hpp"
#include "cli/top/choice.hpp"
#include "cli/top/view.hpp"

namespace gpupool::cli {
namespace {

using Json = nlohmann::ordered_json;

Json pool_to_json(const ShownPool& pool, const Look& now) {
  Json tags = Json::array();
  for (const ShownTag& tag : pool.tags)
    tags.push_back({{"tag", valid_utf8(tag.name)}, {"live_bytes", tag.bytes}});
  const std::optional<double> age = age_of(pool, now);
  Json object = {{"pool", pool.number},
                 {"name", valid_utf8(pool.name)},
                 {"device", device_of(pool)},
                 {"device_id", valid_utf8(pool.device_id)},
                 {"device_bytes", pool.device_total},
                 {"is_child", pool.is_child},
                 {"is_asleep", pool.is_asleep},
                 {"age_seconds", age ? Json(round_to(*age, 3)) : Json(nullptr)},
                 {"limit_bytes", pool.limit},
                 {"live_bytes", pool.live},
                 {"live_blocks", pool.live_blocks},
                 {"live_peak_bytes", pool.live_peak},
                 {"pending_bytes", pool.pending},
                 {"pending_blocks", pool.pending_blocks},
                 {"cached_bytes", pool.cached},
                 {"slack_bytes", pool.slack},
                 {"reserved_bytes", pool.reserved},
                 {"reserved_peak_bytes", pool.reserved_peak},
                 {"asleep_bytes", pool.asleep},
                 {"backup_bytes", pool.backup},
                 {"free_range_bytes", pool.free_ranges},
                 {"largest_free_range_bytes", pool.largest_free_range},
                 {"hits", pool.hits},
                 {"misses", pool.misses},
                 {"steals", pool.steals},
                 {"stream_steals", pool.stream_steals},
                 {"retries", pool.retries},
                 {"failed_mallocs", pool.failed_mallocs},
                 {"driver_calls", pool.driver_calls},
                 {"driver_seconds", static_cast<double>(pool.driver_ns) / 1e9},
                 {"streams", pool.streams},
                 {"tags", std::move(tags)}};
  if (!pool.group.empty()) {
    object["group"] = {{"name", valid_utf8(pool.group)},
                       {"used_bytes", pool.group_used},
                       {"limit_bytes", pool.group_limit},
                       {"given_bytes", pool.given},
                       {"taken_bytes", pool.taken}};
  }
  return object;
}

Json process_to_json(const ShownProcess& process, const Look& now) {
  Json object = {{"time", round_to(now.unix_time, 3)},
                 {"pid", process.pid},
                 {"uid", process.uid},
                 {"user", valid_utf8(process.user)},
                 {"command", valid_utf8(process.command)}};
  if (!process.why_closed.empty()) object["error"] = process.why_closed;
  Json pools = Json::array();
  uint64_t not_shown = 0;
  uint64_t busy = 0;
  for (const StatsPage& page : process.pages) {
    object["inner_pid"] = page.process;
    object["version"] = valid_utf8(page.version);
    not_shown += page.not_shown;
    busy += page.busy;
    for (const ShownPool& pool : page.pools)
      if (!pool.is_hidden) pools.push_back(pool_to_json(pool, now));
  }
  object["pools_not_shown"] = not_shown;
  object["pools_busy"] = busy;
  object["pools"] = std::move(pools);
  Json gpus = Json::array();
  for (const Gpu& gpu : now.gpus) {
    const std::optional<uint64_t> used = used_on(gpu, process.pid);
    if (!used) continue;
    const uint64_t ours = reserved_by(process, &gpu.id);
    gpus.push_back(
        {{"gpu", valid_utf8(gpu.id)}, {"used_bytes", *used}, {"other_bytes", *used - std::min(*used, ours)}});
  }
  object["gpus"] = std::move(gpus);
  return object;
}

void add_holders(Json& object, const AskedHolders& asked) {
  if (!asked.why_not.empty()) object["holders_error"] = harmless(asked.why_not);
  Json list = Json::array();
  for (const ShownHolder& each : asked.holders) {
    list.push_back({{"pool", each.pool},
                    {"live_bytes", each.live_bytes},
                    {"samples", each.samples},
                    {"oldest_seconds", round_to(static_cast<double>(each.oldest_ns) / 1e9, 3)},
                    {"newest_seconds", round_to(static_cast<double>(each.newest_ns) / 1e9, 3)},
                    {"tag", each.tag},
                    {"stack", each.frames}});
  }
  object["holders_seconds"] = asked.seconds;
  object["holders"] = std::move(list);
}

}  // namespace

void print_look_as_json(const Look& now, const AskedHolders* asked) {
  for (const Gpu& gpu : now.gpus) {
    Json strangers = Json::array();
    for (const Stranger& each : now.strangers)
      if (each.gpu == gpu.id)
        strangers.push_back(
            {{"pid", each.pid}, {"command", valid_utf8(each.command)}, {"used_bytes", each.bytes}});
    print_json({{"time", round_to(now.unix_time, 3)},
                {"gpu", valid_utf8(gpu.id)},
                {"number", gpu.number},
                {"name", valid_utf8(gpu.name)},
                {"total_bytes", gpu.total},
                {"used_bytes", gpu.used},
                {"free_bytes", gpu.free},
                {"pools_bytes", pooled_on(now, gpu)},
                {"without_pools", std::move(strangers)}});
  }
  for (const ShownProcess& process : now.processes) {
    Json object = process_to_json(process, now);
    if (asked != nullptr) add_holders(object, *asked);
    print_json(object);
  }
}

}  // namespace gpupool::cli
