// SPDX-License-Identifier: Apache-2.0
// What the command adds to gpupool.hpp: errors caused by the user, and devices by name.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "gpupool/gpupool.hpp"

namespace gpupool::cli {

/// Bad input from the user: a bad option, a broken trace, an unknown device. Exit status 2.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The message of gpupool_last_error for a status just returned on this thread; "" if there is none.
std::string last_words(gpupool_status_t status);

/// "STATUS_NAME: message of gpupool_last_error", for a status just returned on this thread.
std::string describe(gpupool_status_t status);

/// Whether a status means that the caller asked for something impossible, rather than that something broke.
bool is_callers_fault(gpupool_status_t status) noexcept;

/// The device that `text` names, as gpupool_parse_device reads it. Throws InputError if there is none.
gpupool_device_info_t find_device(const std::string& text);

/// "sim:0" or "cuda:1".
/// "cuda:0"; "other:0" for a backend that this library does not know.
std::string device_label(int32_t backend, int32_t device);
std::string device_label(const gpupool_device_info_t& info);

/// Tells a simulated device whether its memory holds data. Does nothing for other backends. Call it before
/// the first pool on the device.
void configure_data(const gpupool_device_info_t& info, bool with_data);

/// A configuration with all defaults for a device.
Config config_for(const gpupool_device_info_t& info);

/// Throws InputError if the configuration is at fault, else Error.
Pool create_pool(const Config& config);

}  // namespace gpupool::cli
