// SPDX-License-Identifier: Apache-2.0
// The library as the command uses it: statuses as exceptions, pools and streams that clean up after
// themselves, devices by name.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "gpupool/gpupool.h"

namespace gpupool::cli {

/// What the user gave is wrong: a bad option, a broken trace, an unknown device. Exit status 2.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A call of the library failed: "what: STATUS_NAME: the library's own words". Exit status 1.
class LibraryError : public std::runtime_error {
 public:
  LibraryError(std::string_view what, gpupool_status_t status);
};

/// The words of gpupool_last_error for a status that a call of this thread just gave; "" if there are none.
std::string last_words(gpupool_status_t status);

/// "STATUS_NAME: the words of gpupool_last_error", for a status that a call of this thread just gave.
std::string describe(gpupool_status_t status);

/// Throws LibraryError unless status is success.
void check(gpupool_status_t status, std::string_view what);

/// Whether a status says that the caller asked for what cannot be, rather than that something broke.
bool is_callers_fault(gpupool_status_t status) noexcept;

/// The device that `text` names, as gpupool_parse_device reads it. Throws InputError when there is none.
gpupool_device_info_t find_device(const std::string& text);

/// "sim:0" or "cuda:1".
std::string device_label(const gpupool_device_info_t& info);

/// Tells a simulated device whether its memory holds data. Does nothing for other backends. Must come
/// before the first pool on the device.
void configure_data(const gpupool_device_info_t& info, bool with_data);

/// A configuration with all defaults for a device.
gpupool_config_t config_for(const gpupool_device_info_t& info);

/// Owns a pool.
class Pool {
 public:
  /// Throws InputError where the configuration is at fault, else LibraryError.
  explicit Pool(const gpupool_config_t& config);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  gpupool_t* get() const noexcept { return pool_; }
  gpupool_stats_t stats() const;

 private:
  gpupool_t* pool_ = nullptr;
};

/// Owns a stream of a pool, which must outlive it.
class OwnedStream {
 public:
  explicit OwnedStream(const Pool& pool);
  ~OwnedStream();
  OwnedStream(OwnedStream&& other) noexcept;
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;

  gpupool_stream_t get() const noexcept { return stream_; }

 private:
  const Pool* pool_;
  gpupool_stream_t stream_ = 0;
};

}  // namespace gpupool::cli
