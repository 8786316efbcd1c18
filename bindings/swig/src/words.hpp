// SPDX-License-Identifier: Apache-2.0
// Arguments that come as words, and objects in words.
#pragma once

#include <string>
#include <string_view>

#include "core.hpp"

namespace binding {

// ---- arguments

/// For languages whose 64-bit integers have a sign.
inline gpupool_error_t negative_number(const char* argument, int64_t number) {
  gpupool_error_t error = make_error(GPUPOOL_ERROR_INVALID_ARGUMENT, "");
  (void)std::snprintf(error.message, sizeof error.message, "%s is %lld: it must not be negative", argument,
                      static_cast<long long>(number));
  return error;
}

/// Refuses a value that is no byte; the library would take its low 8 bits.
inline uint32_t byte_of(int32_t value) {
  if (value < 0 || value > 255) refuse("value is " + std::to_string(value) + ": a byte is 0 to 255");
  return static_cast<uint32_t>(value);
}

inline gpupool_config_t default_config() {
  gpupool_config_t config{};
  check(gpupool_config_init(&config, sizeof config));
  return config;
}

/// "cuda:1", "sim", "2": see gpupool_parse_device.
inline void set_device(gpupool_config_t& config, const std::string& device) {
  gpupool_backend_t backend{};
  check(gpupool_parse_device(device.c_str(), &backend, &config.device));
  config.backend = backend;
}

/// "8GiB" or "40%": see gpupool_parse_size. Replaces both limits.
inline void set_limit(gpupool_config_t& config, const std::string& limit) {
  uint64_t bytes = 0;
  double share = 0;
  check(gpupool_parse_size(limit.c_str(), &bytes, &share));
  config.limit_bytes = bytes;
  config.fraction = share;
}

/// The arguments that a script may give to a method that SWIG overloads, for messages. Null: the method is
/// not overloaded.
inline const char* arguments_of(std::string_view method) {
  if (method == "Pool") return "nothing, a Config, or strings: a device and a limit";
  if (method == "read_backup") return "an address and a length, or the address alone";
  if (method == "read") return "an offset and a length, or none of them";
  if (method == "free") return "a stream, or nothing";
  if (method.starts_with("set_limit") || method == "limit=")
    return "a number of bytes, or a string such as 8GiB or 40%";
  return nullptr;
}

// ---- objects

/// "1536 KiB", "2 MiB": at most four digits, cut.
inline std::string bytes_in_words(uint64_t bytes) {
  const char* const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  size_t unit = 0;
  while (bytes >= 10000 || (bytes >= 1024 && bytes % 1024 == 0)) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + (bytes == 1 && unit == 0 ? " byte" : std::string(" ") + units[unit]);
}

inline std::string describe_stats(const gpupool_stats_t& stats) {
  const uint64_t blocks = stats.all.allocated_blocks.current;
  std::string text = bytes_in_words(stats.all.reserved_bytes.current);
  if (stats.limit_bytes != 0) text += " of " + bytes_in_words(stats.limit_bytes);
  return text + " reserved, " + std::to_string(blocks) + (blocks == 1 ? " block live" : " blocks live");
}

/// "sim:0": the backend that GPUPOOL_BACKEND_AUTO stands for, if it is known.
inline std::string describe_device(gpupool_backend_t backend, int32_t device) {
  gpupool_device_info_t info{};
  info.struct_size = sizeof info;
  if (gpupool_device_info(backend, device, &info) == GPUPOOL_SUCCESS) {
    backend = static_cast<gpupool_backend_t>(info.backend);
  }
  const char* const name = gpupool_backend_name(backend);
  return std::string(name != nullptr ? name : "auto") + ":" + std::to_string(device);
}

inline std::string hexadecimal(uint64_t number) {
  char text[32];
  (void)std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(number));
  return text;
}

inline std::string describe_stream(const OwnedStream& stream) {
  return stream.is_closed() ? "stream: closed" : "stream " + hexadecimal(stream.number());
}

inline std::string describe_block(uint64_t size, gpupool_ptr_t address, gpupool_stream_t stream,
                                  bool is_freed) {
  const std::string text = "block of " + bytes_in_words(size);
  if (is_freed) return text + ": freed";
  return text + " at " + hexadecimal(address) + " on stream " + hexadecimal(stream);
}

}  // namespace binding
