// SPDX-License-Identifier: Apache-2.0
#include "cli/base/library.hpp"

#include <fmt/format.h>

#include "gpupool/sim.hpp"

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
    throw InputError(fmt::format("device {}: {}", text, last_words(status)));
  }
  check(status);
  return info;
}

std::string device_label(int32_t backend, int32_t device) {
  const char* const name = gpupool_backend_name(backend);
  return fmt::format("{}:{}", name != nullptr ? name : "other", device);
}

std::string device_label(const gpupool_device_info_t& info) {
  return device_label(info.backend, info.device);
}

void configure_data(const gpupool_device_info_t& info, bool with_data) {
  if (info.backend == GPUPOOL_BACKEND_SIM) sim::configure(info.device, {.data = with_data ? 1U : 2U});
}

Config config_for(const gpupool_device_info_t& info) {
  return {.device = info.device, .backend = static_cast<Backend>(info.backend)};
}

Pool create_pool(const Config& config) {
  try {
    return Pool(config);
  } catch (const Error& error) {
    if (!is_callers_fault(error.status())) throw;
    throw InputError(fmt::format("a pool with these options cannot be created: {}", error.what()));
  }
}

}  // namespace gpupool::cli
