// SPDX-License-Identifier: Apache-2.0
#include "cli/top/choice.hpp"
#include "cli/base/library.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <tuple>

#include "cli/base/library.hpp"
#include "gpupool/gpupool.h"

namespace gpupool::cli {
namespace {

/// An order by a figure of each pool. Null: by something else.
struct TopOrder {
  const char* name;
  uint64_t ShownPool::*figure;
};
constexpr TopOrder kTopOrders[] = {
    {"reserved", nullptr},  // processes by what all their pools hold
    {"live", &ShownPool::live},
    {"cached", &ShownPool::cached},
    {"pending", &ShownPool::pending},
    {"peak", &ShownPool::live_peak},
    {"limit", &ShownPool::limit},
    {"asleep", &ShownPool::asleep},
    {"steals", &ShownPool::steals},
    {"misses", &ShownPool::misses},
    {"driver", &ShownPool::driver_ns},
    {"recent", &ShownPool::shown_ns},
    {"pid", nullptr},
    {"user", nullptr},
    {"name", nullptr},
};

bool has_text(const std::string& in, const std::string& text) {
  return in.find(text) != std::string::npos;
}

bool has_tag(const ShownPool& pool, const std::string& text) {
  return std::any_of(pool.tags.begin(), pool.tags.end(),
                     [&](const ShownTag& tag) { return has_text(tag.name, text); });
}

bool is_on(const ShownPool& pool, const std::string& device) {
  const std::string name = device_of(pool);
  return name == device || name.substr(0, name.find(':')) == device || has_text(pool.device_id, device);
}

bool is_chosen(const ShownProcess& process, const ShownPool& pool, const TopChoice& choice) {
  if (!choice.name.empty() && !has_text(pool.name, choice.name)) return false;
  if (!choice.tag.empty() && !has_tag(pool, choice.tag)) return false;
  if (!choice.user.empty() && process.user != choice.user && std::to_string(process.uid) != choice.user)
    return false;
  if (!choice.device.empty() && !is_on(pool, choice.device)) return false;
  const std::string& text = choice.text;
  return text.empty() || has_text(pool.name, text) || has_tag(pool, text) || has_text(process.user, text) ||
         is_on(pool, text) || has_text(process.command, text) || std::to_string(process.pid) == text;
}

uint64_t reserved_of(const ShownProcess& process) {
  uint64_t bytes = 0;
  for (const StatsPage& page : process.pages)
    for (const ShownPool& pool : page.pools) bytes += pool.reserved;
  return bytes;
}

/// What a row is sorted by; equal ones by their places. Made once for each row, of which there may be
/// thousands.
struct SortKey {
  uint64_t figure;  // the largest first
  std::string_view text;
  TopRow row;
};

SortKey key_of(const TopRow& row, const std::string& order, uint64_t reserved) {
  for (const TopOrder& each : kTopOrders)
    if (order == each.name && each.figure != nullptr) return {row.pool->*each.figure, "", row};
  if (order == "pid") return {0, "", row};
  if (order == "user") return {0, row.process->user, row};
  if (order == "name") return {0, row.pool->name, row};
  return {reserved, "", row};
}

}  // namespace

std::vector<std::string> top_orders() {
  std::vector<std::string> names;
  for (const TopOrder& order : kTopOrders) names.emplace_back(order.name);
  return names;
}

std::string next_order(const std::string& order, bool is_forward) {
  const auto* const found = std::find_if(std::begin(kTopOrders), std::end(kTopOrders),
                                         [&](const TopOrder& each) { return order == each.name; });
  const auto count = std::size(kTopOrders);
  const auto at = static_cast<size_t>(found - std::begin(kTopOrders));
  return kTopOrders[(at + (is_forward ? 1 : count - 1)) % count].name;
}

std::string device_of(const ShownPool& pool) {
  return device_label(static_cast<int32_t>(pool.backend), static_cast<int32_t>(pool.device));
}

void keep_chosen(std::vector<ShownProcess>& processes, const TopChoice& choice) {
  if (choice.is_all()) return;
  for (ShownProcess& process : processes) {
    for (StatsPage& page : process.pages)
      for (ShownPool& pool : page.pools) pool.is_hidden = !is_chosen(process, pool, choice);
  }
  std::erase_if(processes, [](const ShownProcess& process) {
    return std::all_of(process.pages.begin(), process.pages.end(), [](const StatsPage& page) {
      return std::all_of(page.pools.begin(), page.pools.end(),
                         [](const ShownPool& pool) { return pool.is_hidden; });
    });
  });
}

std::vector<TopRow> rows_in_order(const std::vector<ShownProcess>& processes, const std::string& order) {
  std::vector<SortKey> keys;
  for (const ShownProcess& process : processes) {
    const uint64_t reserved = reserved_of(process);
    for (size_t page = 0; page < process.pages.size(); ++page) {
      for (const ShownPool& pool : process.pages[page].pools)
        if (!pool.is_hidden) keys.push_back(key_of({&process, page, &pool}, order, reserved));
    }
  }
  std::sort(keys.begin(), keys.end(), [](const SortKey& a, const SortKey& b) {
    return std::tuple(b.figure, a.text, a.row.process->pid, a.row.page, a.row.pool->number) <
           std::tuple(a.figure, b.text, b.row.process->pid, b.row.page, b.row.pool->number);
  });
  std::vector<TopRow> rows;
  rows.reserve(keys.size());
  for (const SortKey& key : keys) rows.push_back(key.row);
  return rows;
}

}  // namespace gpupool::cli
