// SPDX-License-Identifier: Apache-2.0
// The library itself, its devices, streams and data, and control of the simulated device.
#include "abi/backends.hpp"
#include "abi/call.hpp"
#include "abi/structs.hpp"
#include "base/interrupts.hpp"
#include "base/log.hpp"
#include "base/parse.hpp"
#include "device/sim/sim.hpp"

using namespace gpupool::internal;       // NOLINT: the C functions are a thin layer over these
using namespace gpupool::internal::abi;  // NOLINT

namespace {

#define GPUPOOL_TEXT_OF(value) #value
#define GPUPOOL_TEXT(value) GPUPOOL_TEXT_OF(value)
constexpr const char kVersionText[] = GPUPOOL_TEXT(GPUPOOL_VERSION_MAJOR) "." GPUPOOL_TEXT(
    GPUPOOL_VERSION_MINOR) "." GPUPOOL_TEXT(GPUPOOL_VERSION_PATCH);

Status describe(gpupool_backend_t wanted, int32_t ordinal, gpupool_device_info_t& out) {
  gpupool_backend_t backend{};
  if (const Status status = resolve_backend(wanted, backend); status != kSuccess) return status;
  std::unique_ptr<Device> device;
  if (const Status status = open_backend(backend, ordinal, {}, device); status != kSuccess) return status;
  const DeviceInfo& info = device->info();
  out.struct_size = sizeof out;
  out.backend = info.backend;
  out.device = info.ordinal;
  out.capabilities = info.capabilities;
  out.total_bytes = info.total;
  out.granularity_bytes = info.granularity;
  out.driver_version = info.driver_version;
  out.compute_capability = info.compute_capability;
  static_assert(sizeof out.name == sizeof info.name);
  std::memcpy(out.name, info.name, sizeof out.name);
  return device->free_memory(out.free_bytes);
}

}  // namespace

extern "C" {

uint32_t gpupool_version(void) {
  return GPUPOOL_VERSION;
}

const char* gpupool_version_string(void) {
  return kVersionText;
}

uint64_t gpupool_features(void) {
  uint64_t features = GPUPOOL_FEATURE_SIM;  // also where the host has no memory to ask
  (void)guarded([&] {
    features = usable_features();
    return kSuccess;
  });
  return features;
}

const char* gpupool_status_name(gpupool_status_t status) {
  return status_name(status);
}

gpupool_status_t gpupool_last_error(gpupool_error_t* error) {
  if (error == nullptr || error->struct_size < kShortest || error->struct_size > kLongest) {
    // Recording this failure would overwrite the one requested.
    return GPUPOOL_ERROR_INVALID_ARGUMENT;
  }
  const ErrorRecord& record = last_error();
  gpupool_error_t whole{};
  whole.status = record.status;
  whole.driver_code = record.driver_code;
  static_assert(sizeof whole.message == sizeof record.message);
  std::memcpy(whole.message, record.message, sizeof whole.message);
  whole.struct_size = sizeof whole;
  const uint32_t size = error->struct_size;
  write_struct(whole, error);
  // A caller that knows only part of the message still gets a terminated one.
  if (size > offsetof(gpupool_error_t, message) && size < sizeof whole) {
    reinterpret_cast<char*>(error)[size - 1] = '\0';
  }
  return kSuccess;
}

gpupool_status_t gpupool_set_log(gpupool_log_fn_t fn, void* user, int32_t level) {
  if (level < GPUPOOL_LOG_OFF || level > GPUPOOL_LOG_DEBUG) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT,
                "level is %d, not 0 (off), 1 (error), 2 (warning), 3 (info) or 4 (debug)", level);
  }
  set_log(fn, user, static_cast<gpupool_log_level_t>(level));
  return kSuccess;
}

gpupool_status_t gpupool_set_interrupt_check(gpupool_interrupt_fn_t fn, void* user, int32_t on) {
  if (on != 0 && on != 1) return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "on is %d, not 0 or 1", on);
  return interrupts::set_check(fn, user, on == 1);
}

gpupool_status_t gpupool_parse_size(const char* text, uint64_t* out_bytes, double* out_share) {
  if (out_bytes == nullptr) return refuse_null("out_bytes");
  *out_bytes = 0;
  if (out_share != nullptr) *out_share = 0;
  if (text == nullptr) return refuse_null("text");
  return guarded([&]() -> Status {
    uint64_t bytes = 0;
    double share = 0;
    // Only a limit may be a share.
    const Status status =
        out_share == nullptr ? parse_bytes("size", text, bytes) : parse_size("limit", text, bytes, share);
    if (status != kSuccess) return status;
    *out_bytes = bytes;
    if (out_share != nullptr) *out_share = share;
    return kSuccess;
  });
}

gpupool_status_t gpupool_parse_device(const char* text, gpupool_backend_t* out_backend, int32_t* out_device) {
  if (out_backend == nullptr) return refuse_null("out_backend");
  if (out_device == nullptr) return refuse_null("out_device");
  *out_backend = GPUPOOL_BACKEND_AUTO;
  *out_device = 0;
  if (text == nullptr) return refuse_null("text");
  return call(parse_device, text, std::ref(*out_backend), std::ref(*out_device));
}

const char* gpupool_backend_name(int32_t backend) {
  return backend_name(backend);
}

gpupool_status_t gpupool_device_count(gpupool_backend_t backend, int32_t* out_count) {
  const auto count = [backend](int32_t& devices) {
    gpupool_backend_t resolved{};
    const Status status = resolve_backend(backend, resolved);
    return status == kSuccess ? count_devices(resolved, devices) : status;
  };
  return call(count, Out{out_count, "out_count"});
}

gpupool_status_t gpupool_device_info(gpupool_backend_t backend, int32_t device, gpupool_device_info_t* info) {
  if (info == nullptr) return refuse_null("info");
  if (const Status status = check_size(info->struct_size, "info->struct_size"); status != kSuccess)
    return status;
  return guarded([&]() -> Status {
    gpupool_device_info_t whole{};
    const Status status = describe(backend, device, whole);
    if (status == kSuccess) write_struct(whole, info);
    return status;
  });
}

gpupool_status_t gpupool_stream_create(gpupool_t* pool, gpupool_stream_t* out_stream) {
  const auto create = [](Pool& self, Stream& stream) { return self.device().raw().create_stream(stream); };
  return call(pool, create, Out{out_stream, "out_stream"});
}

gpupool_status_t gpupool_stream_destroy(gpupool_t* pool, gpupool_stream_t stream) {
  return on_pool(pool, [&](Pool& self) -> Status {
    if (const Status status = check_stream(stream); status != kSuccess) return status;
    if (const Status status = self.release_stream(stream); status != kSuccess) return status;
    return self.device().raw().destroy_stream(stream);
  });
}

gpupool_status_t gpupool_stream_synchronize(gpupool_t* pool, gpupool_stream_t stream) {
  return call(pool, &Pool::synchronize_stream, stream);
}

gpupool_status_t gpupool_copy(gpupool_t* pool, gpupool_ptr_t destination, gpupool_ptr_t source, uint64_t size,
                              gpupool_stream_t stream) {
  return on_pool(pool, [&](Pool& self) -> Status {
    if (size == 0) return kSuccess;
    if (destination == 0 || source == 0) return refuse_null(destination == 0 ? "destination" : "source");
    if (const Status status = check_stream(stream); status != kSuccess) return status;
    return self.device().raw().copy(destination, source, size, stream);
  });
}

gpupool_status_t gpupool_fill(gpupool_t* pool, gpupool_ptr_t destination, uint32_t value, uint64_t size,
                              gpupool_stream_t stream) {
  return on_pool(pool, [&](Pool& self) -> Status {
    if (size == 0) return kSuccess;
    if (destination == 0) return refuse_null("destination");
    if (const Status status = check_stream(stream); status != kSuccess) return status;
    return self.device().raw().fill(destination, static_cast<uint8_t>(value & 0xff), size, stream);
  });
}

gpupool_status_t gpupool_sim_configure(int32_t device, const gpupool_sim_config_t* config) {
  if (config == nullptr) return refuse_null("config");
  return guarded([&]() -> Status {
    gpupool_sim_config_t whole{};
    if (const Status status = read_struct(config, whole, "config->struct_size"); status != kSuccess)
      return status;
    Registry::instance().end_those_left();  // one of them may be all that uses the device
    return sim_configure(device, whole);
  });
}

gpupool_status_t gpupool_sim_script(int32_t device, const char* script) {
  if (script == nullptr) return refuse_null("script");
  return call(sim_script, device, script);
}

gpupool_status_t gpupool_sim_work(int32_t device, gpupool_stream_t stream, gpupool_ptr_t ptr, uint64_t size,
                                  uint64_t nanoseconds) {
  return guarded([&]() -> Status {
    if (const Status status = check_stream(stream); status != kSuccess) return status;
    return sim_work(device, stream, ptr, size, nanoseconds);
  });
}

gpupool_status_t gpupool_sim_advance(int32_t device, uint64_t nanoseconds) {
  return call(sim_advance, device, nanoseconds);
}

gpupool_status_t gpupool_sim_capture(int32_t device, gpupool_stream_t stream, int32_t begin) {
  return guarded([&]() -> Status {
    if (begin < 0 || begin > 2)
      return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "begin is %d, not 0, 1 or 2", begin);
    if (const Status status = check_stream(stream); status != kSuccess) return status;
    return sim_capture(device, stream, begin != 0, begin == 2);
  });
}

gpupool_status_t gpupool_sim_launch(int32_t device, uint64_t capture, gpupool_stream_t stream) {
  return guarded([&]() -> Status {
    if (const Status status = check_stream(stream); status != kSuccess) return status;
    return sim_launch(device, capture, stream);
  });
}

gpupool_status_t gpupool_sim_faults(int32_t device, uint64_t* out_count, char* text, size_t capacity) {
  if (const Status status = expect_text(text, capacity, out_count); status != kSuccess) return status;
  return guarded([&] {
    uint64_t count = 0;
    const Status status = sim_faults(device, count, text, capacity);
    if (status == kSuccess && out_count != nullptr) *out_count = count;
    return status;
  });
}

}  // extern "C"
