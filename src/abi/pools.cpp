// SPDX-License-Identifier: Apache-2.0
// Pools: creation, the default pools, destruction.
#include <array>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "abi/backends.hpp"
#include "abi/call.hpp"
#include "abi/options.hpp"
#include "abi/structs.hpp"
#include "base/interrupts.hpp"
#include "base/log.hpp"
#include "base/parse.hpp"
#include "os/library.hpp"
#include "pool/process/exit_check.hpp"
#include "pool/process/idle_pools.hpp"
#include "pool/process/other_pools.hpp"

namespace gpupool::internal::abi {
namespace {

/// What GPUPOOL_IDLE says: a time, and whether a thread is to look for idle pools ("30s,thread").
Status idle_from_environment(uint64_t& idle_ns, bool& thread) {
  constexpr std::string_view kThread = ",thread";
  const char* const variable = std::getenv("GPUPOOL_IDLE");
  if (variable == nullptr || *variable == '\0') return kSuccess;
  std::string_view text = variable;
  thread = text.ends_with(kThread);
  if (thread) text.remove_suffix(kThread.size());
  return parse_time("GPUPOOL_IDLE", text, idle_ns);
}

Status find_idle_time(const gpupool_config_t& config, uint64_t& idle_ns, bool& thread) {
  constexpr double kYear = 366.0 * 86400;
  const double seconds = config.idle_seconds;
  if (!(seconds >= 1e-3 && seconds <= kYear) && seconds != 0 && seconds != -1) {
    return fail(kInvalid,
                "idle_seconds is %g, not 0.001 s to a year, nor 0 for GPUPOOL_IDLE, nor -1 for never",
                seconds);
  }
  if (const Status status = idle_from_environment(idle_ns, thread); status != kSuccess) return status;
  if (seconds != 0) idle_ns = seconds < 0 ? 0 : static_cast<uint64_t>(seconds * 1e9);
  return kSuccess;
}

Status create(const gpupool_config_t& config, gpupool_t*& handle) {
  Registry::instance().end_those_left();
  watch_from_environment();
  std::unique_ptr<Device> device;
  Pool::Options options;
  bool idle_thread = false;
  if (const Status status = find_idle_time(config, options.idle_ns, idle_thread); status != kSuccess)
    return status;
  if (const Status status = open_device(config, device, options); status != kSuccess) return status;
  const DeviceInfo info = device->info();
  // Whoever runs compute-sanitizer wants this; GPUPOOL_DEBUG, even empty, has its own say.
  options.debug.annotate = info.is_under_sanitizer && !options.vmm && options.kind == Kind::device;
  if (const Status status = find_debug_modes(options.debug); status != kSuccess) return status;
  const auto pool = std::make_shared<Pool>(std::move(device), options, std::make_unique<OtherPools>());
  if (const Status status = pool->begin(); status != kSuccess) return status;
  if (const Status status = share_pool(config, *pool); status != kSuccess) return status;
  handle = Registry::instance().add(pool);
  if (options.debug.slows()) check_pools_at_exit();
  if (options.idle_ns != 0) look_after_idle_pools(options.idle_ns, idle_thread);
  if (log_enabled(GPUPOOL_LOG_INFO)) {
    log_line(GPUPOOL_LOG_INFO, "pool %" PRIu64 " created on device %d (%s), mode %s, driver %d%s", handle->id,
             info.ordinal, info.name, options.vmm ? "vmm" : "driver or upstream", info.driver_version,
             info.is_under_sanitizer ? ", under compute-sanitizer" : "");
  }
  return kSuccess;
}

/// Another copy of the library in this process takes all of the environment's limit once more.
void tell_of_other_copy() noexcept {
  static constinit std::atomic<bool> is_looked_for{false};
  std::string own;
  std::string other;
  if (is_looked_for.exchange(true)) return;
  if (!os::find_other_copy("gpupool_default_pool", &is_looked_for, own, other)) return;
  std::fprintf(
      stderr,
      "gpupool: this process has two copies of the library, and each takes all of the environment's limit: "
      "%s and %s\n",
      own.c_str(), other.c_str());
}

/// A child keeps only its parent's device and limit alive.
Status create_child(gpupool_t* parent, gpupool_t*& handle) {
  Registry::instance().end_those_left();
  const std::shared_ptr<Pool> owner = Registry::instance().find(parent->id);
  if (owner == nullptr) return refuse(parent);
  if (owner->options().is_child) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "a child pool has no children: create one of its parent");
  }
  if (owner->options().is_upstream) {
    return fail(GPUPOOL_ERROR_UNSUPPORTED,
                "mode 3 (upstream) has no children, which would outlive its callbacks");
  }
  handle = Registry::instance().add(std::make_shared<Pool>(*owner, std::make_unique<OtherPools>(owner)));
  if (log_enabled(GPUPOOL_LOG_INFO))
    log_line(GPUPOOL_LOG_INFO, "pool %" PRIu64 " created, a child of pool %" PRIu64, handle->id, parent->id);
  return kSuccess;
}

/// The default pools by device. They live as long as the process.
constinit std::array<std::atomic<gpupool_t*>, kMaxDevices> default_pools{};

Status destroy(gpupool_t* handle) {
  if (handle->is_default) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT,
                "a default pool belongs to the process and cannot be destroyed");
  }
  Life life = Life::live;
  const auto mark = [&] { return handle->life.compare_exchange_strong(life, Life::destroyed); };
  if (!mark() && !(life == Life::lost && mark())) return life == Life::exiting ? kSuccess : refuse(handle);
  Registry::instance().end_if_empty(*handle);
  return kSuccess;
}

/// Without a lock, which a forked child could inherit taken: if several threads come first, each creates a
/// pool, which costs no device memory, and one of them stays.
Status default_pool(int32_t device, gpupool_t*& handle) {
  if (device < 0 || static_cast<size_t>(device) >= kMaxDevices) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT,
                "there is no device %d: default pools are of devices 0 to %zu", device, kMaxDevices - 1);
  }
  std::atomic<gpupool_t*>& slot = default_pools[static_cast<size_t>(device)];
  gpupool_t* known = slot.load(std::memory_order_acquire);
  const Life life = known != nullptr ? known->life.load() : Life::gone;
  if (known == nullptr || life == Life::forked || life == Life::lost) {
    gpupool_config_t config{};
    config.device = device;
    gpupool_t* created = nullptr;
    if (const Status status = create(config, created); status != kSuccess) return status;
    if (created->pool->options().ceiling.name != nullptr) tell_of_other_copy();
    created->is_default = true;
    if (gpupool_t* const before = known; slot.compare_exchange_strong(known, created)) {
      known = created;
      if (life == Life::lost) {
        before->is_default = false;
        (void)destroy(before);
      }
    } else {
      created->is_default = false;
      (void)destroy(created);
    }
  }
  handle = known;
  return kSuccess;
}

bool may_free_late(const gpupool_t* handle) noexcept {
  if (handle == nullptr || handle->copy != Registry::copy_mark()) return false;
  const Life life = handle->life.load(std::memory_order_acquire);
  return life == Life::destroyed || life == Life::exiting || life == Life::lost;
}

}  // namespace

Status refuse(const gpupool_t* handle) noexcept {
  if (handle == nullptr) return refuse_null("pool");
  if (handle->copy != Registry::copy_mark()) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT,
                "the pool belongs to another copy of the library, or is none");
  }
  switch (handle->life.load(std::memory_order_acquire)) {
    case Life::live: return kSuccess;
    case Life::destroyed:
    case Life::gone: return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "the pool has been destroyed");
    case Life::forked:
      return fail(GPUPOOL_ERROR_FORKED, "the pool was created before fork, in the parent process");
    case Life::exiting: return fail(GPUPOOL_ERROR_SHUTTING_DOWN, "the process is exiting");
    case Life::lost:
      return fail_driver(
          GPUPOOL_ERROR_DRIVER, 709,
          "the pool's memory is gone: its CUDA context was reset or destroyed. Make another pool "
          "(a default pool: ask for it again)");
  }
  return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "not a pool");
}

Status refuse_null(const char* argument) noexcept {
  return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "%s is NULL", argument);
}

Status log_failure(Status status) noexcept {
  status = interrupts::end_call(status);
  gpupool_log_level_t level = GPUPOOL_LOG_INFO;  // the caller's mistakes, reported to the caller
  if (is_shortage(status)) level = GPUPOOL_LOG_WARNING;
  if (status == GPUPOOL_ERROR_DRIVER || status == GPUPOOL_ERROR_INTERNAL ||
      status == GPUPOOL_ERROR_HOST_OUT_OF_MEMORY) {
    level = GPUPOOL_LOG_ERROR;
  }
  if (log_enabled(level)) {
    const ErrorRecord& error = last_error();
    log_line(level, "%s: %.*s", gpupool_status_name(status), static_cast<int>(first_line_length(error)),
             error.message);
  }
  try {
    if (status == GPUPOOL_ERROR_DRIVER) Registry::instance().find_lost();
    Registry::instance().end_those_left();
  } catch (const std::bad_alloc&) {
    // The next call that fails does so.
  }
  return status;
}

Status free_late(gpupool_t* handle, Address address, Stream stream) noexcept {
  if (!may_free_late(handle)) return refuse(handle);
  return guarded([&] {
    if (handle->life.load(std::memory_order_acquire) == Life::exiting) {
      const Status status = handle->pool->free(address, stream);
      return status == GPUPOOL_ERROR_SHUTTING_DOWN ? kSuccess : status;
    }
    const std::shared_ptr<Pool> pool = Registry::instance().find(handle->id);
    if (pool == nullptr) return refuse(handle);  // another thread has freed the last block
    const Status status = pool->free(address, stream);
    const bool is_destroyed = handle->life.load(std::memory_order_acquire) == Life::destroyed;
    if (status == kSuccess && is_destroyed) Registry::instance().end_if_empty(*handle);
    return status;
  });
}

}  // namespace gpupool::internal::abi

using namespace gpupool::internal;       // NOLINT: the C functions are a thin layer over these
using namespace gpupool::internal::abi;  // NOLINT

extern "C" {

gpupool_status_t gpupool_config_init(gpupool_config_t* config, size_t struct_size) {
  if (config == nullptr) return refuse_null("config");
  if (const Status status = check_size(struct_size, "struct_size"); status != kSuccess) return status;
  if (struct_size > sizeof(gpupool_config_t)) {
    return fail(GPUPOOL_ERROR_UNSUPPORTED,
                "struct_size is %zu, and version %s knows the first %zu bytes of config", struct_size,
                gpupool_version_string(), sizeof(gpupool_config_t));
  }
  std::memset(static_cast<void*>(config), 0, struct_size);
  config->struct_size = static_cast<uint32_t>(struct_size);
  return kSuccess;
}

gpupool_status_t gpupool_create(const gpupool_config_t* config, gpupool_t** out_pool) {
  const auto read_and_create = [config](gpupool_t*& handle) {
    gpupool_config_t whole{};
    if (config != nullptr) {
      if (const Status status = read_struct(config, whole, "config->struct_size"); status != kSuccess)
        return status;
    }
    return create(whole, handle);
  };
  return call(read_and_create, Out{out_pool, "out_pool"});
}

gpupool_status_t gpupool_create_child(gpupool_t* parent, gpupool_t** out_pool) {
  const auto create = [parent](Pool&, gpupool_t*& handle) { return create_child(parent, handle); };
  return call(parent, create, Out{out_pool, "out_pool"});
}

gpupool_status_t gpupool_default_pool(int32_t device, gpupool_t** out_pool) {
  return call(default_pool, device, Out{out_pool, "out_pool"});
}

gpupool_status_t gpupool_destroy(gpupool_t* pool) {
  if (pool == nullptr) return kSuccess;
  if (pool->copy != Registry::copy_mark()) return refuse(pool);
  return guarded([&] { return destroy(pool); });
}

}  // extern "C"
