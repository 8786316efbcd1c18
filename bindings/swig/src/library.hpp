// SPDX-License-Identifier: Apache-2.0
// The library's functions that belong to no pool. SWIG reads this file.
#pragma once

#include <string>

#include "core.hpp"
#include "log.hpp"

namespace binding {

/// The version of the loaded library: major * 10000 + minor * 100 + patch.
inline uint32_t version() {
  return gpupool_version();
}
inline std::string version_string() {
  return gpupool_version_string();
}
/// Bits of Feature.
inline uint64_t features() {
  return gpupool_features();
}
/// The name of a status in C.
inline std::string status_name(gpupool_status_t status) {
  return gpupool_status_name(status);
}
/// Sends log lines up to this level to a function of the language, for the whole process; without one, to
/// standard error. It may be called on any thread, and must not call gpupool. What it throws is printed.
inline void set_log(gpupool_log_level_t level, LogReceiver* receiver = nullptr) {
  LogSlot::set(level, std::shared_ptr<LogReceiver>(receiver));
}

/// A size as people write it, in bytes: "4096", "1.5 GiB", "8GB". Since 0.2.
inline uint64_t parse_size(const std::string& text) {
  uint64_t bytes = 0;
  check(gpupool_parse_size(text.c_str(), &bytes, nullptr));
  return bytes;
}
/// The result of parse_device.
struct DeviceChoice {
  /// A Backend.
  int32_t backend;
  int32_t device;
};
/// A device as people write it: "cuda:1", "sim", "2". Does not check whether it exists. Since 0.2.
inline DeviceChoice parse_device(const std::string& text) {
  gpupool_backend_t backend{};
  DeviceChoice choice{};
  check(gpupool_parse_device(text.c_str(), &backend, &choice.device));
  choice.backend = backend;
  return choice;
}

inline int32_t device_count(gpupool_backend_t backend) {
  int32_t count = 0;
  check(gpupool_device_count(backend, &count));
  return count;
}
inline gpupool_device_info_t device_info(gpupool_backend_t backend, int32_t device) {
  gpupool_device_info_t info{};
  info.struct_size = sizeof info;
  check(gpupool_device_info(backend, device, &info));
  return info;
}

// ---- watching all pools: see gpupool.h. Since 0.2.

/// Mallocs of this thread carry the name, in reports and recordings, until tag_pop.
inline void tag_push(const std::string& tag) {
  check(gpupool_tag_push(tag.c_str()));
}
inline void tag_pop() {
  check(gpupool_tag_pop());
}
/// The minimum mean distance of samples in bytes; 0: no samples.
inline void set_sampling(uint64_t bytes) {
  check(gpupool_set_sampling(bytes));
}
/// Records all pools to a new file, which the gpupool command reads. Flags are bits of RecordFlag.
inline void record_start(const std::string& path, uint32_t flags) {
  check(gpupool_record_start(path.c_str(), flags));
}
inline void record_stop() {
  check(gpupool_record_stop());
}
/// Marks a moment in the recording, such as "step 12".
inline void mark(const std::string& text) {
  check(gpupool_mark(text.c_str()));
}

/// Debug modes of pools created from now on: "poison,canary,fence,guard,annotate,quarantine=64MiB"; "": none.
inline void set_debug(const std::string& modes) {
  check(gpupool_set_debug(modes.c_str()));
}
/// What is or was at an address, in any pool of this process.
inline std::string why(gpupool_ptr_t address) {
  std::string text;
  size_t length = 0;
  do {
    text.resize(length);
    // A string has room for the terminating zero behind its text.
    check(gpupool_why(address, text.data(), text.size() + 1, &length));
  } while (length > text.size());
  text.resize(length);
  return text;
}

// ---- sleep of all pools with this name (without a tag: with any name): all of them, or none. Since 0.2.

/// With a target, so many bytes of them together: pools of the lowest priority first, then the idlest.
inline gpupool_sleep_result_t sleep_tag(const std::string& tag = "",
                                        gpupool_sleep_mode_t mode = GPUPOOL_SLEEP_MODE_SAVE,
                                        uint32_t flags = 0, uint64_t target = 0) {
  const gpupool_sleep_options_t options = sleep_options(mode, flags, 0, 0, target);
  gpupool_sleep_result_t result = no_result();
  check(gpupool_sleep_tag(tag.empty() ? nullptr : tag.c_str(), &options, &result));
  return result;
}
inline gpupool_sleep_result_t wake_tag(const std::string& tag = "", uint64_t timeout_nanoseconds = 0,
                                       uint32_t flags = 0) {
  const gpupool_sleep_options_t options =
      sleep_options(GPUPOOL_SLEEP_MODE_SAVE, flags, 0, timeout_nanoseconds);
  gpupool_sleep_result_t result = no_result();
  check(gpupool_wake_tag(tag.empty() ? nullptr : tag.c_str(), &options, &result));
  return result;
}

// ---- the simulated device: see gpupool.h

inline void sim_configure(int32_t device, const gpupool_sim_config_t& config) {
  check(gpupool_sim_configure(device, &config));
}
inline void sim_script(int32_t device, const std::string& script) {
  check(gpupool_sim_script(device, script.c_str()));
}
inline void sim_work(int32_t device, StreamArgument stream, gpupool_ptr_t address, uint64_t size,
                     uint64_t nanoseconds) {
  const StreamUse use(stream);
  check(gpupool_sim_work(device, use.number(), address, size, nanoseconds));
}
inline void sim_advance(int32_t device, uint64_t nanoseconds) {
  check(gpupool_sim_advance(device, nanoseconds));
}
/// Work, fills and copies queued meanwhile are recorded for sim_launch, not done.
inline void sim_capture(int32_t device, StreamArgument stream, bool begin) {
  const StreamUse use(stream);
  check(gpupool_sim_capture(device, use.number(), begin ? 1 : 0));
}
/// Holds the memory mapped at an address as another library such as NCCL would; 0 ends that. Since 0.2.
inline void sim_hold(int32_t device, gpupool_ptr_t address) {
  check(gpupool_sim_hold(device, address));
}
/// Queues on a stream of the device what an ended capture recorded, by the number that Pool's capture_id
/// returned. Since 0.2.
inline void sim_launch(int32_t device, uint64_t capture, StreamArgument stream) {
  const StreamUse use(stream);
  check(gpupool_sim_launch(device, capture, use.number()));
}
/// How many of the device's rules have been broken so far.
inline uint64_t sim_faults(int32_t device) {
  uint64_t count = 0;
  check(gpupool_sim_faults(device, &count, nullptr, 0));
  return count;
}
/// A description of the last one; empty if there was none.
inline std::string sim_last_fault(int32_t device) {
  char text[1024] = "";
  check(gpupool_sim_faults(device, nullptr, text, sizeof text));
  return text;
}

}  // namespace binding
