// SPDX-License-Identifier: Apache-2.0
// The functions of the library that belong to no pool. SWIG reads this file.
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
/// Sends lines of the log up to this level to a function of the language, for the whole process; without one
/// to standard error. It may be called on any thread, and must not call gpupool. What it throws is printed.
inline void set_log(gpupool_log_level_t level, LogReceiver* receiver = nullptr) {
  LogSlot::set(level, std::shared_ptr<LogReceiver>(receiver));
}

/// A size as people write it, in bytes: "4096", "1.5 GiB", "8GB". Since 0.2.
inline uint64_t parse_size(const std::string& text) {
  uint64_t bytes = 0;
  check(gpupool_parse_size(text.c_str(), &bytes, nullptr));
  return bytes;
}
/// What parse_device gives.
struct DeviceChoice {
  /// A Backend.
  int32_t backend;
  int32_t device;
};
/// A device as people write it: "cuda:1", "sim", "2". Does not ask whether it is there. Since 0.2.
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
/// The least mean distance of samples in bytes; 0: none.
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
/// Notes a moment in the recording, such as "step 12".
inline void mark(const std::string& text) {
  check(gpupool_mark(text.c_str()));
}

// ---- sleep of all pools with a name, or, without a tag, with any: all of them, or none. Since 0.2.

inline gpupool_sleep_result_t sleep_tag(const std::string& tag = "",
                                        gpupool_sleep_mode_t mode = GPUPOOL_SLEEP_MODE_SAVE,
                                        uint32_t flags = 0) {
  const gpupool_sleep_options_t options = sleep_options(mode, flags, 0, 0);
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
/// Work, fills and copies that are queued meanwhile are kept for sim_launch, and not done.
inline void sim_capture(int32_t device, StreamArgument stream, bool begin) {
  const StreamUse use(stream);
  check(gpupool_sim_capture(device, use.number(), begin ? 1 : 0));
}
/// Lets somebody else hold the memory that is mapped at an address, as NCCL does; 0 ends that. Since 0.2.
inline void sim_hold(int32_t device, gpupool_ptr_t address) {
  check(gpupool_sim_hold(device, address));
}
/// Queues on a stream of the device what an ended capture recorded, by the number that Pool's capture_id
/// gave. Since 0.2.
inline void sim_launch(int32_t device, uint64_t capture, StreamArgument stream) {
  const StreamUse use(stream);
  check(gpupool_sim_launch(device, capture, use.number()));
}
/// How many rules of the device were broken so far.
inline uint64_t sim_faults(int32_t device) {
  uint64_t count = 0;
  check(gpupool_sim_faults(device, &count, nullptr, 0));
  return count;
}
/// The last one in words; empty if there was none.
inline std::string sim_last_fault(int32_t device) {
  char text[1024] = "";
  check(gpupool_sim_faults(device, nullptr, text, sizeof text));
  return text;
}

}  // namespace binding
