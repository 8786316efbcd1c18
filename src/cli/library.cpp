// SPDX-License-Identifier: Apache-2.0
#include "cli/library.hpp"

#include <fmt/format.h>

#include <utility>

namespace gpupool::cli {

std::string last_words(gpupool_status_t status) {
  gpupool_error_t error{};
  error.struct_size = sizeof error;
  if (gpupool_last_error(&error) != GPUPOOL_SUCCESS || error.status != status) return "";
  return error.message;
}

std::string describe(gpupool_status_t status) {
  const std::string words = last_words(status);
  const std::string name = gpupool_status_name(status);
  return words.empty() ? name : fmt::format("{}: {}", name, words);
}

LibraryError::LibraryError(std::string_view what, gpupool_status_t status)
    : std::runtime_error(fmt::format("{}: {}", what, describe(status))) {}

void check(gpupool_status_t status, std::string_view what) {
  if (status != GPUPOOL_SUCCESS) throw LibraryError(what, status);
}

bool is_callers_fault(gpupool_status_t status) noexcept {
  return status == GPUPOOL_ERROR_INVALID_ARGUMENT || status == GPUPOOL_ERROR_UNAVAILABLE ||
         status == GPUPOOL_ERROR_UNSUPPORTED;
}

gpupool_device_info_t find_device(const std::string& text) {
  gpupool_backend_t backend{};
  int32_t number = 0;
  if (const auto status = gpupool_parse_device(text.c_str(), &backend, &number); status != GPUPOOL_SUCCESS) {
    throw InputError(fmt::format("--device: {}", last_words(status)));
  }
  gpupool_device_info_t info{};
  info.struct_size = sizeof info;
  const gpupool_status_t status = gpupool_device_info(backend, number, &info);
  if (is_callers_fault(status)) {
    throw InputError(fmt::format("device {} cannot be used: {}", text, describe(status)));
  }
  check(status, fmt::format("device {}", text));
  return info;
}

std::string device_label(const gpupool_device_info_t& info) {
  return fmt::format("{}:{}", info.backend == GPUPOOL_BACKEND_SIM ? "sim" : "cuda", info.device);
}

void configure_data(const gpupool_device_info_t& info, bool with_data) {
  if (info.backend != GPUPOOL_BACKEND_SIM) return;
  gpupool_sim_config_t config{};
  config.struct_size = sizeof config;
  config.data = with_data ? 1 : 2;
  check(gpupool_sim_configure(info.device, &config), "configuring the simulated device");
}

gpupool_config_t config_for(const gpupool_device_info_t& info) {
  gpupool_config_t config;
  check(gpupool_config_init(&config, sizeof config), "gpupool_config_init");
  config.backend = info.backend;
  config.device = info.device;
  return config;
}

Pool::Pool(const gpupool_config_t& config) {
  const gpupool_status_t status = gpupool_create(&config, &pool_);
  if (is_callers_fault(status)) {
    throw InputError(fmt::format("a pool with these options cannot be created: {}", describe(status)));
  }
  check(status, "creating a pool");
}

Pool::~Pool() {
  gpupool_destroy(pool_);
}

gpupool_stats_t Pool::stats() const {
  gpupool_stats_t stats{};
  stats.struct_size = sizeof stats;
  check(gpupool_stats(pool_, &stats), "gpupool_stats");
  return stats;
}

OwnedStream::OwnedStream(const Pool& pool) : pool_(&pool) {
  check(gpupool_stream_create(pool.get(), &stream_), "creating a stream");
}

OwnedStream::~OwnedStream() {
  if (pool_ != nullptr) gpupool_stream_destroy(pool_->get(), stream_);
}

OwnedStream::OwnedStream(OwnedStream&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), stream_(other.stream_) {}

}  // namespace gpupool::cli
