// SPDX-License-Identifier: Apache-2.0
#include "cli/top/look.hpp"

namespace gpupool::cli {

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

}  // namespace gpupool::cli
