// SPDX-License-Identifier: Apache-2.0
#include "abi/options.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdlib>
#include <cstring>
#include <span>
#include <utility>

#include "abi/backends.hpp"
#include "base/bits.hpp"
#include "base/parse.hpp"
#include "core/size.hpp"
#include "device/upstream.hpp"

namespace gpupool::internal::abi {
namespace {

/// The most that a configuration may ask for; what chunks are by themselves is policy.
constexpr uint64_t kMostAsked = uint64_t{16} * kGiB;

/// What mode auto is for memory of the device: GPUPOOL_MODE, or the best that the device can do.
Status resolve_mode(const DeviceInfo& info, bool can_map, bool& vmm) {
  vmm = can_map && !info.is_under_sanitizer;
  const char* const named = std::getenv("GPUPOOL_MODE");
  if (named == nullptr || *named == '\0' || std::strcmp(named, "auto") == 0) return kSuccess;
  vmm = std::strcmp(named, "vmm") == 0;
  if (vmm || std::strcmp(named, "driver") == 0) return kSuccess;
  return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "GPUPOOL_MODE is \"%.64s\", not auto, vmm or driver", named);
}

Status check_peers(const gpupool_config_t& config) {
  if (config.peer_count > kMaxDevices) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "peer_count is %u, not 0 to %zu", config.peer_count,
                kMaxDevices);
  }
  if (config.peer_count != 0 && config.peers == nullptr) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "peers is NULL, and peer_count is %u", config.peer_count);
  }
  return kSuccess;
}

/// GPUPOOL_MODE_UPSTREAM requires the upstream's two callbacks, and only it allows them.
Status check_upstream(const gpupool_config_t& config) {
  const bool wanted = config.mode == GPUPOOL_MODE_UPSTREAM;
  for (const auto& [name, is_set] : {std::pair{"upstream_malloc", config.upstream_malloc != nullptr},
                                     std::pair{"upstream_free", config.upstream_free != nullptr}}) {
    if (is_set == wanted) continue;
    return wanted ? fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "%s is NULL, and mode 3 (upstream) needs it", name)
                  : fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "%s is set, and mode is %d, not 3 (upstream)", name,
                         config.mode);
  }
  return kSuccess;
}

Status check_reserved(const gpupool_config_t& config) {
  if (config.reserved0 != 0) {
    return fail(GPUPOOL_ERROR_UNSUPPORTED, "reserved0 is %u, not 0", config.reserved0);
  }
  if (config.reserved1 != 0) {
    return fail(GPUPOOL_ERROR_UNSUPPORTED, "reserved1 is %u, not 0", config.reserved1);
  }
  for (size_t i = 0; i < std::size(config.reserved); ++i) {
    if (config.reserved[i] == 0) continue;
    return fail(GPUPOOL_ERROR_UNSUPPORTED, "reserved[%zu] is %" PRIu64 ", not 0", i, config.reserved[i]);
  }
  return kSuccess;
}

/// Ranges of single fields. NaN fails every comparison.
Status check_fields(const gpupool_config_t& config) {
  constexpr uint32_t kKnownFlags = GPUPOOL_FLAG_CAPTURE_AWARE;
  constexpr Status kInvalid = GPUPOOL_ERROR_INVALID_ARGUMENT;
  if ((config.flags & ~kKnownFlags) != 0) {
    return fail(kInvalid, "flags is 0x%x, with bits other than 0x1 (capture-aware)", config.flags);
  }
  if (config.mode < GPUPOOL_MODE_AUTO || config.mode > GPUPOOL_MODE_UPSTREAM) {
    return fail(kInvalid, "mode is %d, not 0 (auto), 1 (vmm), 2 (driver) or 3 (upstream)", config.mode);
  }
  if (config.kind < GPUPOOL_KIND_DEVICE || config.kind > GPUPOOL_KIND_MANAGED) {
    return fail(kInvalid, "kind is %d, not 0 (device), 1 (pinned) or 2 (managed)", config.kind);
  }
  if (!(config.fraction >= 0 && config.fraction <= 1)) {
    return fail(kInvalid, "fraction is %g, not in (0, 1], nor 0 for no such limit", config.fraction);
  }
  if (!(config.slack >= 0 && config.slack <= 10) && config.slack != -1) {
    return fail(kInvalid, "slack is %g, not in [0, 10], nor -1 for always tight", config.slack);
  }
  if (config.max_chunk_bytes != 0 &&
      (!is_power_of_two(config.max_chunk_bytes) || config.max_chunk_bytes < kGranule ||
       config.max_chunk_bytes > kMostAsked)) {
    return fail(kInvalid,
                "max_chunk_bytes is %" PRIu64
                ", not a power of two from 2 MiB to 16 GiB, nor 0 for the default",
                config.max_chunk_bytes);
  }
  if (config.mode == GPUPOOL_MODE_VMM && config.kind != GPUPOOL_KIND_DEVICE) {
    return fail(GPUPOOL_ERROR_UNSUPPORTED, "kind is %d, and mode 1 (vmm) is for kind 0 (device) only",
                config.kind);
  }
  for (const auto& check : {check_peers, check_upstream, check_reserved}) {
    if (const Status status = check(config); status != kSuccess) return status;
  }
  return kSuccess;
}

}  // namespace

Status open_device(const gpupool_config_t& config, std::unique_ptr<Device>& device, PoolOptions& options) {
  if (const Status status = check_fields(config); status != kSuccess) return status;
  gpupool_backend_t backend{};
  if (const Status status = resolve_backend(config.backend, backend); status != kSuccess) return status;
  std::span<const int32_t> peers;
  if (config.peer_count != 0) peers = {config.peers, config.peer_count};
  if (const Status status = open_backend(backend, config.device, peers, device); status != kSuccess)
    return status;

  const DeviceInfo& info = device->info();
  const bool can_map = (info.capabilities & GPUPOOL_CAPABILITY_VMM) != 0 && info.granularity <= kGranule;
  options.kind = static_cast<Kind>(config.kind);
  options.vmm = config.mode == GPUPOOL_MODE_VMM;
  if (config.mode == GPUPOOL_MODE_AUTO && options.kind == Kind::device) {
    if (const Status status = resolve_mode(info, can_map, options.vmm); status != kSuccess) return status;
  }
  if (options.vmm && !can_map) {
    return fail(GPUPOOL_ERROR_UNSUPPORTED, "mode is vmm, and device %d has no virtual memory management here",
                config.device);
  }
  if (options.kind == Kind::managed && (info.capabilities & GPUPOOL_CAPABILITY_MANAGED) == 0) {
    return fail(GPUPOOL_ERROR_UNSUPPORTED, "kind is 2 (managed), and device %d has no managed memory",
                config.device);
  }
  options.capture_aware = (config.flags & GPUPOOL_FLAG_CAPTURE_AWARE) != 0;
  options.slack = config.slack;
  options.max_chunk = config.max_chunk_bytes;
  if (config.limit_bytes != 0) options.limit = config.limit_bytes;
  if (config.fraction > 0) {
    uint64_t share = 0;
    const Status status = bytes_of_share(config.fraction, info.total, share);
    if (status != kSuccess) return status;
    options.limit = std::min(options.limit, share);
  }
  if (const Status status = find_ceiling(info, options.kind, options.ceiling); status != kSuccess)
    return status;
  options.is_upstream = config.mode == GPUPOOL_MODE_UPSTREAM;
  if (options.is_upstream) {
    device = make_upstream_device(std::move(device),
                                  {config.upstream_malloc, config.upstream_free, config.upstream_user});
  }
  return kSuccess;
}

}  // namespace gpupool::internal::abi
