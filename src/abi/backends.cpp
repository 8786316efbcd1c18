// SPDX-License-Identifier: Apache-2.0
#include "abi/backends.hpp"

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <span>

#include "base/parse.hpp"
#include "device/cuda.hpp"
#include "device/sim.hpp"
#include "device/upstream.hpp"
#include "pool/registry.hpp"

namespace gpupool::abi {
namespace {

constexpr uint32_t kMaxPeers = 64;
constexpr uint64_t kMaxChunk = uint64_t{16} * kGiB;

/// Once CUDA is initialised: before the driver goes, pools stop calling it. Hooks run in reverse order, so
/// this one, registered after cuInit, runs while the driver is still whole.
void watch_exit() {
  static std::once_flag once;
  std::call_once(once, [] { std::atexit([] { Registry::instance().mark_exiting(); }); });
}

Status check_ordinal(int32_t ordinal, gpupool_backend_t backend) {
  int32_t count = 0;
  if (const Status status = count_devices(backend, count); status != kSuccess) return status;
  if (ordinal >= 0 && ordinal < count) return kSuccess;
  return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "there is no device %d: the backend has %d", ordinal, count);
}

Status open(gpupool_backend_t backend, int32_t ordinal, std::span<const int32_t> peers,
            std::unique_ptr<Device>& device) {
  watch_fork();
  if (const Status status = check_ordinal(ordinal, backend); status != kSuccess) return status;
  if (backend == GPUPOOL_BACKEND_SIM) {
    std::unique_ptr<Device> opened;
    if (const Status status = open_sim(ordinal, opened); status != kSuccess) return status;
    for (const int32_t peer : peers) {
      if (const Status status = opened->add_peer(peer, false); status != kSuccess) return status;
    }
    device = std::move(opened);
    return kSuccess;
  }
  const Status status = open_cuda(ordinal, peers, device);
  if (status == kSuccess) watch_exit();
  return status;
}

/// Ranges of single fields. NaN fails every comparison.
Status check_fields(const gpupool_config_t& config) {
  const auto refuse = [](const char* what) { return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "%s", what); };
  constexpr uint32_t kKnownFlags = GPUPOOL_FLAG_CAPTURE_AWARE;
  if ((config.flags & ~kKnownFlags) != 0) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "unknown flags 0x%x", config.flags & ~kKnownFlags);
  }
  if (config.mode < GPUPOOL_MODE_AUTO || config.mode > GPUPOOL_MODE_UPSTREAM) return refuse("unknown mode");
  if (config.kind < GPUPOOL_KIND_DEVICE || config.kind > GPUPOOL_KIND_MANAGED) return refuse("unknown kind");
  if (!(config.fraction >= 0 && config.fraction <= 1)) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "fraction is %g, not in 0..1", config.fraction);
  }
  if (!(config.slack >= 0 && config.slack <= 10)) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "slack is %g, not in 0..10", config.slack);
  }
  if (config.max_chunk_bytes != 0 &&
      (!is_power_of_two(config.max_chunk_bytes) || config.max_chunk_bytes < kGranule ||
       config.max_chunk_bytes > kMaxChunk)) {
    return refuse("max_chunk_bytes is not a power of two from 2 MiB to 16 GiB");
  }
  if (config.peer_count > kMaxPeers || (config.peer_count != 0 && config.peers == nullptr)) {
    return refuse("peers is NULL, or peer_count larger than 64");
  }
  const bool upstream = config.mode == GPUPOOL_MODE_UPSTREAM;
  if (upstream != (config.upstream_malloc != nullptr) || upstream != (config.upstream_free != nullptr)) {
    return refuse("the upstream's two callbacks go with GPUPOOL_MODE_UPSTREAM, and only with it");
  }
  if (config.mode == GPUPOOL_MODE_VMM && config.kind != GPUPOOL_KIND_DEVICE) {
    return fail(GPUPOOL_ERROR_UNSUPPORTED, "virtual memory management is for kind device only");
  }
  const bool reserved = config.reserved0 != 0 || config.reserved[0] != 0 || config.reserved[1] != 0 ||
                        config.reserved[2] != 0 || config.reserved[3] != 0;
  if (reserved) return fail(GPUPOOL_ERROR_UNSUPPORTED, "a reserved field is not zero");
  return kSuccess;
}

}  // namespace

/// Locks are taken around fork in the reverse of this order: those of the pools, then the devices'.
void watch_fork() noexcept {
  sim_watch_fork();
  set_after_fork_hook(cuda_after_fork);
  (void)Registry::instance();
}

Status resolve_backend(int32_t wanted, gpupool_backend_t& backend) {
  if (wanted < GPUPOOL_BACKEND_AUTO || wanted > GPUPOOL_BACKEND_SIM) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "unknown backend %d", wanted);
  }
  backend = static_cast<gpupool_backend_t>(wanted);
  if (backend != GPUPOOL_BACKEND_AUTO) return kSuccess;
  if (const char* named = std::getenv("GPUPOOL_BACKEND"); named != nullptr && *named != '\0') {
    if (std::strcmp(named, "cuda") == 0) {
      backend = GPUPOOL_BACKEND_CUDA;
    } else if (std::strcmp(named, "sim") == 0) {
      backend = GPUPOOL_BACKEND_SIM;
    } else {
      return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "GPUPOOL_BACKEND is \"%.64s\", not cuda or sim", named);
    }
    return kSuccess;
  }
  int32_t count = 0;
  const bool cuda = cuda_device_count(count) == kSuccess && count > 0;
  backend = cuda ? GPUPOOL_BACKEND_CUDA : GPUPOOL_BACKEND_SIM;
  return kSuccess;
}

Status count_devices(gpupool_backend_t backend, int32_t& count) {
  if (backend == GPUPOOL_BACKEND_CUDA) return cuda_device_count(count);
  count = kSimDeviceCount;
  return kSuccess;
}

Status open_plain(gpupool_backend_t backend, int32_t ordinal, std::unique_ptr<Device>& device) {
  return open(backend, ordinal, {}, device);
}

Status open_device(const gpupool_config_t& config, std::unique_ptr<Device>& device, Pool::Options& options) {
  if (const Status status = check_fields(config); status != kSuccess) return status;
  gpupool_backend_t backend{};
  if (const Status status = resolve_backend(config.backend, backend); status != kSuccess) return status;
  std::span<const int32_t> peers;
  if (config.peer_count != 0) peers = {config.peers, config.peer_count};
  if (const Status status = open(backend, config.device, peers, device); status != kSuccess) return status;

  const DeviceInfo& info = device->info();
  const bool can_map = (info.capabilities & GPUPOOL_CAPABILITY_VMM) != 0 && info.granularity <= kGranule;
  options.kind = static_cast<Kind>(config.kind);
  options.vmm = config.mode == GPUPOOL_MODE_VMM ||
                (config.mode == GPUPOOL_MODE_AUTO && can_map && options.kind == Kind::device);
  if (options.vmm && !can_map) {
    return fail(GPUPOOL_ERROR_UNSUPPORTED, "device %d has no virtual memory management", config.device);
  }
  if (options.kind == Kind::managed && (info.capabilities & GPUPOOL_CAPABILITY_MANAGED) == 0) {
    return fail(GPUPOOL_ERROR_UNSUPPORTED, "device %d has no managed memory", config.device);
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
  if (config.mode == GPUPOOL_MODE_UPSTREAM) {
    device = make_upstream_device(std::move(device),
                                  {config.upstream_malloc, config.upstream_free, config.upstream_user});
  }
  return kSuccess;
}

}  // namespace gpupool::abi
