// SPDX-License-Identifier: Apache-2.0
#include "cli/top/look.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

namespace gpupool::cli {

std::vector<Stranger> find_strangers(const Look& now, uint64_t only) {
  std::set<uint64_t> known;
  for (const ShownProcess& process : now.processes) known.insert(process.pid);
  std::vector<Stranger> all;
  for (const Gpu& gpu : now.gpus) {
    std::set<uint64_t> here = known;
    const auto first = static_cast<std::ptrdiff_t>(all.size());
    for (const GpuUser& user : gpu.users) {
      if ((only != 0 && user.pid != only) || !here.insert(user.pid).second) continue;
      all.push_back({gpu.id, user.pid, used_on(gpu, user.pid).value_or(0), command_of_process(user.pid)});
    }
    std::sort(all.begin() + first, all.end(), [](const Stranger& a, const Stranger& b) {
      return std::tie(b.bytes, a.pid) < std::tie(a.bytes, b.pid);
    });
  }
  return all;
}

std::optional<double> age_of(const ShownPool& pool, const Look& now) {
  if (pool.shown_ns > now.now_ns) return std::nullopt;
  return static_cast<double>(now.now_ns - pool.shown_ns) / 1e9;
}

uint64_t reserved_by(const ShownProcess& process, const std::string* gpu) {
  uint64_t bytes = 0;
  for (const StatsPage& page : process.pages) {
    for (const ShownPool& pool : page.pools)
      if (gpu == nullptr || pool.device_id == *gpu) bytes += pool.reserved;
  }
  return bytes;
}

std::optional<uint64_t> used_on(const Gpu& gpu, uint64_t pid) {
  std::optional<uint64_t> bytes;
  for (const GpuUser& user : gpu.users)
    if (user.pid == pid) bytes = bytes.value_or(0) + user.bytes;
  return bytes;
}

uint64_t pooled_on(const Look& now, const Gpu& gpu) {
  uint64_t bytes = 0;
  for (const ShownProcess& process : now.processes) bytes += reserved_by(process, &gpu.id);
  return bytes;
}

std::string duration_text(double seconds) {
  if (seconds < 0.001) return fmt::format("{:.0f}us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.0f}ms", seconds * 1e3);
  if (seconds < 100) return fmt::format("{:.1f}s", seconds);
  if (seconds < 6000) return fmt::format("{:.0f}min", seconds / 60);
  return fmt::format("{:.0f}h", seconds / 3600);
}

std::string age_text(double seconds) {
  return seconds < 100 ? fmt::format("{:.1f}s", seconds) : duration_text(seconds);
}

}  // namespace gpupool::cli
