// SPDX-License-Identifier: Apache-2.0
// The conditions that must hold after every operation, and everything that can be read from a pool.
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "fuzz/world.hpp"

namespace gpupool::fuzz {
namespace {

constexpr uint64_t kGranule = uint64_t{2} << 20;

std::string last_message() {
  gpupool_error_t error{};
  error.struct_size = sizeof error;
  (void)gpupool_last_error(&error);
  return error.message;
}

/// The peak may be too high by `over`.
void check_track(const char* what, const gpupool_stat_t& stat, const Track& track, uint64_t over) {
  if (stat.current != track.current || stat.peak < track.peak || stat.peak > track.peak + over ||
      stat.total_allocated - stat.total_freed != stat.current) {
    broken("%s: current %llu of %llu, peak %llu of %llu, totals %llu and %llu", what, Long{stat.current},
           Long{track.current}, Long{stat.peak}, Long{track.peak}, Long{stat.total_allocated},
           Long{stat.total_freed});
  }
}

void check_group(const char* what, const gpupool_stat_group_t& group, const Tracks& tracks,
                 uint64_t threads) {
  const std::string name(what);
  const uint64_t bytes = threads == 1 ? 0 : threads * 16 * kMiB;
  const uint64_t blocks = threads == 1 ? 0 : threads * 4096;
  check_track((name + " requested").c_str(), group.requested_bytes, tracks.requested, bytes);
  check_track((name + " allocated").c_str(), group.allocated_bytes, tracks.allocated, bytes);
  check_track((name + " blocks").c_str(), group.allocated_blocks, tracks.blocks, blocks);
  const bool active_fits = group.active_bytes.current >= group.allocated_bytes.current &&
                           group.active_blocks.current >= group.allocated_blocks.current &&
                           group.active_bytes.peak + bytes >= group.allocated_bytes.peak &&
                           group.active_bytes.peak >= group.active_bytes.current;
  if (!active_fits) broken("%s: active is less than allocated", what);
  const gpupool_stat_t& reserved = group.reserved_bytes;
  if (reserved.peak < reserved.current ||
      reserved.total_allocated - reserved.total_freed != reserved.current) {
    broken("%s: reserved does not add up", what);
  }
}

}  // namespace

void broken(const char* format, ...) {
  char text[1400];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  throw Broken(text);
}

void trace(const char* format, ...) {
  static const bool on = std::getenv("GPUPOOL_FUZZ_TRACE") != nullptr;
  if (!on) return;
  std::va_list arguments;
  va_start(arguments, format);
  std::vfprintf(stderr, format, arguments);
  va_end(arguments);
  std::fputc('\n', stderr);
}

void World::expect(gpupool_status_t status, std::initializer_list<gpupool_status_t> allowed,
                   const char* what) const {
  if (std::find(allowed.begin(), allowed.end(), status) != allowed.end()) return;
  broken("%s gave %s; the last message is: %s", what, gpupool_status_name(status), last_message().c_str());
}

/// Every pool is consistent, and the device has seen no broken rule.
void World::after() {
  for (const auto& pool : pools_) {
    if (pool->destroyed) continue;
    expect(gpupool_validate(pool->handle), {GPUPOOL_SUCCESS}, "validate");
    if (watched_) check_stats(*pool);
  }
  uint64_t faults = 0;
  char text[512];
  expect(gpupool_sim_faults(kDevice, &faults, text, sizeof text), {GPUPOOL_SUCCESS}, "sim_faults");
  if (faults != 0) broken("the device saw a broken rule: %s", text);
}

/// A malloc or reserve failed: it must be for memory, or because of what was scripted.
void World::check_shortage(const PoolModel& pool, gpupool_status_t status) const {
  if (is_scripted(status)) return;
  const bool crooked = pool.upstream != nullptr && pool.upstream->crooked;
  if (crooked && status == GPUPOOL_ERROR_UNSUPPORTED) return;
  expect(status, {GPUPOOL_ERROR_OUT_OF_MEMORY, GPUPOOL_ERROR_OVER_LIMIT}, "malloc or reserve");
}

/// A malloc failed, though nothing lives: it must be larger than what can be had.
void World::check_nothing_to_be_had(const PoolModel& pool, uint64_t size, uint64_t alignment) const {
  const bool nothing_lives = std::all_of(
      pools_.begin(), pools_.end(), [this](const auto& each) { return each->live.empty() && is_calm(); });
  if (!pool.vmm || !nothing_lives || leaked_) return;
  const uint64_t most = pool.limit == 0 ? capacity_ : std::min(capacity_, pool.limit);
  const uint64_t need = (size + 511) / 512 * 512 + std::max<uint64_t>(alignment, 512) - 512;
  if ((need + kGranule - 1) / kGranule * kGranule <= most) {
    broken("%llu bytes were refused with nothing live and %llu to be had: %s", Long{size}, Long{most},
           last_message().c_str());
  }
}

/// After empty or trim.
void World::check_given_back(const PoolModel& pool, uint64_t target) const {
  if (!is_calm()) return;
  const uint64_t reserved = read_stats(pool).all.reserved_bytes.current;
  if (reserved <= target) return;
  if (pool.live.empty()) {
    broken("%llu bytes are reserved after trimming to %llu with no live block", Long{reserved}, Long{target});
  }
  std::vector<gpupool_segment_t> segments;
  std::vector<gpupool_block_t> blocks;
  read_snapshot(pool, segments, blocks);
  for (const gpupool_segment_t& segment : segments) {
    if (segment.blocks == 0) broken("0x%llx was not given back", Long{segment.address});
  }
}

gpupool_stats_t World::read_stats(const PoolModel& pool) const {
  gpupool_stats_t stats{};
  stats.struct_size = sizeof stats;
  expect(gpupool_stats(pool.handle, &stats), {GPUPOOL_SUCCESS}, "stats");
  return stats;
}

void World::stats(size_t number) {
  const PoolModel& pool = at(number);
  if (!pool.destroyed) return check_stats(pool);
  gpupool_stats_t stats{};
  stats.struct_size = sizeof stats;
  (void)is_destroyed(pool, gpupool_stats(pool.handle, &stats));
}

void World::check_stats(const PoolModel& pool) const {
  const gpupool_stats_t stats = read_stats(pool);
  check_group("all", stats.all, pool.all, threads_);
  check_group("small", stats.small, pool.small, threads_);
  check_group("large", stats.large, pool.large, threads_);
  const uint64_t reserved = stats.all.reserved_bytes.current;
  if (reserved != stats.all.active_bytes.current + stats.cached_bytes + stats.slack_bytes) {
    broken("reserved is %llu, not active + cached + slack", Long{reserved});
  }
  if (stats.releasable_bytes > stats.cached_bytes) broken("more is releasable than cached");
  if (pool.limit != 0 && reserved > pool.limit) {
    broken("%llu bytes are reserved, above the limit of %llu", Long{reserved}, Long{pool.limit});
  }
  if (stats.limit_bytes != pool.limit) broken("the limit is said to be %llu", Long{stats.limit_bytes});
  if (stats.hits + stats.misses != pool.mallocs) broken("hits and misses are not all mallocs");
}

void World::read_snapshot(const PoolModel& pool, std::vector<gpupool_segment_t>& segments,
                          std::vector<gpupool_block_t>& blocks) const {
  for (int pass = 0; pass < 2; ++pass) {
    size_t segment_count = 0;
    size_t block_count = 0;
    expect(
        gpupool_snapshot(pool.handle, segments.data(), sizeof(gpupool_segment_t), segments.size(),
                         &segment_count, blocks.data(), sizeof(gpupool_block_t), blocks.size(), &block_count),
        {GPUPOOL_SUCCESS}, "snapshot");
    segments.resize(segment_count);
    blocks.resize(block_count);
  }
}

void World::snapshot(size_t number) {
  const PoolModel& pool = at(number);
  if (pool.destroyed) return;
  const uint64_t reserved = read_stats(pool).all.reserved_bytes.current;
  std::vector<gpupool_segment_t> segments;
  std::vector<gpupool_block_t> blocks;
  read_snapshot(pool, segments, blocks);
  uint64_t held = 0;
  uint64_t end = 0;
  for (const gpupool_segment_t& segment : segments) {
    held += segment.size_bytes;
    if (segment.address < end) broken("segments overlap at 0x%llx", Long{segment.address});
    end = segment.address == 0 ? 0 : segment.address + segment.size_bytes;
  }
  if (held != reserved) broken("segments are %llu bytes, reserved is %llu", Long{held}, Long{reserved});
  uint64_t covered = 0;
  size_t live = 0;
  end = 0;
  for (const gpupool_block_t& block : blocks) {
    if (block.address < end) broken("blocks overlap at 0x%llx", Long{block.address});
    end = block.address + block.allocated_bytes;
    covered += block.allocated_bytes;
    if (block.state != GPUPOOL_BLOCK_LIVE) continue;
    ++live;
    const auto found = pool.live.find(block.address);
    if (found == pool.live.end() || found->second.allocated != block.allocated_bytes ||
        found->second.requested != block.requested_bytes || found->second.home != block.stream) {
      broken("0x%llx is no such live block", Long{block.address});
    }
  }
  if (live != pool.live.size()) broken("the snapshot has %zu live blocks, not %zu", live, pool.live.size());
  if (covered > reserved) broken("blocks are %llu bytes, reserved is %llu", Long{covered}, Long{reserved});
}

uint64_t World::free_memory() const {
  gpupool_device_info_t info{};
  info.struct_size = sizeof info;
  expect(gpupool_device_info(GPUPOOL_BACKEND_SIM, kDevice, &info), {GPUPOOL_SUCCESS}, "device_info");
  return info.free_bytes;
}

}  // namespace gpupool::fuzz
